"""What the plugin remembers of a claim: enough to answer again and to rewrite its CDI spec.

The record is the intent, written before anything is done: region and CDI spec are functions of it
and of the inventory, so a crash at any later point is repaired by doing them again. Kubelet
compares answers of repeated calls, so the answer is a function of the record alone.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpu.model import GpuUuid

Whole = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One allocation result of ours and what it holds of its device."""

    request: str
    """Main request name: kubelet matches containers on it, never on `main/sub`."""
    pool: str
    device: str
    share_id: str | None
    uuid: GpuUuid
    """Of the device itself: a GPU or a MIG device."""
    parent_uuid: GpuUuid
    """Of the physical GPU; equal to *uuid* unless this is a MIG device."""
    dedicated: Flag
    """Nobody else may hold the device: there was no consumed capacity to share by."""
    admin: Flag
    """Administrative access: counted for nobody."""
    memory_mib: Whole
    cores_percent: Whole
    shares: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLimit:
    """What a container may use of one visible GPU; position in the tuple is the index."""

    uuid: GpuUuid
    memory_mib: Whole
    cores_percent: Whole
    """1 to 99, or 100 for no core limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """How HAMi-core shall enforce the limits of a claim."""

    library_sha256: str
    priority: Whole | None = None
    core_policy: Literal["default", "force", "disable"] = "default"
    log_level: Whole | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    """A claim that is prepared, or was about to be when the process ended."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    """Of the claim when it was last prepared: tells a late call from a new allocation."""
    allocation: str
    """Digest of what was allocated: the same means that nothing has to be decided again."""
    boot_id: str
    pod_uids: tuple[str, ...] = ()
    """Pods that it was reserved for when last prepared: for the log."""
    devices: tuple[PreparedDevice, ...]
    """In the order of the allocation's results: answers must not vary."""
    limits: tuple[GpuLimit, ...] = ()
    """In PCI bus order; empty where nothing is limited."""
    options: LimitOptions | None = None
    """Set exactly when *limits* is not empty."""


PREPARED_CLAIM: TypeAdapter[PreparedClaim] = TypeAdapter(PreparedClaim)
