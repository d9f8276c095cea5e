"""Snapshots and journals on disk, in generations, the last two of which are kept.

Generation *n* is `snapshot.<n>` (everything at one moment) plus `journal.<n>` (what followed). A
new snapshot is complete before the new journal exists, and both are before the oldest pair goes,
so there is no moment without a readable state. A damaged newest snapshot costs nothing: the
generation before it, its journal and the newest journal say the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from cdi.atomic import sync_directory
from dra.faults import FaultPoint, reach
from dra.journal import (
    DamagedError,
    decode_lines,
    read_whole,
    whole_lines,
    write_whole,
)
from kube.objects import JsonObject

FORMAT_VERSION = 1

log = structlog.get_logger(__name__)

_NAME = re.compile(r"^(snapshot|journal)\.(\d{8})$")


class UnknownFormatError(DamagedError):
    """The state was written by a newer version, which must not be overwritten by an older."""


@dataclass(slots=True)
class Loaded:
    """The newest readable state: a snapshot's content and the journal records after it."""

    generation: int
    snapshot: JsonObject
    records: list[JsonObject] = field(default_factory=list)
    journal_bytes: int = 0
    """How much of the newest journal was read."""

    def all_records(self) -> Iterator[JsonObject]:
        """Yield the snapshot as the records that would make it, then those of the journal."""
        for entry in self.snapshot.get("claims", []):
            yield {"op": "prepared", "claim": entry}
        for entry in self.snapshot.get("released", []):
            yield {**entry, "op": "released"}
        yield from self.records


class Generations:
    """The files in one directory; the caller holds the state's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def snapshot_path(self, generation: int) -> Path:
        """Return where the snapshot of *generation* is."""
        return self._directory / f"snapshot.{generation:08d}"

    def journal_path(self, generation: int) -> Path:
        """Return where the journal of *generation* is."""
        return self._directory / f"journal.{generation:08d}"

    def newest(self) -> int:
        """Return the newest generation that has a snapshot, 0 when there is none."""
        return max(self._numbers("snapshot"), default=0)

    def load(self) -> Loaded:
        """Read the newest state, falling back one generation; raise `DamagedError` when neither.

        A directory without any state is an empty one of generation 0.
        """
        newest = self.newest()
        if newest == 0:
            # Journal 0 is empty: a first start that ended before its first snapshot left it.
            if self._numbers("journal") - {0}:
                raise DamagedError(self._directory, "has a journal but no snapshot")
            return Loaded(0, {"version": FORMAT_VERSION, "claims": [], "released": []})
        try:
            return self._load_from(newest, newest)
        except UnknownFormatError:
            raise
        except DamagedError as error:
            if not self.snapshot_path(newest - 1).exists():
                raise
            log.warning("state snapshot found damaged", reason=str(error), generation=newest)
            return self._load_from(newest - 1, newest)

    def start(self, generation: int, snapshot: JsonObject) -> None:
        """Make *generation* the newest, holding *snapshot*, and drop all but the one before.

        An `OSError` means that the generation before is still the newest.
        """
        path = self.snapshot_path(generation)
        try:
            write_whole(path, {"version": FORMAT_VERSION, **snapshot})
            reach(FaultPoint.SNAPSHOT_WRITTEN)
            self.journal_path(generation).touch(mode=0o600)
            sync_directory(self._directory)
        except OSError:
            # The old journal goes on, and this snapshot would hide what is written there.
            path.unlink(missing_ok=True)
            sync_directory(self._directory)
            raise
        reach(FaultPoint.JOURNAL_OPENED)
        self._drop_before(generation - 1)
        reach(FaultPoint.GENERATION_DROPPED)

    def is_newest(self, generation: int) -> bool:
        """Tell whether nobody has started a later generation, by two looks at the directory.

        The last two are kept, so the own snapshot is gone when several have been started.
        """
        later = self.snapshot_path(generation + 1).exists()
        return not later and self.snapshot_path(generation).exists()

    def _drop_before(self, generation: int) -> None:
        for kind in ("snapshot", "journal"):
            for number in self._numbers(kind):
                if number < generation:
                    path = self._directory / f"{kind}.{number:08d}"
                    try:
                        path.unlink(missing_ok=True)
                    except OSError as error:
                        log.warning("old state not removed", path=str(path), reason=str(error))

    def _load_from(self, first: int, last: int) -> Loaded:
        snapshot = read_whole(self.snapshot_path(first))
        version = snapshot.get("version")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            path = self.snapshot_path(first)
            raise UnknownFormatError(path, f"has format {version!r}; known is {FORMAT_VERSION}")
        _check_lists(self.snapshot_path(first), snapshot)
        loaded = Loaded(last, snapshot)
        for number in range(first, last + 1):
            data = self._read_journal(number, newest=number == last)
            loaded.journal_bytes = len(data)
            loaded.records.extend(decode_lines(self.journal_path(number), data))
        return loaded

    def _read_journal(self, generation: int, *, newest: bool) -> bytes:
        path = self.journal_path(generation)
        if newest and not path.exists():
            return b""
        if not path.exists():
            raise DamagedError(path, "is missing")
        data = path.read_bytes()
        whole = whole_lines(data)
        if len(whole) != len(data):
            if not newest:
                # It was whole when the next one was begun: what is missing was acknowledged.
                raise DamagedError(path, "is cut")
            log.warning("cut journal line dropped", path=str(path), size=len(data) - len(whole))
        return whole

    def _numbers(self, kind: str) -> set[int]:
        names = (_NAME.match(path.name) for path in self._directory.iterdir())
        return {int(match[2]) for match in names if match and match[1] == kind}


def _check_lists(path: Path, snapshot: JsonObject) -> None:
    """Raise `DamagedError` for a snapshot that would be read as one without claims."""
    claims, released = snapshot.get("claims"), snapshot.get("released", [])
    if not isinstance(claims, list):
        raise DamagedError(path, "`claims` is no list")
    if not isinstance(released, list) or not all(isinstance(each, dict) for each in released):
        raise DamagedError(path, "`released` is no list of objects")
