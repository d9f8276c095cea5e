"""Every backend over HTTP: its registration in, `/filter` and `/bind`, its annotations out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from tests.extender.backends.cases import Kind, Scenario, scenarios
from tests.extender.backends.playing import Play
from tests.extender.backends.programs import CONFIGURED, Process, extender
from tests.fakes.api_server import ServerThread, serving

SCENARIOS: Final = {str(each): each for each in scenarios()}


def _names(*kinds: Kind) -> list[str]:
    return [name for name, each in SCENARIOS.items() if each.kind in kinds]


RESTARTED: Final = _names(Kind.RESTART)


@dataclass(frozen=True, slots=True)
class Begun:
    """What was played on a program that has ended since."""

    play: Play
    error: AssertionError | None


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    """Run one API server for all."""
    with serving("1.34") as running:
        yield running


@pytest.fixture(scope="module")
def plays(server: ServerThread) -> Iterator[Mapping[str, Play]]:
    """Make the nodes and quotas of all scenarios, each with names of its own."""
    client = server.client("admin")
    found = {
        name: Play(scenario, client, f"s{number:03d}-")
        for number, (name, scenario) in enumerate(SCENARIOS.items())
    }
    for play in found.values():
        play.set()
    yield found
    client.close()


@pytest.fixture(scope="module")
def begun(
    server: ServerThread,
    plays: Mapping[str, Play],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, Begun]:
    """Play what comes before a restart on a program that ends then."""
    found = {}
    with extender(server, tmp_path_factory.mktemp("first")) as program:
        for name in RESTARTED:
            error = None
            try:
                plays[name].run(SCENARIOS[name].before, program)
            except AssertionError as failed:
                error = failed
            found[name] = Begun(plays[name], error)
    return found


@pytest.fixture(scope="module")
def program(
    server: ServerThread, begun: Mapping[str, Begun], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """Run a second program, which starts when the first has ended."""
    assert begun
    with extender(server, tmp_path_factory.mktemp("second")) as running:
        yield running


@pytest.fixture(scope="module")
def configured(
    server: ServerThread, plays: Mapping[str, Play], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """Run a program with other settings."""
    assert plays
    with extender(server, tmp_path_factory.mktemp("configured"), CONFIGURED) as running:
        yield running


@pytest.mark.parametrize("name", _names(Kind.FORM, Kind.RULE, Kind.CHOICE, Kind.QUOTA))
def test_backend_over_http(name: str, plays: Mapping[str, Play], program: Process) -> None:
    """Devices, refusals, annotations and locks are what the vendor's own parts expect."""
    scenario: Scenario = SCENARIOS[name]
    plays[name].run(scenario.before, program)


@pytest.mark.parametrize("name", RESTARTED)
def test_backend_after_a_restart(name: str, begun: Mapping[str, Begun], program: Process) -> None:
    """A program that starts from nothing gives what is left, and refuses what is taken."""
    error = begun[name].error
    if error is not None:
        raise error
    begun[name].play.run(SCENARIOS[name].after, program)


@pytest.mark.parametrize("name", _names(Kind.CONFIGURED))
def test_backend_as_configured(name: str, plays: Mapping[str, Play], configured: Process) -> None:
    """What `device-config.yaml` says of a vendor acts."""
    plays[name].run(SCENARIOS[name].before, configured)
