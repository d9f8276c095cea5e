"""What the state says once snapshot and journal are read: claims, tombstones, a rebuild under way.

It changes by records alone, and a snapshot is the records that would make it; `dra.generations`
says which changes to them older and newer versions can live with.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra.generations import Loaded, UnknownFormatError
from dra.journal import DamagedError
from dra.record import PREPARED_CLAIM, PreparedClaim
from kube.objects import JsonObject

_UNREADABLE = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What values of another kind than expected raise; pydantic's error is a ValueError."""


@dataclass(frozen=True, slots=True)
class Released:
    """A claim that was unprepared: when, and at which version of the claim it was held."""

    at_s: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class RebuildMark:
    """The state before was damaged, and not all of its claims are known again yet."""

    generation: int
    """The first without what was damaged."""
    boot_id: str
    """Of the boot in which the damaged state was last written, as far as that is known."""


@dataclass(slots=True)
class Contents:
    """The state in memory."""

    claims: dict[str, PreparedClaim] = field(default_factory=dict)
    released: dict[str, Released] = field(default_factory=dict)
    mark: RebuildMark | None = None
    records: int = 0
    """How many it was made of."""

    @classmethod
    def of(cls, loaded: Loaded, path: Path) -> "Contents":
        """Return what *loaded* says; raise `DamagedError` about *path*."""
        contents = cls(mark=_mark(loaded.snapshot.get("rebuilding"), path))
        try:
            for record in loaded.all_records():
                contents.apply(record, path)
        except (AttributeError, TypeError) as error:
            raise DamagedError(path, f"unreadable list of records: {error}") from error
        return contents

    def apply(self, record: JsonObject, path: Path) -> None:
        """Change by *record*; raise `DamagedError` about *path* when it cannot be understood."""
        self.records += 1
        try:
            self._apply(record, path)
        except _UNREADABLE as error:
            raise DamagedError(path, f"unreadable record: {error}") from error

    def snapshot(self, boot_id: str) -> JsonObject:
        """Return all of it."""
        snapshot: JsonObject = {
            "bootId": boot_id,
            "claims": [
                PREPARED_CLAIM.dump_python(self.claims[uid], mode="json")
                for uid in sorted(self.claims)
            ],
            "released": [released_record(uid, each) for uid, each in self.released.items()],
        }
        if self.mark is not None:
            mark = {"generation": self.mark.generation, "bootId": self.mark.boot_id}
            snapshot["rebuilding"] = mark
        return snapshot

    def _apply(self, record: JsonObject, path: Path) -> None:
        match record.get("op"):
            case "prepared":
                claim = PREPARED_CLAIM.validate_python(record["claim"])
                self.claims[claim.uid] = claim
                self.released.pop(claim.uid, None)
            case "released":
                self.claims.pop(record["uid"], None)
                at_s, version = int(record["at"]), str(record["resourceVersion"])
                self.released[record["uid"]] = Released(at_s, version)
            case "withdrawn":
                self.claims.pop(record["uid"], None)
            case "forgotten":
                self.released.pop(record["uid"], None)
            case other:
                raise UnknownFormatError(path, f"has a record of the unknown kind {other!r}")


def released_record(uid: str, released: Released) -> JsonObject:
    """Return the tombstone of *uid* as it is written."""
    return {"uid": uid, "at": released.at_s, "resourceVersion": released.resource_version}


def _mark(found: Any, path: Path) -> RebuildMark | None:
    if found is None:
        return None
    try:
        return RebuildMark(int(found["generation"]), str(found["bootId"]))
    except _UNREADABLE as error:
        raise DamagedError(path, f"unreadable mark of a rebuild: {error}") from error
