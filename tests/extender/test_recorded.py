"""What HAMi v2.10.0 answered, asked again here; see `tests.extender.recorded`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.extender.recorded import Play, Scenario, differences, scenarios
from tests.extender.recorded_memory import MemoryDriver
from tests.extender.recorded_served import Served, served

ROOT: Final = Path(__file__).parents[2]
SCENARIOS: Final = tuple(scenarios())


@pytest.fixture
def in_memory() -> Iterator[MemoryDriver]:
    """Return an extender that knows nothing yet."""
    driver = MemoryDriver()
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def program() -> Iterator[Served]:
    """Run the program for all scenarios; nobody plays a device plugin, so it takes no locks."""
    with served(node_lock=False) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_answers_are_those_of_hami(scenario: Scenario, in_memory: MemoryDriver) -> None:
    """Nodes, refusals, devices and amounts are as recorded, or differ as is written there."""
    Play(scenario, in_memory).run()


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.is_storable], ids=str)
def test_program_answers_over_http(scenario: Scenario, program: Served) -> None:
    """The same comes of the program, which learns of the cluster by watches and binds."""
    Play(scenario, program.driver()).run()


def test_every_difference_is_described() -> None:
    """Cases name only differences that are described, and each of those is shown by a case."""
    named = {
        step["differs"] for scenario in SCENARIOS for step in scenario.steps if "differs" in step
    }
    assert named == differences().keys()


def test_every_difference_is_documented() -> None:
    """The page for administrators has a row for each."""
    page = (ROOT / "docs" / "hami-compatibility.md").read_text()
    _, _, section = page.partition("## Differences that recorded cases show")
    rows = re.findall(r"^\| `([a-z-]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert set(rows) == differences().keys()
    assert len(rows) == len(set(rows))
