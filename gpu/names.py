"""Names the driver publishes: the contract between slices, selectors and claims.

Attribute and capacity keys are NVIDIA's where both drivers have one, so that only the domain of
a selector differs. They stand without a domain in a slice and belong to the driver's own there;
`resource.kubernetes.io` ones are Kubernetes' standard attributes. Device names are DNS labels
made from the UUID: stable over renumbering, unique over nodes.
"""

import hashlib
import re

DRIVER = "gpuslice.io"
CLASS_WHOLE = "gpu.gpuslice.io"
CLASS_SHARE = "share.gpuslice.io"
CLASS_MIG = "mig.gpuslice.io"

CAPACITY_MEMORY = "memory"
CAPACITY_CORES = "cores"
CAPACITY_SHARES = "shares"

ATTRIBUTE_PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
ATTRIBUTE_PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
ATTRIBUTE_NUMA_NODE = "resource.kubernetes.io/numaNode"
ATTRIBUTE_FILL_LEVEL = "fillLevel"

MODE_SHARED = "shared"
MODE_EXCLUSIVE = "exclusive"
MODE_MIG = "mig"

_DNS_LABEL_MAX = 63
_NOT_IN_LABEL = re.compile(r"[^a-z0-9-]+")


def device_name(uuid: str) -> str:
    """Return the published name for *uuid*: `gpu-<uuid>` or `mig-<uuid>`, a DNS label.

    A text that needs more than lower-casing to become a label gets a hash of the original at
    its end, so that two different UUIDs never share a name.
    """
    lower = uuid.lower()
    label = _NOT_IN_LABEL.sub("-", lower).strip("-")
    if label == lower and len(label) <= _DNS_LABEL_MAX:
        return label
    tail = hashlib.sha256(uuid.encode()).hexdigest()[:10]
    head = label[: _DNS_LABEL_MAX - 11].rstrip("-") or "gpu"
    return f"{head}-{tail}"
