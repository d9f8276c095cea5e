"""What the chart's tests need; without it they are left out, with one line that says so.

With --require-charts a missing program is an error rather than a line.
"""

from typing import Final

import pytest

from tests.charts.tools import check
from tests.cluster.errors import MissingError

_LEFT_OUT: Final = pytest.StashKey[str]()
_HERE: Final = "tests/charts/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave this folder's tests out where a program is missing."""
    ours = [item for item in items if item.nodeid.startswith(_HERE)]
    if not ours:
        return
    try:
        check()
    except MissingError as error:
        if config.getoption("--require-charts"):
            raise pytest.UsageError(str(error)) from error
        config.stash[_LEFT_OUT] = f"{len(ours)} tests of the chart were left out: {error}"
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    if line := config.stash.get(_LEFT_OUT, ""):
        terminalreporter.write_line(line)
