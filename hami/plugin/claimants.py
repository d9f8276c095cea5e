"""Which pods of a node kubelet may be asking for: the list rule, and what each has yet to get.

Kubelet's call has ids and no pod. A pod can be meant if it is bound to the node and not admitted
yet, and has devices that were decided and not handed out (HAMi v2.10: `GetPendingPod` in
`pkg/util/util.go`). One that wants devices about which nobody decided may be meant as well, which
HAMi's plugin does not see: it takes the devices of another pod for it.

Kubelet writes `status.startTime` when it has admitted a pod and not before, and hands out devices
before that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from hami import keys
from hami.backends import NvidiaBackend
from hami.containers import Container, JsonObject, all_containers
from hami.devices import PodDevice, Slots
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable
from kube.objects import ObjectKey

TO_ALLOCATE: Final = NvidiaBackend(count_name="").in_request_key
ALLOCATING: Final = "allocating"
SUCCESS: Final = "success"
FAILED: Final = "failed"
"""The bind phases."""
_SUFFIX: Final = "-devices-to-allocate"
_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One pod, and no later one of its name."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A pod that has devices to come."""

    identity: Identity
    resource_version: str
    annotations: Mapping[str, str]
    containers: tuple[Container, ...]
    left: Slots
    """What is to be handed out, a place for each of *containers*."""

    def next_places(self, count: int) -> tuple[int, ...]:
        """Return the places of the next *count* containers that have devices to come."""
        return tuple(islice(_filled(self.left), count))

    def suits(self, counts: Sequence[int]) -> bool:
        """Tell whether its next containers have *counts* devices to come, one after the other."""
        places = self.next_places(len(counts))
        return tuple(len(self.left[place]) for place in places) == tuple(counts)

    def without(self, places: Sequence[int]) -> "Claimant":
        """Return it with the devices of *places* handed out."""
        left = tuple(() if place in places else each for place, each in enumerate(self.left))
        return replace(self, left=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A pod that wants devices and has no readable decision for this node."""

    identity: Identity
    counts: tuple[int, ...]
    """What its containers want, those that want anything."""
    reason: str

    def suits(self, counts: Sequence[int]) -> bool:
        """Tell whether kubelet may ask for *counts* devices on its behalf."""
        found = self.counts
        starts = range(len(found) - len(counts) + 1)
        return any(found[start : start + len(counts)] == tuple(counts) for start in starts)


def identity_of(pod: JsonObject) -> Identity:
    """Return what names *pod*."""
    metadata = pod["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    return Identity(key=key, uid=metadata.get("uid", ""))


def read(pod: JsonObject, *, node: str, resource: str) -> Claimant | Undecided | None:
    """Return what *pod* has to come of *resource* on *node*, `None` where it has nothing."""
    if not is_waiting(pod, node=node):
        return None
    annotations = annotations_of(pod)
    containers = all_containers(pod)
    wanted = tuple(_wanted(each, resource) for each in containers)
    text = annotations.get(TO_ALLOCATE)
    if annotations.get(keys.BIND_PHASE) == FAILED:
        return None
    why_not = _undecided(annotations, node)
    left: Slots | Undecodable = ()
    if text is not None:
        left = _placed(text, wanted)
        if not isinstance(left, Undecodable) and not any(left):
            return None
    if why_not or isinstance(left, Undecodable):
        counts = tuple(filter(None, wanted))
        reason = why_not or f"{TO_ALLOCATE}: {left}"
        return (
            Undecided(identity=identity_of(pod), counts=counts, reason=reason) if counts else None
        )
    return Claimant(
        identity=identity_of(pod),
        resource_version=pod["metadata"].get("resourceVersion", ""),
        annotations=annotations,
        containers=containers,
        left=left,
    )


def reread(claimant: Claimant, pod: JsonObject) -> Claimant:
    """Return *claimant* with version and annotations of *pod*, which is the same pod later."""
    version = pod["metadata"].get("resourceVersion", "")
    return replace(claimant, resource_version=version, annotations=annotations_of(pod))


def is_waiting(pod: JsonObject, *, node: str) -> bool:
    """Tell whether kubelet of *node* has yet to admit *pod*."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("nodeName") != node or status.get("phase", "Pending") != "Pending":
        return False
    return not (status.get("startTime") or status.get("containerStatuses"))


def is_over(pod: JsonObject, *, node: str) -> bool:
    """Tell whether no device of *pod* will be handed out any more, whatever it still has."""
    if (pod.get("spec") or {}).get("nodeName") != node:
        return False  # Not bound yet, and maybe about to be.
    annotations = annotations_of(pod)
    return (
        not is_waiting(pod, node=node)
        or annotations.get(keys.BIND_PHASE) == FAILED
        or (TO_ALLOCATE in annotations and not has_more(annotations))
    )


def has_more(annotations: Mapping[str, str]) -> bool:
    """Tell whether devices of any vendor are to come; a list that cannot be read counts as some."""
    for key, text in annotations.items():
        if key.startswith("hami.io/") and key.endswith(_SUFFIX):
            slots = decode_pod_devices(text, None)
            if isinstance(slots, Undecodable) or any(slots):
                return True
    return False


def annotations_of(pod: JsonObject) -> Mapping[str, str]:
    """Return the annotations of *pod*."""
    return pod["metadata"].get("annotations") or {}


def _undecided(annotations: Mapping[str, str], node: str) -> str:
    """Return why nothing is decided for *node*; empty if it is."""
    if TO_ALLOCATE not in annotations:
        return "no scheduler has decided about its devices"
    if annotations.get(keys.NODE) != node:
        return f"its devices were decided for another node ({keys.NODE})"
    if keys.BIND_TIME not in annotations:
        return f"it has no {keys.BIND_TIME}"
    if annotations.get(keys.BIND_PHASE) not in {ALLOCATING, SUCCESS}:
        return f"its {keys.BIND_PHASE} is neither {ALLOCATING} nor {SUCCESS}"
    return ""


def _placed(text: str, wanted: Sequence[int]) -> Slots | Undecodable:
    """Return the devices in *text* at the places of their containers.

    HAMi's schedulers up to v2.10 leave out empty places or put them elsewhere, wherever a container
    without devices comes before one with some. Their order is always that of the containers.
    """
    slots = decode_pod_devices(text, None)
    if isinstance(slots, Undecodable) or not any(slots):
        return slots
    places = [place for place, count in enumerate(wanted) if count]
    if len(slots) >= len(wanted) and set(_filled(slots)) <= set(places):
        return slots[: len(wanted)]
    lists = [each for each in slots if each]
    if len(places) != len(lists):
        return Undecodable(f"has {len(lists)} lists for {len(places)} containers")
    at = dict(zip(places, lists, strict=True))
    return tuple(at.get(place, ()) for place in range(len(wanted)))


def _wanted(container: Container, resource: str) -> int:
    """Return how many devices kubelet is going to ask for."""
    resources = container.raw.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    text = str(limits.get(resource, "")) if isinstance(limits, dict) else ""
    # Extended resources are whole numbers; the server writes `1k` for a thousand.
    number = text.removesuffix("k")
    if not number.isdecimal() or len(number) > _DIGITS_MAX:
        return 0
    return int(number) * (1000 if text != number else 1)


def _filled(slots: Sequence[Sequence[PodDevice]]) -> Iterator[int]:
    return (place for place, devices in enumerate(slots) if devices)
