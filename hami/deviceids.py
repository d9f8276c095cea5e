"""The ids under which kubelet knows parts of a GPU, and the UUID of the GPU they are parts of.

A device plugin advertises a GPU that may be shared once for each part: HAMi's as `<UUID>-<n>`,
NVIDIA's as `<UUID>::<n>`. HAMi up to v2.9 wrote MIG instances on pods as `<UUID>[<n>-<m>]`.
"""

import re
from typing import Final

_UUID: Final = r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PART: Final = re.compile(rf"({_UUID})-[0-9]+", re.IGNORECASE | re.ASCII)
_INSTANCE: Final = re.compile(r"([^\[\]]+)\[[0-9]+-[0-9]+\]", re.ASCII)


def physical_uuid(device_id: str) -> str:
    """Return the UUID of the GPU; an id of another form is its own."""
    whole, _, _ = device_id.partition("::")
    found = _PART.fullmatch(whole) or _INSTANCE.fullmatch(whole)
    return found.group(1) if found else whole or device_id
