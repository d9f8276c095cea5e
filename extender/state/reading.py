"""What is kept of the nodes, pods and quotas that watches tell of.

An object of the API server is many kilobytes, of which a decision needs some texts. They are taken
out in the threads of the reflectors and shared afterwards, so they never change. Pods that neither
ask for devices nor hold any are nobody's business here.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from hami import keys
from hami.containers import JsonObject
from kube.store import UnwantedError

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_ALLOCATED: Final = "-devices-allocated"
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

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def says(self) -> tuple[object, ...]:
        """Return all of which its bookings follow."""
        return (self.node, self.is_over, self.inits_done, self.annotations)

    @property
    def is_over(self) -> bool:
        """Tell whether it has ended and holds nothing any more."""
        return self.phase in _ENDED

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
        labels=_texts(metadata.get("labels"), _INSTANCE_TYPE.__eq__),
        capacity=_texts(status.get("capacity"), _is_extended),
        allocatable=_texts(status.get("allocatable"), _is_extended),
    )


def pod_reader(resources: Collection[str]) -> Callable[[JsonObject], WatchedPod]:
    """Return a decoder of pods that leaves out those with none of *resources* and no devices."""
    wanted = frozenset(resources)

    def read(pod: JsonObject) -> WatchedPod:
        facts = read_pod(pod)
        if not facts.planned_node and not _asks(pod, wanted):
            raise UnwantedError
        return facts

    return read


def read_pod(pod: JsonObject) -> WatchedPod:
    """Return what is kept of *pod*."""
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


def _is_kept(key: str) -> bool:
    """Tell whether a key says what a pod has; what it is yet to be handed out changes too often."""
    return key in _KEPT or key.endswith(_ALLOCATED) or is_of_neighbour(key)


def is_of_neighbour(key: str) -> bool:
    """Tell whether a key decides which pods get along with it on one device."""
    return key.startswith(_PREFIX_OF_VENDORS)


def _asks(pod: JsonObject, wanted: Collection[str]) -> bool:
    spec = _mapping(pod.get("spec"))
    for section in ("initContainers", "containers"):
        for container in _objects(spec, section):
            resources = _mapping(container.get("resources"))
            for side in ("limits", "requests"):
                if not _mapping(resources.get(side)).keys().isdisjoint(wanted):
                    return True
    return False


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


def _is_of_devices(key: str) -> bool:
    return key.startswith(_PREFIXES_OF_NODES) or key == _SOFT_SPLIT


def _is_extended(resource: str) -> bool:
    return "/" in resource


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
