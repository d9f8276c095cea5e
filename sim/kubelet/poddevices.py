"""Which devices containers hold, and what their plugins answered for them.

What is taken is computed from this; ids that an allocation has chosen and not yet got count too
(kubelet: `pkg/kubelet/cm/devicemanager/pod_devices.go`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from protos import deviceplugin_v1beta1_pb2 as wire

NO_NUMA_NODE: Final = -1
"""Where devices stand that belong to no NUMA node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one container holds of one resource."""

    by_numa_node: Mapping[int, tuple[str, ...]]
    """A device of several nodes stands with each."""
    response: wire.ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids."""
        return frozenset(each for ids in self.by_numa_node.values() for each in ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One container's part of the record."""

    pod_uid: str
    container: str
    resource: str
    held: Held


class PodDevices:
    """The record, by pod, container and resource."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, dict[str, Held]]] = {}

    def add(self, entry: Entry) -> None:
        """Take *entry* in place of one for the same resource."""
        of_pod = self._held.setdefault(entry.pod_uid, {})
        of_pod.setdefault(entry.container, {})[entry.resource] = entry.held

    def keep(self, pods: Iterable[str]) -> None:
        """Forget all pods but *pods*, by UID."""
        kept = set(pods)
        self._held = {uid: held for uid, held in self._held.items() if uid in kept}

    def of(self, pod_uid: str, container: str) -> dict[str, Held]:
        """Return what a container holds, by resource."""
        return dict(self._held.get(pod_uid, {}).get(container, {}))

    def ids(self, pod_uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Return the ids of one resource; `None` where nothing was ever allocated."""
        held = self._held.get(pod_uid, {}).get(container, {}).get(resource)
        return held.ids if held else None

    def taken(self) -> dict[str, set[str]]:
        """Return the ids that anybody holds, by resource."""
        taken: dict[str, set[str]] = {}
        for entry in self:
            taken.setdefault(entry.resource, set()).update(entry.held.ids)
        return taken

    def __iter__(self) -> Iterator[Entry]:
        for uid, of_pod in self._held.items():
            for container, of_container in of_pod.items():
                for resource, held in of_container.items():
                    yield Entry(pod_uid=uid, container=container, resource=resource, held=held)
