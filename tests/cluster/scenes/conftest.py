"""The driver for all scenes of a session, a stage for each, and the count of those that ran.

Which scenes run is what docs/scenes.md says of the cluster's column. With --all-scenes the session
fails when fewer passed than that; with --smoke the smoke set is all there is.
"""

from collections.abc import Generator, Iterator
from typing import Final

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.conftest import minor_of
from tests.cluster.scenes.driver import Driver, running_driver
from tests.cluster.scenes.stage import Stage, stage_of
from tests.cluster.scenes.table import column_of, read_table

_PASSED: Final = pytest.StashKey[set[str]]()
_WANTED: Final = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; they are unknown when pytest meets this folder after it has started."""
    group = parser.getgroup("cluster")
    group.addoption("--all-scenes", action="store_true", help="fail unless all of them passed")
    group.addoption("--smoke", action="store_true", help="play the smoke set alone")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_PASSED] = set()


def _scene(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("scene")
    return str(mark.args[0]) if mark else None


def _column(config: pytest.Config) -> str:
    return column_of(minor_of(config), config.getoption("--gates", None) or {})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the scenes of the cluster's column; a scene that the table lacks is an error."""
    table = read_table()
    found = {item: name for item in items if (name := _scene(item))}
    unknown = set(found.values()) - set(table.scenes)
    if unknown:
        message = f"not in docs/scenes.md: {', '.join(sorted(unknown))}"
        raise pytest.UsageError(message)
    smoke = bool(config.getoption("--smoke", default=False))
    wanted = table.playing(_column(config), smoke=smoke)
    config.stash[_WANTED] = wanted
    unfit = [item for item, name in found.items() if name not in wanted]
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the scenes that pass."""
    report = yield
    name = _scene(item)
    if name and report.when == "call" and report.passed:
        item.config.stash[_PASSED].add(name)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when fewer scenes passed than the document says."""
    config = session.config
    if config.getoption("--all-scenes", default=False) and _missing(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _missing(config: pytest.Config) -> list[str]:
    passed = config.stash[_PASSED]
    return [name for name in config.stash.get(_WANTED, []) if name not in passed]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which scenes ran and which did not, and why."""
    if not config.getoption("--all-scenes", default=False):
        return
    column, wanted = _column(config), config.stash.get(_WANTED, [])
    passed = config.stash[_PASSED]
    terminalreporter.section(f"scenes on {column}")
    terminalreporter.write_line(f"{len(passed)} of {len(wanted)} passed")
    for name in wanted:
        terminalreporter.write_line(f"{'ran' if name in passed else 'MISSING':<8} {name}")
    for scene in read_table().scenes.values():
        reason = scene.left_out.get(column)
        if scene.name not in wanted:
            terminalreporter.write_line(
                f"left out {scene.name}: {reason or 'not in the smoke set'}"
            )


@pytest.fixture(scope="session")
def driver(cluster: RealCluster) -> Iterator[Driver]:
    """Return the driver, running on every node."""
    with running_driver(cluster) as driver:
        yield driver


@pytest.fixture
def stage(driver: Driver) -> Iterator[Stage]:
    """Return an empty stage."""
    with stage_of(driver) as stage:
        yield stage
