"""Which of our devices somebody else on the node offers too.

Neither NVIDIA's device plugin nor another DRA driver knows what we give away, so a GPU that two of
them offer is given away twice. What others say of their devices:

- The device plugin says only how many there are, in the Node's `status.allocatable`. With its MIG
  strategy `mixed` partitions are `nvidia.com/mig-<profile>` and `nvidia.com/gpu` are whole GPUs;
  with `single` and `none` `nvidia.com/gpu` may be either. A time-sliced resource may end in
  `.shared` (NVIDIA/k8s-device-plugin: README, "Shared Access to GPUs"). The strategy stands in a
  label where GPU feature discovery runs.
- A DRA driver names devices by UUID, by the standard attribute for the PCI bus id, or both; a
  partition has the bus id of its GPU.

Where it cannot be told, the device counts as offered: a taint can be taken away, what two pods
did to each other cannot. Generation and completeness of a foreign pool do not matter for the same
reason. Whatever stands in foreign objects, nothing here raises.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu.model import Gpu, GpuUuid, Inventory
from gpu.names import DRIVER
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
_BUS_ID: Final = re.compile(
    r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.ASCII | re.IGNORECASE
)
_NAME_MAX: Final = 63
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9./_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Who else offers a device."""

    source: str
    """A resource of the node such as `nvidia.com/gpu`, or the name of a driver; ASCII."""
    message: str
    """One sentence in ASCII, at most 200 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginResources:
    """The extended resources of device plugins for NVIDIA GPUs, without any of our own."""

    gpus: frozenset[str] = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
    partition_prefixes: tuple[str, ...] = ("nvidia.com/mig-",)


def find_rivals(
    inventory: Inventory,
    node: JsonObject | None,
    slices: Iterable[JsonObject],
    *,
    node_name: str,
    resources: PluginResources | None = None,
) -> dict[GpuUuid, Rival]:
    """Return the devices that somebody else offers too, by UUID; a device plugin is named first."""
    by_drivers = driver_rivals(inventory, slices, node_name=node_name)
    return by_drivers | plugin_rivals(inventory, node, resources)


def plugin_rivals(
    inventory: Inventory, node: JsonObject | None, resources: PluginResources | None = None
) -> dict[GpuUuid, Rival]:
    """Return the devices that a device plugin of *node* offers too, by UUID."""
    known = resources or PluginResources()
    offered = sorted(_offered(node))
    partitions = [name for name in offered if name.startswith(known.partition_prefixes)]
    gpus = [name for name in offered if name in known.gpus]
    # Partitions of their own resource: then those of the other are whole GPUs.
    mixed = bool(partitions) or _label(node, _STRATEGY_LABEL) == "mixed"
    found: dict[GpuUuid, Rival] = {}
    for gpu in inventory.gpus:
        names = partitions if gpu.mig_enabled and mixed else gpus
        if names:
            source = _name(names[0])
            rival = Rival(source=source, message=f"the node offers it as {source} too")
            found |= dict.fromkeys(_devices(gpu), rival)
    return found


def driver_rivals(
    inventory: Inventory, slices: Iterable[JsonObject], *, node_name: str, own: str = DRIVER
) -> dict[GpuUuid, Rival]:
    """Return the devices that other drivers than *own* offer too, by UUID.

    Bus ids count only in slices of the node *node_name*, because every node has the same; UUIDs
    count wherever they stand.
    """
    index = _Index.of(inventory)
    found: dict[GpuUuid, Rival] = {}
    for driver, on_node, device in _foreign(slices, node_name=node_name, own=own):
        rival = Rival(
            source=_name(driver),
            message=f"driver {_name(driver)} offers it as {_name(device.get('name'))} too",
        )
        for uuid in index.concerned(device, on_node=on_node):
            # The same whatever the order in which the slices came.
            found[uuid] = min(found.get(uuid, rival), rival, key=lambda each: each.message)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Our devices by what others may call them."""

    own: Mapping[str, GpuUuid]
    """Devices by their UUIDs in lower case."""
    by_gpu: Mapping[str, tuple[GpuUuid, ...]]
    """The devices of a GPU by its UUID in lower case."""
    by_bus: Mapping[str, tuple[GpuUuid, ...]]

    @classmethod
    def of(cls, inventory: Inventory) -> "_Index":
        parts = {gpu: tuple(_devices(gpu)) for gpu in inventory.gpus}
        return cls(
            own={uuid.lower(): uuid for uuids in parts.values() for uuid in uuids},
            by_gpu={gpu.uuid.lower(): uuids for gpu, uuids in parts.items()},
            by_bus={_bus(gpu.pci_bus_id): uuids for gpu, uuids in parts.items()},
        )

    def concerned(self, device: JsonObject, *, on_node: bool) -> tuple[GpuUuid, ...]:
        """Return our devices that share hardware with the foreign *device*."""
        said = [text.lower() for text in _texts(device, "uuid")]
        if exact := tuple(self.own[text] for text in said if text in self.own):
            return exact
        found: tuple[GpuUuid, ...] = ()
        for text in (*said, *(each.lower() for each in _texts(device, "parentuuid"))):
            found += self.by_gpu.get(text, ())
        for text in _texts(device, "pcibusid") if on_node else ():
            found += self.by_bus.get(_bus(text), ())
        return found


def _devices(gpu: Gpu) -> Iterator[GpuUuid]:
    """Yield what we offer of *gpu*."""
    if gpu.mig_enabled:
        yield from (mig.uuid for mig in gpu.mig_devices)
    else:
        yield gpu.uuid


def _offered(node: Any) -> Iterator[str]:
    """Yield the resources of which *node* has some; what cannot be read counts as some."""
    for name, amount in _object(_object(node, "status"), "allocatable").items():
        try:
            if parse(_text(amount)).nanos > 0:
                yield str(name)
        except QuantityError:
            yield str(name)


def _label(node: Any, name: str) -> Any:
    return _object(_object(node, "metadata"), "labels").get(name)


def _foreign(
    slices: Iterable[Any], *, node_name: str, own: str
) -> Iterator[tuple[Any, bool, JsonObject]]:
    """Yield driver, whether it is of this node, and device for all devices of others."""
    for each in slices:
        spec = _object(each, "spec")
        driver = spec.get("driver")
        devices = spec.get("devices")
        if _text(driver).lower() == own or not isinstance(devices, list):
            continue
        for device in devices:
            if isinstance(device, dict):
                on_node = node_name in (spec.get("nodeName"), device.get("nodeName"))
                yield driver, on_node, device


def _texts(device: JsonObject, name: str) -> Iterator[str]:
    """Yield the texts of all attributes called *name*, of whichever domain and case."""
    for key, attribute in _object(device, "attributes").items():
        if str(key).rpartition("/")[2].lower() != name or not isinstance(attribute, dict):
            continue
        listed = attribute.get("strings")
        for value in (attribute.get("string"), *(listed if isinstance(listed, list) else ())):
            if isinstance(value, str):
                yield value


def _bus(text: str) -> str:
    """Return a bus id as sysfs writes it; NVML's has a domain of eight digits."""
    match = _BUS_ID.fullmatch(text.strip())
    if match is None:
        return text.strip().lower()
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}".lower()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any, key: str) -> JsonObject:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _name(value: Any) -> str:
    """Return what others call something, fit for a log line."""
    return _NOT_IN_NAME.sub("-", _text(value))[:_NAME_MAX] or "unnamed"
