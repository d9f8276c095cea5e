"""A real cluster for tests that are marked `cluster`.

pytest itself stays outside: while such a test runs, its thread is in the cluster's network, and so
are the threads that it starts, so that test code reaches the API server at its service address
and breakpoints, coverage and fixtures work as anywhere. Files behind mounts are found with
`cluster.outside(path)`, and what needs the mounts too is run with `run_in` or `start`.

Options (for runs that name a path below this folder): --k8s MINOR, --cluster existing, and
--require-cluster, with which a missing cluster is an error rather than a line.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.__main__ import gates
from tests.cluster.assets import Assets, check_system, find
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.errors import MissingError
from tests.cluster.existing import ExistingCluster
from tests.cluster.go_modules import minors
from tests.cluster.places import default_state, state_base
from tests.cluster.slots import slot
from tests.cluster.up import bring_up

_TIMEOUT_S: Final = 300
_LEFT_OUT: Final = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; they are unknown when pytest meets this folder after it has started."""
    group = parser.getgroup("cluster")
    group.addoption("--k8s", choices=minors(), help="the Kubernetes minor of the cluster")
    group.addoption(
        "--cluster",
        choices=("own", "running", "existing"),
        help="running: what `python -m tests.cluster up` has made; existing: that of KUBECONFIG",
    )
    group.addoption("--gates", type=gates, default={}, help="feature gates: A=true,B=false")
    group.addoption("--require-cluster", action="store_true", help="fail where none can be had")


def minor_of(config: pytest.Config) -> str:
    """Return the Kubernetes minor that is asked for."""
    asked = config.getoption("--k8s", None)
    return str(asked) if asked else minors()[-1]


def uses_existing(config: pytest.Config) -> bool:
    """Tell whether the cluster of KUBECONFIG is to be used."""
    return bool(config.getoption("--cluster", None) == "existing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave marked tests out where no cluster can be had, and say so in one line."""
    marked = [item for item in items if item.get_closest_marker("cluster")]
    try:
        unfit = _unfit(config, marked)
    except MissingError as error:
        if config.getoption("--require-cluster", default=False):
            raise pytest.UsageError(str(error)) from error
        unfit = marked
        config.stash[_LEFT_OUT] = f"{len(marked)} tests on a real cluster were left out: {error}"
    for item in marked:
        # The first of them waits for the cluster to come up.
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]


def _unfit(config: pytest.Config, marked: list[pytest.Item]) -> list[pytest.Item]:
    """Return those that do not fit the cluster; MissingError when there is none for any."""
    if not marked:
        return []
    if not uses_existing(config):
        check_system()
        find(minor_of(config))
        return []
    ExistingCluster.from_environment()
    marks = ((item, item.get_closest_marker("cluster")) for item in marked)
    return [item for item, mark in marks if mark and mark.kwargs.get("nodes", True)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the cluster's logs with a marked test that fails."""
    report = yield
    if report.failed and (running := _cluster_of(item)):
        for path in sorted(running.state.logs.glob("*.log")):
            report.sections.append((f"end of {path.name}", running.last_lines(path.stem)))
    return report


def _cluster_of(item: pytest.Item) -> RealCluster | None:
    """Return the cluster that a test has used: as a fixture, or within one of its own."""
    found = getattr(item, "funcargs", {})
    held = [found.get("cluster"), *(getattr(each, "cluster", None) for each in found.values())]
    return next((each for each in held if isinstance(each, RealCluster)), None)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out and how to get it."""
    line = config.stash.get(_LEFT_OUT, None)
    if line:
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session")
def assets(request: pytest.FixtureRequest) -> Assets:
    """Return the programs of the cluster."""
    return find(minor_of(request.config))


@pytest.fixture(scope="session")
def session_folder() -> Iterator[Path]:
    """Return the folder for this session's clusters."""
    with slot(state_base(os.environ)) as folder:
        yield folder


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[RealCluster]:
    """Return the cluster of three nodes that all scenes of a session share."""
    if request.config.getoption("--cluster", None) == "running":
        running = RealCluster.attach(default_state())
        yield running
        running.let_go()
        return
    switched = request.config.getoption("--gates", None) or {}
    options = Options(minor=minor_of(request.config), nodes=3, gates=switched)
    with bring_up(session_folder / "cluster", options) as running:
        yield running


@pytest.fixture(scope="session")
def any_cluster(request: pytest.FixtureRequest) -> RealCluster | ExistingCluster:
    """Return a cluster of ours or that of KUBECONFIG, for scenes that need no node access."""
    if uses_existing(request.config):
        return ExistingCluster.from_environment()
    found = request.getfixturevalue("cluster")
    assert isinstance(found, RealCluster)
    return found


@pytest.fixture(autouse=True)
def _in_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put a marked test into its cluster's network while it runs."""
    mark = request.node.get_closest_marker("cluster")
    names = {"cluster", "any_cluster"}.intersection(request.fixturenames)
    if mark is None or not names:
        yield
        return
    with request.getfixturevalue(min(names)).network():
        yield
