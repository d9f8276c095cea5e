"""The attributes of a published device: our own on every one, the standard ones where known.

A CEL selector that reads a missing key is an error that stops the pod's scheduling on every node,
so each of our names is on each device and says "unknown" where it has nothing to say. Kubernetes'
standard topology attributes are the opposite: `matchAttribute` compares them, so a made-up value
would call strangers aligned, and an unknown one is left out. For the same reason `parentUUID` of
a whole GPU is its own UUID and not "unknown".

The API server takes strings of at most 64 bytes and versions only as semver 2.0.0, where
`580.65.06` is an error because of its leading zero (resource/v1: `DeviceAttribute`).
"""

import hashlib
import re

from gpu.model import Gpu, MigDevice
from gpu.names import ATTRIBUTE_NUMA_NODE, ATTRIBUTE_PCI_BUS_ID, ATTRIBUTE_PCIE_ROOT
from kube.objects import JsonObject

UNKNOWN = "unknown"
UNKNOWN_VERSION = "0.0.0"

STRING_MAX_BYTES = 64
_TAIL_HEX = 10
_VERSION = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?!\d)", re.ASCII)


def short_text(value: str) -> str:
    """Return *value* in at most 64 bytes of UTF-8: cut, with a hash of the whole at its end."""
    clean = value.strip().encode("utf-8", "replace")
    if not clean:
        return UNKNOWN
    if len(clean) <= STRING_MAX_BYTES:
        return clean.decode()
    tail = "-" + hashlib.sha256(clean).hexdigest()[:_TAIL_HEX]
    return clean[: STRING_MAX_BYTES - len(tail)].decode("utf-8", "ignore") + tail


def semver(value: str) -> str:
    """Return the first three numbers of *value* as `X.Y.Z`, or `0.0.0` where there are none."""
    match = _VERSION.match(value.strip())
    if match is None:
        return UNKNOWN_VERSION
    return ".".join(str(int(number or 0)) for number in match.groups())


def attributes_of(gpu: Gpu, mode: str, mig: MigDevice | None = None) -> JsonObject:
    """Return the `attributes` of a whole *gpu* or of the partition *mig* of it."""
    own = {
        "type": {"string": "gpu" if mig is None else "mig"},
        "mode": {"string": mode},
        "uuid": {"string": short_text(gpu.uuid if mig is None else mig.uuid)},
        "parentUUID": {"string": short_text(gpu.uuid)},
        "productName": {"string": short_text(gpu.name)},
        "brand": {"string": short_text(gpu.brand)},
        "architecture": {"string": short_text(gpu.architecture)},
        "profile": {"string": UNKNOWN if mig is None else short_text(mig.profile)},
        "cudaComputeCapability": {"version": semver(gpu.compute_capability)},
        "driverVersion": {"version": semver(gpu.driver_version)},
        "cudaDriverVersion": {"version": semver(gpu.cuda_driver_version)},
    }
    return own | _standard(gpu)


def _standard(gpu: Gpu) -> JsonObject:
    found: JsonObject = {ATTRIBUTE_PCI_BUS_ID: {"string": short_text(gpu.pci_bus_id)}}
    if gpu.pcie_root is not None:
        found[ATTRIBUTE_PCIE_ROOT] = {"string": short_text(gpu.pcie_root)}
    if gpu.numa_node is not None and gpu.numa_node >= 0:
        found[ATTRIBUTE_NUMA_NODE] = {"int": gpu.numa_node}
    return found
