"""Reads and changes of the state while nobody else can make any."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dra.contents import Contents, Released, released_record
from dra.record import PREPARED_CLAIM, PreparedClaim
from kube.objects import JsonObject

TOMBSTONE_S = 600
"""How long a released claim is remembered; a call that kubelet gave up ended long before."""


class Transaction:
    """What `dra.state` hands out while it holds its lock."""

    def __init__(self, contents: Contents, append: Callable[[JsonObject], None]) -> None:
        self._contents = contents
        self._append = append

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """All prepared claims by UID."""
        return MappingProxyType(self._contents.claims)

    @property
    def rebuilding(self) -> bool:
        """Tell whether claims may be missing."""
        return self._contents.mark is not None

    def released(self, uid: str) -> Released | None:
        """Return the tombstone of *uid*, if it was released a short while ago."""
        return self._contents.released.get(uid)

    def put(self, claim: PreparedClaim) -> None:
        """Record *claim* as prepared."""
        entry = PREPARED_CLAIM.dump_python(claim, mode="json")
        self._append({"op": "prepared", "claim": entry})

    def release(self, uid: str, *, now_s: int) -> None:
        """Record that *uid* is unprepared, leaving a tombstone; forget tombstones that are old."""
        held = self.claims.get(uid)
        version = held.resource_version if held else ""
        self._append(released_record(uid, Released(now_s, version)) | {"op": "released"})
        for old in self._old_tombstones(now_s):
            self._append({"op": "forgotten", "uid": old})

    def withdraw(self, claim: PreparedClaim) -> None:
        """Take back a `put` whose effects failed: as if it had never been."""
        self._append({"op": "withdrawn", "uid": claim.uid})

    def _old_tombstones(self, now_s: int) -> list[str]:
        known = self._contents.released.items()
        return [uid for uid, tomb in known if tomb.at_s < now_s - TOMBSTONE_S]
