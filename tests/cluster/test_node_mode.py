"""How a node without a label is served on real API servers: they are asked what they keep."""

from pathlib import Path

import pytest

from cli.nodeagent.mode import Mode
from tests.cluster.alone import Alone, alone, serving, shares_by_default
from tests.cluster.conftest import minor_of
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

AUTO = "--mode=auto"
GATE = "DRAConsumableCapacity"


@pytest.fixture
def minor(request: pytest.FixtureRequest) -> str:
    """Return the release of the API server."""
    return minor_of(request.config)


@pytest.fixture
def folder(session_folder: Path) -> Path:
    """Return where the API server keeps its files."""
    return session_folder / "alone"


def chosen(server: Alone) -> list[str]:
    """Return the modes of all starts."""
    return [str(each["mode"]) for each in server.logged("node mode chosen")]


@pytest.mark.parametrize("version", ["v1", "v1beta1", None])
def test_the_release_decides(minor: str, folder: Path, version: str | None) -> None:
    """Claims where shares are kept, in whichever version of the API; nothing is left behind."""
    if version == "v1" and minor == "1.33":
        pytest.skip("there is no v1")
    with alone(folder, serving(minor, *filter(None, [version]))) as server:
        server.start_agent(AUTO)
        keeps = version is not None and shares_by_default(minor)
        assert chosen(server) == [Mode.DRA if keeps else Mode.DEVICE_PLUGIN]
        if version is not None and not keeps:
            assert server.slices(version) == []


def test_a_gate_that_is_switched_moves_an_idle_node(minor: str, folder: Path) -> None:
    """As an update of the control plane does: the agent ends by itself, and starts otherwise."""
    if minor == "1.33":
        pytest.skip("there is no such gate")
    with alone(folder, serving(minor, "v1", gates={GATE: False})) as server:
        server.start_agent(AUTO)
        assert chosen(server) == [Mode.DEVICE_PLUGIN]
        for on, mode in ((True, Mode.DRA), (False, Mode.DEVICE_PLUGIN)):
            server.serve("v1", gates={GATE: on})
            eventually(lambda: not server.is_running())
            server.start_agent(AUTO)
            eventually(lambda mode=mode: chosen(server)[-1] == mode)  # type: ignore[misc]
