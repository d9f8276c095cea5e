"""The devices that plugins offer, by resource: what is allocatable, and what the node can hold.

A resource whose plugin went away keeps its capacity, with nothing allocatable, for a grace period;
after that both are zero and stay so, since a resource that once had a plugin is never again one
that kubelet knows nothing of (kubelet: `pkg/kubelet/cm/devicemanager/manager.go`, GetCapacity).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from protos import deviceplugin_v1beta1_pb2 as wire
from sim.kubelet.deviceendpoint import Endpoint
from sim.kubelet.timing import Timing

HEALTHY = "Healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One id of a resource."""

    id: str
    healthy: bool
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResources:
    """What goes into the node's status; *removed* are resources to be shown as zero."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: frozenset[str] = frozenset()


@dataclass(slots=True)
class DeviceStock:
    """What was last said of every resource; it belongs to kubelet's loop."""

    devices: dict[str, dict[str, Device]] = field(default_factory=dict)
    """Kept when the plugin is lost."""
    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    """The one to call, by resource."""

    def restore(self, resources: Iterable[str], timing: Timing) -> None:
        """Know *resources* of an earlier kubelet: without devices until a plugin comes."""
        for resource in resources:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = Endpoint(resource, None, timing)

    def take(self, resource: str, said: Iterable[wire.Device]) -> None:
        """Take a plugin's list in place of all that was known of *resource*."""
        devices = [_device(one) for one in said]
        self.devices[resource] = {one.id: one for one in devices}
        self.healthy[resource] = {one.id for one in devices if one.healthy}
        self.unhealthy[resource] = {one.id for one in devices if not one.healthy}

    def lose(self, resource: str) -> None:
        """Take all devices of *resource* for unhealthy."""
        lost = self.healthy.get(resource, set())
        if resource in self.healthy:
            self.healthy[resource] = set()
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | lost

    def numa_nodes(self, resource: str, device: str) -> tuple[int, ...]:
        """Return the NUMA nodes that a device belongs to."""
        known = self.devices.get(resource, {}).get(device)
        return known.numa_nodes if known else ()

    def resources(self) -> NodeResources:
        """Return what the node has now, and forget resources whose grace period is over."""
        known = self.healthy.keys() | self.unhealthy.keys()
        removed = {resource for resource in known if self._over(resource)}
        for resource in removed:
            for each in (self.endpoints, self.healthy, self.unhealthy):
                each.pop(resource, None)
        healthy = {resource: len(ids) for resource, ids in self.healthy.items()}
        capacity = dict(healthy)
        for resource, ids in self.unhealthy.items():
            capacity[resource] = capacity.get(resource, 0) + len(ids)
        return NodeResources(capacity=capacity, allocatable=healthy, removed=frozenset(removed))

    def _over(self, resource: str) -> bool:
        endpoint = self.endpoints.get(resource)
        return endpoint is None or endpoint.over()


def _device(said: wire.Device) -> Device:
    return Device(
        id=said.ID,
        healthy=said.health == HEALTHY,
        numa_nodes=tuple(node.ID for node in said.topology.nodes),
    )
