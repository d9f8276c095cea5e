"""What is kept of the nodes, pods and quotas that watches tell of.

An object of the API server is many kilobytes, of which a decision needs some texts. They are taken
out in the threads of the reflectors and shared afterwards, so they never change. Pods that neither
ask for devices nor hold any are nobody's business here.
"""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from hami import keys
from hami.containers import JsonObject
from kube.store import UnwantedError

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_RUNNING: Final = "Running"
_ALLOCATED: Final = "-devices-allocated"
_TO_ALLOCATE: Final = "-devices-to-allocate"
_KEPT: Final = keys.ALLOCATED | {keys.NODE, keys.BIND_PHASE, keys.MIG_ALLOCATIONS}
_OF_FEW_TEXTS: Final = frozenset({keys.NODE, keys.BIND_PHASE})
_PREFIXES_OF_NODES: Final = (
    "hami.io/",
    "gpuslice.io/",
    "metax-tech.com/",
    "enflame.com/",
    "cambricon.com/",
)
_SOFT_SPLIT: Final = "hami-vnpu-core"
"""Ascend's annotation of nodes, which has no domain."""
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
"""The only label of nodes that a rule reads, AWS Neuron's."""
_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_PREFIX_OF_VENDORS: Final = ("metax-tech.com/",)
"""Annotations by which pods on one device get along or not."""


class WatchedNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node, as far as devices are concerned: most of what stands on it is not."""

    name: str
    uid: str
    resource_version: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]


class WatchedPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that asks for devices or holds some."""

    uid: str
    namespace: str
    name: str
    node: str
    """Where it runs; empty while it is bound to none."""
    annotations: Mapping[str, str]
    """Those of the scheduler and of neighbours alone."""
    phase: str
    group: str
    """Its pod group, if it is in one."""
    is_deleting: bool
    containers: int
    init_containers: int
    sidecars: tuple[int, ...]
    """The positions of init containers that stay."""
    inits_done: bool
    """All its ordinary init containers have ended well, so only what stays is counted."""
    takes: bool = False
    """A container asks for a number of devices, as far as it is known how that is done."""
    strays: bool = False
    """What it is yet to be handed out is not among what it is said to have."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def says(self) -> tuple[object, ...]:
        """Return all of which its bookings follow."""
        told = (self.node, self.is_over, self.inits_done, self.annotations)
        return (*told, self.strays, self.takes and self.is_running)

    @property
    def is_over(self) -> bool:
        """Tell whether it has ended and holds nothing any more."""
        return self.phase in _ENDED

    @property
    def is_running(self) -> bool:
        """Tell whether its containers have been started on a node."""
        return bool(self.node) and self.phase == _RUNNING

    @property
    def planned_node(self) -> str:
        """Where its devices are, by what the scheduler wrote; empty where it wrote nothing."""
        return self.annotations.get(keys.NODE, "")


class WatchedQuota(msgspec.Struct, frozen=True, kw_only=True):
    """What one ResourceQuota bounds."""

    namespace: str
    name: str
    hard: Mapping[str, str]


def read_node(node: JsonObject) -> WatchedNode:
    """Return what is kept of *node*."""
    metadata = node["metadata"]
    status = _mapping(node.get("status"))
    return WatchedNode(
        name=sys.intern(metadata["name"]),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        annotations=_texts(metadata.get("annotations"), _is_of_devices),
        labels=_shared(_texts(metadata.get("labels"), _INSTANCE_TYPE.__eq__)),
        capacity=_shared(_texts(status.get("capacity"), _is_extended)),
        allocatable=_shared(_texts(status.get("allocatable"), _is_extended)),
    )


def pod_reader(
    resources: Collection[str], counts: Collection[str] = ()
) -> Callable[[JsonObject], WatchedPod]:
    """Return a decoder of pods that leaves out those that can have no devices.

    *resources* are all names by which one asks for devices, *counts* those by which kubelet hands
    them out. A pod that was given devices under a name that is not among them by now is kept; one
    that names no resource of any device plugin has none, whatever is written on it.
    """
    wanted, counted = frozenset(resources), frozenset(counts)

    def read(pod: JsonObject) -> WatchedPod:
        facts = read_pod(pod, counted)
        names = frozenset(_asked(pod))
        if names.isdisjoint(wanted) and not (facts.planned_node and any(map(_is_extended, names))):
            raise UnwantedError
        return facts

    return read


def read_pod(pod: JsonObject, counted: frozenset[str] = frozenset()) -> WatchedPod:
    """Return what is kept of *pod*; names in *counted* are of resources that are devices."""
    metadata, spec, status = pod["metadata"], _mapping(pod.get("spec")), _mapping(pod.get("status"))
    inits = _objects(spec, "initContainers")
    return WatchedPod(
        uid=metadata.get("uid", ""),
        namespace=sys.intern(metadata.get("namespace", "")),
        name=metadata["name"],
        node=sys.intern(spec.get("nodeName") or ""),
        annotations=_texts(metadata.get("annotations"), _is_kept),
        phase=sys.intern(status.get("phase") or ""),
        group=_group(metadata, spec),
        is_deleting=metadata.get("deletionTimestamp") is not None,
        containers=len(_objects(spec, "containers")),
        init_containers=len(inits),
        sidecars=tuple(index for index, each in enumerate(inits) if _stays(each)),
        inits_done=_inits_done(inits, status),
        takes=not counted.isdisjoint(_asked(pod)) if counted else False,
        strays=_strays(_mapping(metadata.get("annotations"))),
    )


def read_quota(quota: JsonObject) -> WatchedQuota:
    """Return what is kept of *quota*."""
    metadata = quota["metadata"]
    hard = _mapping(_mapping(quota.get("spec")).get("hard"))
    return WatchedQuota(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        hard={key: str(value) for key, value in hard.items()},
    )


def _group(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    labelled = _mapping(metadata.get("labels")).get(_GROUP_LABEL)
    said = spec.get("schedulingGroup")
    named = _mapping(said).get("podGroupName") or said
    found = labelled or named
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=1024)
def _is_kept(key: str) -> bool:
    """Tell whether a key says what a pod has; what it is yet to be handed out changes too often."""
    return key in _KEPT or key.endswith(_ALLOCATED) or is_of_neighbour(key)


def is_of_neighbour(key: str) -> bool:
    """Tell whether a key decides which pods get along with it on one device."""
    return key.startswith(_PREFIX_OF_VENDORS)


def _asked(pod: JsonObject) -> Iterator[str]:
    """Yield the resources of which the containers want some."""
    spec = _mapping(pod.get("spec"))
    for section in ("initContainers", "containers"):
        for container in _objects(spec, section):
            resources = _mapping(container.get("resources"))
            for side in ("limits", "requests"):
                amounts = _mapping(resources.get(side)).items()
                yield from (name for name, amount in amounts if str(amount) != "0")


def _strays(annotations: Mapping[str, Any]) -> bool:
    """Tell whether a list of what is to be handed out has more than that of what was given.

    Both are written alike, and a device plugin empties a place of the former when it is done.
    """
    for key, text in annotations.items():
        if key.endswith(_TO_ALLOCATE):
            told = annotations.get(key.removesuffix(_TO_ALLOCATE) + _ALLOCATED)
            if text not in (told, "", ";") and _places(text) - _places(told):
                return True
    return False


def _places(text: object) -> Counter[str]:
    return Counter(filter(None, text.split(";"))) if isinstance(text, str) else Counter()


def _stays(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _inits_done(inits: list[Any], status: Mapping[str, Any]) -> bool:
    ended = {
        each.get("name"): _exit_code(each) for each in _objects(status, "initContainerStatuses")
    }
    return bool(inits) and all(
        _stays(each) or ended.get(each.get("name"), -1) == 0 for each in inits
    )


def _exit_code(status: Mapping[str, Any]) -> Any:
    return _mapping(_mapping(status.get("state")).get("terminated")).get("exitCode")


def _objects(where: Mapping[str, Any], key: str) -> list[Any]:
    found = where.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _texts(value: Any, is_kept: Callable[[str], bool]) -> dict[str, str]:
    """Return a map of texts; quantities that are numbers in JSON become texts."""
    return {
        sys.intern(key): sys.intern(str(text)) if key in _OF_FEW_TEXTS else str(text)
        for key, text in _mapping(value).items()
        if is_kept(key)
    }


def _shared(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the same for all nodes of which the same is kept."""
    return _one_of(tuple(texts.items()))


@lru_cache(maxsize=1024)
def _one_of(texts: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(texts)


@lru_cache(maxsize=1024)
def _is_of_devices(key: str) -> bool:
    return key.startswith(_PREFIXES_OF_NODES) or key == _SOFT_SPLIT


def _is_extended(resource: str) -> bool:
    return "/" in resource


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
