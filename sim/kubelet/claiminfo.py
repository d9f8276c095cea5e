"""What kubelet remembers about claims, in memory and in `<root>/dra_manager_state`.

The file says which claims were handed to which driver, so that they can be unprepared after any
restart; whether a claim is prepared is not in it, and a restarted kubelet prepares again
(kubelet: `pkg/kubelet/cm/dra/claiminfo.go`, `state/`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from kube.objects import JsonObject
from sim.kubelet.errors import ClaimError
from sim.kubelet.plugin import ClaimRef, PreparedDevice


@dataclass(slots=True, kw_only=True)
class ClaimInfo:
    """One claim that is, or may be, prepared on this node."""

    namespace: str
    name: str
    uid: str
    pods: set[str] = field(default_factory=set)
    """UIDs of the pods that use it here."""
    drivers: dict[str, list[PreparedDevice]] = field(default_factory=dict)

    @property
    def ref(self) -> ClaimRef:
        """Return the claim as plugin calls name it."""
        return ClaimRef(namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def key(self) -> tuple[str, str]:
        """Return what the claim is found by."""
        return (self.namespace, self.name)

    def take(self, driver: str, devices: Iterable[PreparedDevice], *, appends: bool) -> None:
        """Note the *devices* of an answer in place of those of an earlier one, or after them."""
        known = self.drivers.get(driver, []) if appends else []
        self.drivers[driver] = [*known, *devices]


_ADAPTER = TypeAdapter(list[ClaimInfo])


class ClaimCache:
    """Claims by namespace and name; written through to the checkpoint when told."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._claims: dict[tuple[str, str], ClaimInfo] = {}
        self.prepared: set[str] = set()
        """UIDs; lost with the process."""
        self.unpreparing: set[str] = set()
        """UIDs of claims that the last pod has begun to let go of."""
        if checkpoint.exists():
            state = json.loads(checkpoint.read_bytes())
            for info in _ADAPTER.validate_python(state["claims"]):
                self._claims[info.key] = info

    def enter(self, claim: JsonObject, drivers: Iterable[str], pod_uid: str) -> ClaimInfo:
        """Return the entry of *claim* with *pod_uid* added; raise `ClaimError` for an old claim."""
        meta = claim["metadata"]
        found = self.check(claim)
        if found is None:
            found = ClaimInfo(
                namespace=meta["namespace"],
                name=meta["name"],
                uid=meta["uid"],
                drivers={driver: [] for driver in drivers},
            )
            self._claims[found.key] = found
        found.pods.add(pod_uid)
        return found

    def check(self, claim: JsonObject) -> ClaimInfo | None:
        """Return the entry of *claim*, if any; raise `ClaimError` when it is another claim's."""
        meta = claim["metadata"]
        found = self._claims.get((meta["namespace"], meta["name"]))
        if found is not None and found.uid != meta["uid"]:
            message = (
                f"old ResourceClaim with same name {found.name} and different UID {found.uid} "
                "still exists"
            )
            raise ClaimError(message)
        return found

    def find(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return the entry of a claim; `None` when it is not known."""
        return self._claims.get((namespace, name))

    def of_pod(self, pod_uid: str) -> list[ClaimInfo]:
        """Return the claims that a pod uses."""
        return [info for info in self._claims.values() if pod_uid in info.pods]

    def pods(self) -> set[str]:
        """Return the UIDs of all pods that use claims."""
        return {uid for info in self._claims.values() for uid in info.pods}

    def remove(self, info: ClaimInfo) -> None:
        """Forget a claim, unless its place was taken by another one meanwhile."""
        self.prepared.discard(info.uid)
        self.unpreparing.discard(info.uid)
        if self._claims.get(info.key) is info:
            del self._claims[info.key]

    def save(self) -> None:
        """Write the checkpoint."""
        claims = [_ADAPTER.dump_python([info], mode="json")[0] for info in self._claims.values()]
        for claim in claims:
            claim["pods"].sort()
        part = self._checkpoint.with_name(f".{self._checkpoint.name}.tmp")
        part.write_text(json.dumps({"version": 1, "claims": claims}), encoding="utf-8")
        part.replace(self._checkpoint)
