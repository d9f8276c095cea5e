"""Named points between durable steps, where a test may end the process.

What a driver leaves behind when it is killed between two writes can only be tested by killing it
there. Each durable step and each answer reaches its point; nothing happens unless a listener is
installed, and only the crash tests' launcher installs one.
"""

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    """Every point, in the order in which a prepare and then an unprepare meet them."""

    PREPARE_BEFORE_RECORD = "prepare-before-record"
    RECORD_APPENDED = "record-appended"
    RECORD_SYNCED = "record-synced"
    REGION_MOUNTED = "region-mounted"
    REGION_CREATED = "region-created"
    SPEC_WRITTEN = "spec-written"
    PREPARE_ANSWERED = "prepare-answered"
    UNPREPARE_BEFORE_UNDO = "unprepare-before-undo"
    SPEC_DELETED = "spec-deleted"
    REGION_REMOVED = "region-removed"
    RELEASE_SYNCED = "release-synced"
    UNPREPARE_ANSWERED = "unprepare-answered"
    SNAPSHOT_WRITTEN = "snapshot-written"
    JOURNAL_OPENED = "journal-opened"
    GENERATION_DROPPED = "generation-dropped"


def _ignore(_point: FaultPoint) -> None:
    """Do nothing: the listener of every real process."""


_listener: Callable[[FaultPoint], None] = _ignore


def reach(point: FaultPoint) -> None:
    """Tell the listener that *point* is reached."""
    _listener(point)


def listen(listener: Callable[[FaultPoint], None]) -> None:
    """Install *listener* for this process."""
    global _listener  # noqa: PLW0603  # one per process, like a signal handler
    _listener = listener
