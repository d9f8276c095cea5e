"""Snapshots and journals on disk, in generations, the last two of which are kept.

Generation *n* is `snapshot.<n>` (everything at one moment) plus `journal.<n>` (what followed). A
new snapshot is complete before the new journal exists, and both are before the oldest pair goes,
so there is no moment without a readable state. A damaged newest snapshot costs nothing: the
generation before it, its journal and the newest journal say the same. When that one is damaged
as well a new generation begins without either, and they are kept aside for whoever has to find
out what happened.

What a version may change: it may add fields anywhere, which versions of the same format ignore
and drop when they write the next snapshot; it may leave out or reinterpret nothing. Whatever
older versions must not overlook, a new kind of record too, takes a new format number, and every
version reads all formats up to its own. A snapshot of a format that is not known, or a record of
a kind that is not, was written by a newer version: it is never overwritten, nor rebuilt.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from cdi.durable import (
    Whole,
    make_directory,
    move,
    open_lasting,
    remove,
    remove_directory,
    sync_directory,
)
from cdi.faults import FaultPoint
from dra.journal import (
    DamagedError,
    decode_lines,
    read_whole,
    whole_lines,
    write_whole,
)
from kube.objects import JsonObject

FORMAT_VERSION = 1

ASIDE_MAX = 3
"""How many damaged states are kept."""

_SNAPSHOT = Whole(FaultPoint.SNAPSHOT_TEMPORARY_WRITTEN, FaultPoint.SNAPSHOT_WRITTEN)

log = structlog.get_logger(__name__)

_NAME = re.compile(r"^(snapshot|journal)\.(\d{8})$")


class UnknownFormatError(DamagedError):
    """The state was written by a newer version, which must not be overwritten by an older."""

    def __init__(self, path: Path, detail: str) -> None:
        remedy = "run the version of the agent that wrote it, or a newer one"
        super().__init__(path, f"{detail}; {remedy}")


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

    def latest(self) -> int:
        """Return the newest generation of which there is any file, 0 when there is none."""
        return max(self._numbers("snapshot") | self._numbers("journal"), default=0)

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
        # Records of a generation whose snapshot is gone follow those of the one before it.
        last = newest + 1 if self._has_records(newest + 1) else newest
        try:
            return self._load_from(newest, last)
        except UnknownFormatError:
            raise
        except DamagedError as error:
            if not self.snapshot_path(newest - 1).exists():
                raise
            log.warning("state snapshot found damaged", reason=str(error), generation=newest)
            return self._load_from(newest - 1, last)

    def start(self, generation: int, snapshot: JsonObject) -> None:
        """Make *generation* the newest, holding *snapshot*; those before it stay.

        An `OSError` means that the generation before is still the newest.
        """
        path = self.snapshot_path(generation)
        try:
            write_whole(path, {"version": FORMAT_VERSION, **snapshot}, _SNAPSHOT)
            os.close(open_lasting(self.journal_path(generation), FaultPoint.JOURNAL_MADE))
            sync_directory(self._directory, FaultPoint.JOURNAL_OPENED)
        except OSError:
            # The old journal goes on, and this snapshot would hide what is written there.
            remove(path, FaultPoint.SNAPSHOT_TAKEN_BACK)
            sync_directory(self._directory, FaultPoint.SNAPSHOT_TAKEN_BACK)
            raise

    def is_newest(self, generation: int) -> bool:
        """Tell whether nobody has started a later generation, by two looks at the directory.

        The last two are kept, so the own snapshot is gone when several have been started.
        """
        later = self.snapshot_path(generation + 1).exists()
        return not later and self.snapshot_path(generation).exists()

    def drop_before(self, generation: int) -> None:
        """Remove what is older than *generation*, as far as that is possible."""
        for path in self._older(generation):
            try:
                remove(path, FaultPoint.GENERATION_DROPPED)
            except OSError as error:
                log.warning("old state not removed", path=str(path), reason=str(error))

    def aside(self, generation: int) -> Path:
        """Return where damaged files from before *generation* are kept."""
        return self._directory.with_name(f"{self._directory.name}.damaged-{generation:08d}")

    def set_aside_before(self, generation: int) -> None:
        """Move what is older than *generation* out of the way; keep the last few such."""
        older = self._older(generation)
        aside = self.aside(generation)
        try:
            if older:
                self._move(older, aside)
            self._drop_old_asides()
        except OSError as error:
            log.warning("damaged state not set aside", path=str(aside), reason=str(error))

    def _move(self, paths: list[Path], aside: Path) -> None:
        make_directory(aside, FaultPoint.ASIDE_DIRECTORY_MADE, mode=0o750)
        for path in paths:
            move(path, aside, FaultPoint.MOVED_ASIDE)
        for directory in (aside, self._directory, aside.parent):
            sync_directory(directory, FaultPoint.MOVED_ASIDE)

    def _drop_old_asides(self) -> None:
        found = sorted(self._directory.parent.glob(f"{self._directory.name}.damaged-*"))
        for aside in found[:-ASIDE_MAX]:
            for path in aside.iterdir():
                remove(path, FaultPoint.ASIDE_DROPPED)
            remove_directory(aside, FaultPoint.ASIDE_DROPPED)

    def _older(self, generation: int) -> list[Path]:
        return [
            self._directory / f"{kind}.{number:08d}"
            for kind in ("snapshot", "journal")
            for number in sorted(self._numbers(kind))
            if number < generation
        ]

    def _load_from(self, first: int, last: int) -> Loaded:
        snapshot = read_whole(self.snapshot_path(first))
        _check_version(self.snapshot_path(first), snapshot.get("version"))
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

    def _has_records(self, generation: int) -> bool:
        path = self.journal_path(generation)
        return path.exists() and path.stat().st_size > 0

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


def _check_version(path: Path, version: object) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DamagedError(path, f"`{version}` is no format")
    if version > FORMAT_VERSION:
        raise UnknownFormatError(path, f"has format {version}, this version knows {FORMAT_VERSION}")
