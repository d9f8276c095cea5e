"""The plugin's durable memory of prepared claims, shared with a second instance of itself.

During a rolling update two plugin processes are registered at once and kubelet may call either
(kubelet 1.33 and newer), so nothing is trusted from memory: each transaction holds a file lock
and first reads what the other has appended. What is written inside a transaction is made durable
after the lock is given back, so that concurrent callers share one disk flush; a caller answers
kubelet only after that.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import structlog
from pydantic import ValidationError

from dra.faults import FaultPoint, reach
from dra.filelock import FileLock
from dra.generations import Generations, Loaded
from dra.journal import DamagedError, decode_lines, encode_line, whole_lines, write_all
from dra.record import PREPARED_CLAIM, PreparedClaim
from kube.objects import JsonObject

TOMBSTONE_S = 600
"""How long a released claim is remembered; a call that kubelet gave up ended long before."""

LOCK_WAIT_S = 15.0
"""How long to wait for another call or process: kubelet gives up after 45 seconds."""

_COMPACT_AFTER_RECORDS = 2000

log = structlog.get_logger(__name__)


class StateError(Exception):
    """The state cannot be locked or written: nobody may rely on the change."""


@dataclass(frozen=True, slots=True)
class Released:
    """A claim that was unprepared: when, and at which version of the claim it was held."""

    at_s: int
    resource_version: str


class StateStore:
    """Prepared claims by UID; every change goes through a transaction."""

    def __init__(self, directory: Path, *, boot_id: str, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self._directory = directory
        self._generations = Generations(directory)
        self._boot_id = boot_id
        self._lock = FileLock(directory / "lock", wait_s=lock_wait_s)
        self._sync_mutex = threading.Lock()
        self._journal_descriptor = -1
        self._generation = 0
        self._offset = 0
        self._records = 0
        self._written = 0
        self._synced = 0
        self._doubtful = False
        self._claims: dict[str, PreparedClaim] = {}
        self._released: dict[str, Released] = {}

    def open(self) -> str:
        """Read the state, start a new generation and return the boot id that wrote the old one.

        Raises `DamagedError` when neither kept generation can be read, `StateError` when the
        directory cannot be used.
        """
        try:
            self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock.open()
            with self._lock.hold():
                loaded = self._load()
                if loaded.generation == 0:
                    self._compact()
                else:
                    # On a full disk claims can still be looked up and released.
                    self._compact_if_possible()
        except OSError as error:
            raise self._failure(error) from error
        previous = loaded.snapshot.get("bootId", "")
        return previous if isinstance(previous, str) else ""

    def close(self) -> None:
        """Give the files back; the state stays as it is."""
        with self._lock.hold_here():
            if self._journal_descriptor >= 0:
                os.close(self._journal_descriptor)
            self._journal_descriptor = -1
            self._lock.close()

    @contextmanager
    def transaction(self) -> Iterator["Transaction"]:
        """Hold the state alone, up to date; what was written is durable when this returns.

        Raises `StateError`, `DamagedError`, or `OSError` when the lock is not free in time.
        """
        with self._lock.hold():
            self._refresh()
            transaction = Transaction(self)
            yield transaction
            if self._records > _COMPACT_AFTER_RECORDS + 4 * len(self._claims):
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
            return MappingProxyType(dict(self._claims))

    def _refresh(self) -> None:
        """Take in what another process has appended, or the generation that it started."""
        if self._doubtful:
            self._load()
            self._compact()
        elif not self._generations.is_newest(self._generation):
            self._load()
        else:
            self._read_on()

    def _read_on(self) -> None:
        size = os.fstat(self._journal_descriptor).st_size
        if size == self._offset:
            return
        data = os.pread(self._journal_descriptor, size - self._offset, self._offset)
        whole = whole_lines(data)
        if len(whole) < len(data):
            # Nobody else writes while the lock is held: the rest was cut by a crash.
            os.ftruncate(self._journal_descriptor, self._offset + len(whole))
        path = self._generations.journal_path(self._generation)
        for record in decode_lines(path, whole):
            self._apply(record, path)
        self._offset += len(whole)
        # Whoever wrote it may not have made it durable yet, and this caller may answer by it.
        self._written += 1

    def _load(self) -> Loaded:
        loaded = self._generations.load()
        path = self._generations.snapshot_path(loaded.generation)
        before = self._claims, self._released, self._records
        self._claims, self._released, self._records = {}, {}, 0
        try:
            for record in loaded.all_records():
                self._apply(record, path)
        except DamagedError:
            # Half of the claims would look like a node on which the others are not prepared.
            self._claims, self._released, self._records = before
            raise
        self._generation = loaded.generation
        self._open_journal(loaded.journal_bytes)
        return loaded

    def _open_journal(self, offset: int) -> None:
        path = self._generations.journal_path(self._generation)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._sync_mutex:
            if self._journal_descriptor >= 0:
                os.close(self._journal_descriptor)
            self._journal_descriptor = os.open(path, flags, 0o600)
            if not self._doubtful:
                # The snapshot that this journal follows was synced and holds all.
                self._synced = self._written
        os.ftruncate(self._journal_descriptor, offset)
        self._offset = offset

    def _compact(self) -> None:
        snapshot: JsonObject = {
            "bootId": self._boot_id,
            "claims": [
                PREPARED_CLAIM.dump_python(self._claims[uid], mode="json")
                for uid in sorted(self._claims)
            ],
            "released": [_released_record(uid, self._released[uid]) for uid in self._released],
        }
        # Should the snapshot be damaged later, the journal before it has to be whole.
        self._flush()
        self._generations.start(self._generation + 1, snapshot)
        self._generation += 1
        self._records = 0
        self._doubtful = False
        self._open_journal(0)

    def _compact_if_possible(self) -> None:
        try:
            self._compact()
        except OSError as error:
            log.warning("state not compacted", reason=str(self._failure(error)))

    def append(self, record: JsonObject) -> None:
        """Write one record inside a transaction; on failure nothing of it remains."""
        line = encode_line(record)
        try:
            write_all(self._journal_descriptor, line)
        except OSError as error:
            os.ftruncate(self._journal_descriptor, self._offset)
            raise self._failure(error) from error
        reach(FaultPoint.RECORD_APPENDED)
        self._offset += len(line)
        self._written += 1
        self._apply(record, self._directory)

    def _sync(self, mark: int) -> None:
        with self._sync_mutex:
            if self._synced >= mark:
                return
            if self._doubtful:
                message = f"{self._directory}: the disk failed to keep an earlier change"
                raise StateError(message)
            target = self._written
            try:
                self._flush()
            except OSError as error:
                raise self._failure(error) from error
            self._synced = target
        reach(FaultPoint.RECORD_SYNCED)

    def _flush(self) -> None:
        try:
            os.fdatasync(self._journal_descriptor)
        except OSError:
            # The kernel may forget what it could not write, so asking again proves nothing.
            self._doubtful = True
            raise

    def _apply(self, record: JsonObject, path: Path) -> None:
        self._records += 1
        try:
            match record.get("op"):
                case "prepared":
                    claim = PREPARED_CLAIM.validate_python(record["claim"])
                    self._claims[claim.uid] = claim
                    self._released.pop(claim.uid, None)
                case "released":
                    self._claims.pop(record["uid"], None)
                    at_s, version = int(record["at"]), str(record["resourceVersion"])
                    self._released[record["uid"]] = Released(at_s, version)
                case "withdrawn":
                    self._claims.pop(record["uid"], None)
                case "forgotten":
                    self._released.pop(record["uid"], None)
                case other:
                    raise DamagedError(path, f"unknown record {other!r}")
        except (KeyError, TypeError, ValueError, OverflowError, ValidationError) as error:
            raise DamagedError(path, f"unreadable record: {error}") from error

    def _failure(self, error: OSError) -> StateError:
        return StateError(f"{self._directory}: {error.strerror or error}")


class Transaction:
    """Reads and changes of the state while nobody else can make any."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """All prepared claims by UID."""
        return MappingProxyType(self._store._claims)  # noqa: SLF001  # one unit with its store

    def released(self, uid: str) -> Released | None:
        """Return the tombstone of *uid*, if it was released a short while ago."""
        return self._store._released.get(uid)  # noqa: SLF001

    def put(self, claim: PreparedClaim) -> None:
        """Record *claim* as prepared."""
        entry = PREPARED_CLAIM.dump_python(claim, mode="json")
        self._store.append({"op": "prepared", "claim": entry})

    def release(self, uid: str, *, now_s: int) -> None:
        """Record that *uid* is unprepared, leaving a tombstone; forget tombstones that are old."""
        held = self.claims.get(uid)
        version = held.resource_version if held else ""
        self._store.append(_released_record(uid, Released(now_s, version)) | {"op": "released"})
        for old in self._old_tombstones(now_s):
            self._store.append({"op": "forgotten", "uid": old})

    def withdraw(self, claim: PreparedClaim) -> None:
        """Take back a `put` whose effects failed: as if it had never been."""
        self._store.append({"op": "withdrawn", "uid": claim.uid})

    def _old_tombstones(self, now_s: int) -> list[str]:
        known = self._store._released.items()  # noqa: SLF001
        return [uid for uid, tomb in known if tomb.at_s < now_s - TOMBSTONE_S]


def _released_record(uid: str, released: Released) -> JsonObject:
    return {"uid": uid, "at": released.at_s, "resourceVersion": released.resource_version}
