"""The plugin's durable memory of prepared claims, shared with a second instance of itself.

During a rolling update two plugin processes are registered at once and kubelet may call either
(kubelet 1.33 and newer), so nothing is trusted from memory: each transaction holds a file lock
and first reads what the other has appended. What is written inside a transaction is made durable
after the lock is given back, so that concurrent callers share one disk flush; a caller answers
kubelet only after that.

A state that cannot be read is no reason to leave kubelet without a plugin: it is set aside, and an
empty one begins that says of itself that claims may be missing. `dra.rebuild` finds them.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import structlog

from cdi import durable
from cdi.faults import FaultPoint, reach
from dra.bootfile import BootFile
from dra.contents import Contents, RebuildMark
from dra.filelock import FileLock
from dra.generations import Generations, UnknownFormatError
from dra.journal import DamagedError, decode_lines, encode_line, whole_lines
from dra.record import PreparedClaim
from dra.transaction import Transaction
from kube.objects import JsonObject

LOCK_WAIT_S = 15.0
"""How long to wait for another call or process: kubelet gives up after 45 seconds."""

_COMPACT_AFTER_RECORDS = 2000
_GLANCE_S = 0.2

log = structlog.get_logger(__name__)


class StateError(Exception):
    """The state cannot be locked or written: nobody may rely on the change."""


class StateStore:
    """Prepared claims by UID; every change goes through a transaction."""

    def __init__(self, directory: Path, *, boot_id: str, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self._directory = directory
        self._generations = Generations(directory)
        self._boot_id = boot_id
        self._boot_file = BootFile(directory / "boot-id")
        self._lock = FileLock(directory / "lock", wait_s=lock_wait_s)
        self._sync_mutex = threading.Lock()
        self._journal_descriptor = -1
        self._generation = 0
        self._offset = 0
        self._written = 0
        self._synced = 0
        self._doubtful = False
        self._contents = Contents()
        self._rebuild_problem = "has just begun"

    def open(self) -> str:
        """Read the state, start a new generation and return the boot id that wrote the old one.

        Raises `DamagedError` when a newer version wrote it, `StateError` when the directory
        cannot be used.
        """
        try:
            durable.make_directory(self._directory, FaultPoint.STATE_DIRECTORY_MADE, mode=0o750)
            self._lock.open()
            with self._lock.hold():
                return self._open()
        except OSError as error:
            raise self._failure(error) from error

    def _open(self) -> str:
        earlier = self._boot_file.read()
        try:
            previous = self._load()
        except UnknownFormatError:
            raise
        except DamagedError as error:
            self._begin_rebuild(error, earlier)
            previous = earlier
        else:
            if self._generation == 0:
                self._compact()
            else:
                # On a full disk claims can still be looked up and released.
                self._compact_if_possible()
        self._boot_file.write(self._boot_id)
        return previous

    def close(self) -> None:
        """Give the files back; the state stays as it is."""
        with self._lock.hold_here():
            if self._journal_descriptor >= 0:
                os.close(self._journal_descriptor)
            self._journal_descriptor = -1
            self._lock.close()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Hold the state alone, up to date; what was written is durable when this returns.

        Raises `StateError`, `DamagedError`, or `OSError` when the lock is not free in time.
        """
        with self._lock.hold():
            self._refresh()
            yield Transaction(self._contents, self._append)
            contents = self._contents
            if contents.records > _COMPACT_AFTER_RECORDS + 4 * len(contents.claims):
                self._compact_if_possible()
            mark = self._written
        self._sync(mark)

    def current(self) -> Mapping[str, PreparedClaim]:
        """Return a copy of all prepared claims by UID, those of another process too."""
        with self.transaction() as transaction:
            return MappingProxyType(dict(transaction.claims))

    def claims(self) -> Mapping[str, PreparedClaim]:
        """Return a copy of all prepared claims by UID, as last read."""
        with self._lock.hold_here():
            return MappingProxyType(dict(self._contents.claims))

    def latest(self) -> Mapping[str, PreparedClaim]:
        """Return the same as `current`, or as last read where that takes long; for reports."""
        try:
            with self._lock.hold(wait_s=_GLANCE_S):
                self._refresh()
        except (OSError, DamagedError) as error:
            log.warning("state not read", reason=str(error))
        return self.claims()

    def rebuild_problem(self) -> str | None:
        """Return what the rebuild of a damaged state waits for; `None` when there is none."""
        return self._rebuild_problem if self._contents.mark is not None else None

    def rebuild_mark(self) -> RebuildMark | None:
        """Return the mark of the rebuild that is under way, as last read."""
        return self._contents.mark

    def note_rebuild(self, problem: str) -> None:
        """Have `rebuild_problem` say *problem*."""
        self._rebuild_problem = problem

    def end_rebuild(self) -> bool:
        """Record durably that no claim is missing; tell whether a rebuild was under way."""
        try:
            with self._lock.hold():
                self._refresh()
                mark, self._contents.mark = self._contents.mark, None
                if mark is None:
                    return False
                try:
                    self._compact()
                except OSError:
                    self._contents.mark = mark
                    raise
        except OSError as error:
            raise self._failure(error) from error
        reach(FaultPoint.REBUILD_ENDED)
        return True

    def _refresh(self) -> None:
        """Take in what another process has appended, or the generation that it started."""
        try:
            self._read_changes()
        except UnknownFormatError:
            raise
        except DamagedError as error:
            # What was read before the damage is known for sure.
            self._begin_rebuild(error, self._boot_id)

    def _read_changes(self) -> None:
        if self._doubtful:
            self._load()
            self._compact()
        elif not self._generations.is_newest(self._generation):
            self._load()
        else:
            self._read_on()

    def _read_on(self) -> None:
        path = self._generations.journal_path(self._generation)
        size = os.fstat(self._journal_descriptor).st_size
        if size == self._offset:
            return
        if size < self._offset:
            raise DamagedError(path, f"has {size} bytes, had {self._offset}")
        data = os.pread(self._journal_descriptor, size - self._offset, self._offset)
        whole = whole_lines(data)
        if len(whole) < len(data):
            # Nobody else writes while the lock is held: the rest was cut by a crash.
            size = self._offset + len(whole)
            durable.truncate(self._journal_descriptor, size, FaultPoint.JOURNAL_CUT)
        for record in decode_lines(path, whole):
            self._contents.apply(record, path)
        self._offset += len(whole)
        # Whoever wrote it may not have made it durable yet, and this caller may answer by it.
        self._written += 1

    def _load(self) -> str:
        """Read everything, all or nothing, and return the boot id that is written there."""
        loaded = self._generations.load()
        path = self._generations.snapshot_path(loaded.generation)
        self._contents = Contents.of(loaded, path)
        self._generation = loaded.generation
        self._open_journal(loaded.journal_bytes)
        previous = loaded.snapshot.get("bootId", "")
        return previous if isinstance(previous, str) else ""

    def _open_journal(self, offset: int) -> None:
        path = self._generations.journal_path(self._generation)
        with self._sync_mutex:
            if self._journal_descriptor >= 0:
                os.close(self._journal_descriptor)
            self._journal_descriptor = -1
            self._journal_descriptor = durable.open_lasting(
                path, FaultPoint.JOURNAL_MADE, append=True
            )
            if not self._doubtful:
                # The snapshot that this journal follows was synced and holds all.
                self._synced = self._written
        if os.fstat(self._journal_descriptor).st_size > offset:
            durable.truncate(self._journal_descriptor, offset, FaultPoint.JOURNAL_CUT)
        self._offset = offset

    def _compact(self) -> None:
        # Should the snapshot be damaged later, the journal before it has to be whole.
        self._flush(FaultPoint.JOURNAL_SYNCED)
        if self._contents.mark is not None:
            # The rest of what a crash kept from being set aside.
            self._generations.set_aside_before(self._contents.mark.generation)
        self._start_generation(self._generation + 1)
        self._generations.drop_before(self._generation - 1)

    def _start_generation(self, generation: int) -> None:
        self._generations.start(generation, self._contents.snapshot(self._boot_id))
        self._generation = generation
        self._contents.records = 0
        self._doubtful = False
        self._open_journal(0)

    def _begin_rebuild(self, error: DamagedError, boot_id: str) -> None:
        """Begin a new generation without what cannot be read, then set that aside."""
        generation = self._generations.latest() + 1
        log.error("state found damaged", reason=str(error), generation=generation)
        self._contents.mark = RebuildMark(generation, boot_id or self._boot_id)
        self._start_generation(generation)
        reach(FaultPoint.REBUILD_MARKED)
        self._generations.set_aside_before(generation)

    def _compact_if_possible(self) -> None:
        try:
            self._compact()
        except OSError as error:
            log.warning("state not compacted", reason=str(self._failure(error)))

    def _append(self, record: JsonObject) -> None:
        """Write one record inside a transaction; on failure nothing of it remains."""
        line = encode_line(record)
        try:
            durable.append(
                self._journal_descriptor, line, FaultPoint.RECORD_APPENDED, size=self._offset
            )
        except OSError as error:
            raise self._failure(error) from error
        self._offset += len(line)
        self._written += 1
        self._contents.apply(record, self._directory)

    def _sync(self, mark: int) -> None:
        with self._sync_mutex:
            if self._synced >= mark:
                return
            if self._doubtful:
                message = f"{self._directory}: the disk failed to keep an earlier change"
                raise StateError(message)
            target = self._written
            try:
                self._flush(FaultPoint.RECORD_SYNCED)
            except OSError as error:
                raise self._failure(error) from error
            self._synced = target

    def _flush(self, at: FaultPoint) -> None:
        try:
            durable.sync_data(self._journal_descriptor, at)
        except OSError:
            # The kernel may forget what it could not write, so asking again proves nothing.
            self._doubtful = True
            raise

    def _failure(self, error: OSError) -> StateError:
        return StateError(f"{self._directory}: {error.strerror or error}")
