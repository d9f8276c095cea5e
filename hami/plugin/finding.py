"""Finds the pod for which kubelet calls: the lock of the node first, then the list rule.

The lock names the pod that is being bound, but it proves nothing: it breaks after five minutes, and
pods of which only init containers have devices are bound without one (HAMi v2.10). So whoever else
may be meant is looked for too, and where two pods may be meant, nobody gets anything: a refused pod
is made anew by its controller, one that runs with the devices of another is found by nobody.

Nothing but the number of devices tells pods apart. The GPUs of kubelet's ids do not: it chose them
without knowing what was decided, or as it was told for a pod that could not be told for sure.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gpu.refusal import Refusal, RefusedError
from hami.nodelock import Owner, parse
from hami.plugin import claimants
from hami.plugin.claimants import Claimant, Undecided, identity_of
from hami.plugin.insisting import insist
from hami.reading import Undecodable
from hami.vendors import Lock
from kube.client import Client
from kube.errors import NotFoundError
from kube.objects import JsonObject, ObjectKey
from kube.paths import nodes, pods

log = structlog.get_logger(__name__)

SETTLE_S: Final = 5.0
"""How long to wait for the pod of a call that failed before to be marked as such by kubelet."""
_LOOK_S: Final = 0.25
_RECENT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Whoever may be meant at one moment."""

    lock: str | None = None
    claimants: tuple[Claimant, ...] = ()
    undecided: tuple[Undecided, ...] = ()

    def suiting(self, counts: Sequence[int]) -> tuple[Claimant | Undecided, ...]:
        """Return those for whom kubelet may ask for *counts* devices."""
        everybody: tuple[Claimant | Undecided, ...] = (*self.claimants, *self.undecided)
        return tuple(each for each in everybody if each.suits(counts))


class Finder:
    """Asks the API server, and remembers when it could not tell two pods apart."""

    def __init__(
        self,
        client: Client,
        *,
        node: str,
        resource: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._resource, self._clock = client, resource, clock
        self.node = node
        self._failed_at_s: float | None = None

    def scene(self) -> Scene:
        """Look at the node's lock and its pods; raises `KubeError`."""
        node = insist(lambda: self._object(nodes(self.node)))
        lock = (node["metadata"].get("annotations") or {}).get(Lock.SHARED)
        named = self._named(lock)
        holder = None if named is None else self._read(named)
        others = self._listed(fresh=not isinstance(holder, Claimant))
        found = {} if holder is None else {holder.identity: holder}
        for pod in others:
            if identity_of(pod) not in found and (each := self._read(pod)) is not None:
                found[each.identity] = each
        return Scene(
            lock=lock,
            claimants=tuple(each for each in found.values() if isinstance(each, Claimant)),
            undecided=tuple(each for each in found.values() if isinstance(each, Undecided)),
        )

    def settled(self, counts: Sequence[int]) -> Scene:
        """Return the scene of a call for *counts* devices.

        The pod of a call that failed may still be meant until kubelet has written that it refused
        it, so two are waited for then.
        """
        scene = self.scene()
        if self._failed_at_s is None or self._clock() - self._failed_at_s > _RECENT_S:
            return scene
        end_s = self._clock() + SETTLE_S
        while len(scene.suiting(counts)) > 1 and self._clock() < end_s:
            time.sleep(_LOOK_S)
            scene = self.scene()
        return scene

    def failed(self) -> None:
        """Take note that kubelet got an error for a pod that is not known."""
        self._failed_at_s = self._clock()

    def only(self, scene: Scene, counts: Sequence[int]) -> Claimant:
        """Return the one pod that is meant; raises `RefusedError`."""
        suiting = scene.suiting(counts)
        if len(suiting) == 1 and isinstance(suiting[0], Claimant):
            return suiting[0]
        if len(suiting) > 1:
            raise RefusedError(_ambiguous(suiting, counts))
        if suiting and isinstance(suiting[0], Undecided):
            raise RefusedError(_undecided(suiting[0]))
        raise RefusedError(_nobody(self.node, scene, counts))

    def pod(self, key: ObjectKey) -> JsonObject | None:
        """Return the pod as it is now, `None` if there is none; raises `KubeError`."""
        try:
            path = pods(key.namespace, key.name)
            return insist(lambda: self._object(path), but_not=(NotFoundError,))
        except NotFoundError:
            return None

    def claimant(self, identity: claimants.Identity) -> Claimant | None:
        """Return the pod as it is now, `None` if it has nothing to come; raises `KubeError`."""
        pod = self.pod(identity.key)
        if pod is None or identity_of(pod) != identity:
            return None
        found = self._read(pod)
        return found if isinstance(found, Claimant) else None

    def _named(self, lock: str | None) -> JsonObject | None:
        owner = owner_of(lock)
        try:
            return None if owner is None else self.pod(ObjectKey(*owner))
        except ValueError:  # A lock may say anything, `..` too.
            return None

    def _listed(self, *, fresh: bool) -> Iterator[JsonObject]:
        """Yield the node's pending pods; where the server may look into its cache, as they are now.

        Servers before Kubernetes 1.31 read all pods of the cluster for a list that must be fresh.
        """
        params = {"fieldSelector": f"spec.nodeName={self.node},status.phase=Pending"}
        if not fresh:
            params["resourceVersion"] = "0"
        for pod in insist(lambda: self._object(pods(), params))["items"]:
            if fresh or self._read(pod) is None:
                yield pod
            elif (current := self.pod(identity_of(pod).key)) is not None:
                yield current

    def _read(self, pod: JsonObject) -> Claimant | Undecided | None:
        return claimants.read(pod, node=self.node, resource=self._resource)

    def _object(self, path: str, params: dict[str, str] | None = None) -> JsonObject:
        found: JsonObject = json.loads(self._client.get(path, params))
        return found


def owner_of(lock: str | None) -> Owner | None:
    """Return the pod that *lock* names; a lock that cannot be read names none."""
    found = None if lock is None else parse(lock)
    return None if found is None or isinstance(found, Undecodable) else found.owner


def _ambiguous(suiting: Sequence[Claimant | Undecided], counts: Sequence[int]) -> Refusal:
    names = ", ".join(sorted(str(each.identity.key) for each in suiting))
    return Refusal(
        code="PodAmbiguous",
        field="Allocate",
        value=_said(counts),
        limit=f"kubelet may mean any of the pods {names}, and does not say which",
        remedy="the pod that fails has to be created again; its controller does that",
    )


def _undecided(pod: Undecided) -> Refusal:
    return Refusal(
        code="PodUndecided",
        field="pod",
        value=str(pod.identity.key),
        limit=pod.reason,
        remedy="pods with GPUs must go through the scheduler that decides about these",
    )


def _nobody(node: str, scene: Scene, counts: Sequence[int]) -> Refusal:
    if scene.claimants:
        names = ", ".join(sorted(str(each.identity.key) for each in scene.claimants))
        return Refusal(
            code="DeviceNumberNotMatched",
            field="Allocate",
            value=_said(counts),
            limit=f"device number not matched: no next container of {names} has that many to come",
        )
    return Refusal(
        code="NoBindingPod",
        field="Allocate",
        value=_said(counts),
        limit=f"no binding pod found on node {node}",
        remedy="pods with GPUs must go through the scheduler that decides about these",
    )


def _said(counts: Sequence[int]) -> str:
    return " and ".join(f"{count} device{'s' if count != 1 else ''}" for count in counts)
