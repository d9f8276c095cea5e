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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gpu.refusal import Refusal, RefusedError
from hami.nodelock import Owner, parse
from hami.plugin import claimants
from hami.plugin.claimants import Claimant, Identity, Undecided, identity_of
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

    @property
    def identities(self) -> frozenset[Identity]:
        """Whose pods these are."""
        return frozenset(each.identity for each in self._everybody)

    def suiting(self, counts: Sequence[int]) -> tuple[Claimant | Undecided, ...]:
        """Return those for whom kubelet may ask for *counts* devices."""
        return tuple(each for each in self._everybody if each.suits(counts))

    @property
    def _everybody(self) -> tuple[Claimant | Undecided, ...]:
        return (*self.claimants, *self.undecided)


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
        self._suspects: frozenset[Identity] = frozenset()
        """Pods of which one has been refused."""
        self._failed_at_s = 0.0

    def scene(self) -> Scene:
        """Look at the node's lock and its pods; raises `KubeError`."""
        node = insist(lambda: self._object(nodes(self.node)))
        lock = (node["metadata"].get("annotations") or {}).get(Lock.SHARED)
        named = self._named(lock)
        holder = None if named is None else self._read(named)
        found = {} if holder is None else {holder.identity: holder}
        is_fresh = not isinstance(holder, Claimant)
        for pod in self._listed(fresh=is_fresh):
            if identity_of(pod) in found or (each := self._read(pod)) is None:
                continue
            current = each if is_fresh else self._current(each.identity)
            if current is not None:
                found[each.identity] = current
        return Scene(
            lock=lock,
            claimants=tuple(each for each in found.values() if isinstance(each, Claimant)),
            undecided=tuple(each for each in found.values() if isinstance(each, Undecided)),
        )

    def settled(self, counts: Sequence[int]) -> Scene:
        """Return the scene of a call for *counts* devices.

        The pod of a call that failed is meant by nobody any more, which shows once kubelet has
        written that it refused it. That is waited for where it may make a difference.
        """
        scene = self.scene()
        end_s = self._clock() + SETTLE_S
        while len(scene.suiting(counts)) > 1 and self._hides_a_refused_pod(scene):
            if self._clock() > end_s:
                break
            time.sleep(_LOOK_S)
            scene = self.scene()
        return scene

    def failed(self, scene: Scene, counts: Sequence[int]) -> None:
        """Take note that kubelet got an error for one of the pods of *scene*."""
        self._suspects = frozenset(each.identity for each in scene.suiting(counts))
        self._failed_at_s = self._clock()

    def _hides_a_refused_pod(self, scene: Scene) -> bool:
        if self._clock() - self._failed_at_s > _RECENT_S or not self._suspects <= scene.identities:
            self._suspects = frozenset()
        return bool(self._suspects)

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

    def claimant(self, identity: Identity) -> Claimant | None:
        """Return the pod as it is now, `None` if it has nothing to come; raises `KubeError`."""
        found = self._current(identity)
        return found if isinstance(found, Claimant) else None

    def _named(self, lock: str | None) -> JsonObject | None:
        owner = owner_of(lock)
        try:
            return None if owner is None else self.pod(ObjectKey(*owner))
        except ValueError:  # A lock may say anything, `..` too.
            return None

    def _listed(self, *, fresh: bool) -> list[JsonObject]:
        """Return the node's pending pods, from the server's cache unless they must be *fresh*.

        For a fresh list servers before Kubernetes 1.31 read all pods of the cluster.
        """
        params = {"fieldSelector": f"spec.nodeName={self.node},status.phase=Pending"}
        if not fresh:
            params["resourceVersion"] = "0"
        found: list[JsonObject] = insist(lambda: self._object(pods(), params))["items"]
        return found

    def _current(self, identity: Identity) -> Claimant | Undecided | None:
        pod = self.pod(identity.key)
        return None if pod is None or identity_of(pod) != identity else self._read(pod)

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
