"""The chart installed on a cluster of one node, by the real helm with images built here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.charts import tools
from tests.charts.rendering import merged
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.errors import MissingError
from tests.cluster.installing import simulated, software
from tests.cluster.installing.release import Release
from tests.cluster.up import bring_up

_HERE = "tests/cluster/installing/"
_LEFT_OUT = pytest.StashKey[str]()
_OLDER = ("1.33", "1.34", "1.35")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out where image or helm are not built, and those of other releases."""
    ours = [item for item in items if item.nodeid.startswith(_HERE)]
    if not ours:
        return
    try:
        tools.check()
        software.check()
        older = minor_of(config) in _OLDER
        unfit = [
            item for item in ours if item.path.stem == f"test_{'claims' if older else 'older'}"
        ]
    except MissingError as error:
        if config.getoption("--require-charts"):
            raise pytest.UsageError(str(error)) from error
        unfit = ours
        config.stash[_LEFT_OUT] = f"{len(ours)} tests of an installation were left out: {error}"
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    if line := config.stash.get(_LEFT_OUT, ""):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[RealCluster]:
    """Return a cluster whose only node has a kubelet, so that pods of ours run anywhere."""
    options = Options(minor=minor_of(request.config), nodes=1)
    with bring_up(session_folder / "installing", options) as running:
        yield running


@pytest.fixture(scope="session")
def prepared(cluster: RealCluster) -> Iterator[Release]:
    """Return a release that is not installed yet, on a node with GPUs and images."""
    simulated.lay_out(cluster)
    values = merged(
        software.load(cluster),
        {
            "kubeletPlugin": simulated.agent_values(),
            # Nobody should have to wait for a minute until unused templates are gone.
            "webhook": {"settings": {"drainS": 1, "templateGraceS": 2}},
        },
    )
    with cluster.client() as client:
        yield Release(cluster=cluster, client=client, values=values)


@pytest.fixture
def release(prepared: Release) -> Release:
    """Return the installed release; what a test before has taken away is installed again."""
    if not prepared.revision():
        prepared.install()
    return prepared
