"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from structlog.contextvars import clear_contextvars

# Examples that are slow on a busy machine are no failures; pytest's timeout ends endless ones.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _log_context() -> Iterator[None]:
    """Leave nothing of what a test was about in the log lines of the next."""
    yield
    clear_contextvars()
