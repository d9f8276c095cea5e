"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from structlog.contextvars import clear_contextvars

# Examples that are slow on a busy machine are no failures; pytest's timeout ends endless ones.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what runs of the whole suite may say."""
    parser.addoption(
        "--require-charts", action="store_true", help="fail where the chart cannot be rendered"
    )
    parser.addoption("--require-image", action="store_true", help="fail where no image was built")


@pytest.fixture(autouse=True)
def _log_context() -> Iterator[None]:
    """Leave nothing of what a test was about in the log lines of the next."""
    yield
    clear_contextvars()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what failed and was tried again, where a run tries twice: a pass hides nothing."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}", yellow=True)
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_line(f"--- {title}\n{text}")
