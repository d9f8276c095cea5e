"""What the chart's tests need; without it they are left out, with one line that says so.

With --require-charts a missing program is an error rather than a line.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.charts.alertcases import promtool
from tests.charts.tools import check
from tests.cluster.errors import MissingError

_LEFT_OUT: Final = pytest.StashKey[str]()
_HERE: Final = "tests/charts/"
_QUERIES: Final = tuple(
    f"{_HERE}test_{name}.py" for name in ("alerts", "dashboard_queries", "prometheus")
)
_BOTH: Final = f"{_HERE}test_relabelings.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave this folder's tests out where a program is missing."""
    here = [item for item in items if item.nodeid.startswith(_HERE)]
    queries = [item for item in here if item.nodeid.startswith(_QUERIES)]
    both = [item for item in here if item.nodeid.startswith(_BOTH)]
    chart = [item for item in here if item not in queries and item not in both]
    missing: list[tuple[str, list[pytest.Item]]] = []
    for what, ours, looked in (
        ("the chart", chart, check),
        ("the queries", queries, promtool),
        ("the monitors", both, _check_both),
    ):
        if ours and (error := _missing(looked)) is not None:
            if config.getoption("--require-charts"):
                raise pytest.UsageError(str(error)) from error
            missing.append((f"{len(ours)} tests of {what} were left out: {error}", ours))
    left_out = [item for _, ours in missing for item in ours]
    if left_out:
        config.stash[_LEFT_OUT] = "\n".join(line for line, _ in missing)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _check_both() -> None:
    check()
    promtool()


def _missing(look: Callable[[], object]) -> MissingError | None:
    try:
        look()
    except MissingError as error:
        return error
    return None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    if line := config.stash.get(_LEFT_OUT, ""):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def _rendered_ahead(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make beside the tests, from the last one on, what those marked `ahead` find in a cache."""
    calls: dict[tuple[Any, ...], tuple[Callable[..., object], dict[str, object]]] = {}
    for item in reversed(request.session.items):
        if isinstance(item, pytest.Function) and item.nodeid.startswith(_HERE):
            for mark in item.iter_markers("ahead"):
                by, parameters = mark.kwargs["by"], item.callspec.params
                calls[(by, *parameters.items())] = (by, parameters)
    cores = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1))
    for by, parameters in calls.values():
        # What fails does so again in the test.
        cores.submit(by, **parameters)
    yield
    cores.shutdown(cancel_futures=True)
