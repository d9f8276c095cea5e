"""Named points between durable steps, where a test may end the process.

What a driver leaves behind when it is killed between two writes can only be tested by killing it
there. Each durable step (see `cdi.durable`) and each answer to kubelet reaches its point; nothing
happens unless a listener is installed, and only the crash tests' launcher installs one. The
plugin's points stand here too: this package is below it, and there is one list.
"""

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    """Every point; each is passed when what it names has just been done."""

    # A start.
    PLUGIN_DIRECTORY_MADE = "plugin-directory-made"
    STATE_DIRECTORY_MADE = "state-directory-made"
    LOCK_FILE_MADE = "lock-file-made"
    SNAPSHOT_TEMPORARY_WRITTEN = "snapshot-temporary-written"
    SNAPSHOT_WRITTEN = "snapshot-written"
    JOURNAL_MADE = "journal-made"
    JOURNAL_SYNCED = "journal-synced"
    JOURNAL_OPENED = "journal-opened"
    GENERATION_DROPPED = "generation-dropped"
    BOOT_ID_TEMPORARY_WRITTEN = "boot-id-temporary-written"
    BOOT_ID_WRITTEN = "boot-id-written"
    MODE_TEMPORARY_WRITTEN = "mode-temporary-written"
    MODE_WRITTEN = "mode-written"
    CDI_DIRECTORY_MADE = "cdi-directory-made"
    DRA_SOCKET_BOUND = "dra-socket-bound"
    REGISTRATION_SOCKET_BOUND = "registration-socket-bound"
    LIBRARY_DIRECTORY_MADE = "library-directory-made"
    LIBRARY_TEMPORARY_WRITTEN = "library-temporary-written"
    LIBRARY_COPIED = "library-copied"

    # A start after a crash.
    JOURNAL_CUT = "journal-cut"
    TEMPORARY_SWEPT = "temporary-swept"
    STALE_SOCKET_REMOVED = "stale-socket-removed"

    # What the API server keeps.
    SLICE_WRITTEN = "slice-written"
    SLICE_DELETED = "slice-deleted"
    CLAIM_STATUS_WRITTEN = "claim-status-written"

    # Registration with kubelet.
    INFO_ANSWERED = "info-answered"
    REGISTRATION_ANSWERED = "registration-answered"

    # A prepare.
    PREPARE_BEFORE_RECORD = "prepare-before-record"
    RECORD_APPENDED = "record-appended"
    RECORD_SYNCED = "record-synced"
    REGION_DIRECTORY_MADE = "region-directory-made"
    REGION_MOUNTED = "region-mounted"
    REGION_TEMPORARY_MADE = "region-temporary-made"
    REGION_CREATED = "region-created"
    SPEC_TEMPORARY_WRITTEN = "spec-temporary-written"
    SPEC_WRITTEN = "spec-written"
    PREPARE_ANSWERED = "prepare-answered"

    # An unprepare.
    UNPREPARE_BEFORE_UNDO = "unprepare-before-undo"
    SPEC_DELETED = "spec-deleted"
    REGION_UNMOUNTED = "region-unmounted"
    REGION_FILE_REMOVED = "region-file-removed"
    REGION_REMOVED = "region-removed"
    UNPREPARE_ANSWERED = "unprepare-answered"

    # What a disk without room leads to.
    TEMPORARY_DROPPED = "temporary-dropped"
    RECORD_TAKEN_BACK = "record-taken-back"
    SNAPSHOT_TAKEN_BACK = "snapshot-taken-back"

    # A region that a container has left.
    REGION_EMPTIED = "region-emptied"
    REGION_RESET = "region-reset"

    # A state that cannot be read.
    REBUILD_MARKED = "rebuild-marked"
    ASIDE_DIRECTORY_MADE = "aside-directory-made"
    MOVED_ASIDE = "moved-aside"
    ASIDE_DROPPED = "aside-dropped"
    REBUILD_ENDED = "rebuild-ended"

    # A container that gets its GPUs by the device plugin.
    CONTAINERS_DIRECTORY_MADE = "containers-directory-made"
    CONTAINER_TEMPORARY_WRITTEN = "container-temporary-written"
    CONTAINER_WRITTEN = "container-written"
    LOCK_DIRECTORY_MADE = "lock-directory-made"
    CONTAINER_REMOVED = "container-removed"

    # A library that is delivered, and one that nobody uses any more.
    LIBRARY_LINK_MADE = "library-link-made"
    LIBRARY_LINKED = "library-linked"
    LIBRARY_FILE_REMOVED = "library-file-removed"
    LIBRARY_REMOVED = "library-removed"

    # A MIG instance that is made for a container, or taken away.
    PARTITIONS_TEMPORARY_WRITTEN = "partitions-temporary-written"
    PARTITIONS_WRITTEN = "partitions-written"


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
