"""Where a GPU sits in the machine, as the kernel says it.

NVML writes a bus id with an eight-digit domain in upper case, sysfs with four digits in lower
case. `numa_node` holds -1 where firmware does not tell. The target of a device's link is its
path through the bridges, and its first component is the PCIe root that Kubernetes' standard
attribute `resource.kubernetes.io/pcieRoot` means (dynamic-resource-allocation:
deviceattribute).
"""

import re
from pathlib import Path

from gpu.model import PciBusId

SYSFS = Path("/sys")

_BUS_ID = re.compile(r"([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])")
_PCIE_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def pci_bus_id(text: str) -> PciBusId:
    """Return *text*, in NVML's or sysfs' form, in the form of sysfs; `ValueError` if neither."""
    match = _BUS_ID.fullmatch(text.strip().lower())
    if match is None:
        message = f"not a PCI bus id: {text!r}"
        raise ValueError(message)
    domain, bus, device, function = (int(part, 16) for part in match.groups())
    return PciBusId(f"{domain:04x}:{bus:02x}:{device:02x}.{function}")


def numa_node(bus_id: PciBusId, *, sysfs: Path = SYSFS) -> int | None:
    """Return the NUMA node next to *bus_id*, or `None` where the kernel knows none."""
    try:
        node = int((_device(bus_id, sysfs) / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def pcie_root(bus_id: PciBusId, *, sysfs: Path = SYSFS) -> str | None:
    """Return the PCIe root above *bus_id*, such as `pci0000:00`, or `None` if not shown."""
    try:
        target = _device(bus_id, sysfs).readlink()
    except OSError:
        return None
    roots = (part for part in target.parts if _PCIE_ROOT.fullmatch(part))
    return next(roots, None)


def _device(bus_id: PciBusId, sysfs: Path) -> Path:
    return sysfs / "bus" / "pci" / "devices" / bus_id
