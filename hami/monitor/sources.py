"""What the monitor is given from outside, and what one look at all of it has found.

The monitor starts no watch and opens no session of its own: pods, claims and GPUs are read by other
parts of the agent already.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gpu.usage import GpuUsage
from hami.monitor.claims import PreparedClaim
from hami.monitor.holders import Holder
from hami.monitor.places import Place
from hami.monitor.podresources import ContainerResources
from hami.monitor.pods import NodePod
from hami.monitor.regions.model import Region, Unreadable


class GpuReadings(Protocol):
    """Reads what the node's GPUs do."""

    def read(self) -> tuple[GpuUsage, ...]:
        """Return what each does; `gpu.errors.GpuError` if there is no driver to ask."""


class HeldByKubelet(Protocol):
    """Asks kubelet what its containers hold."""

    def containers(self) -> tuple[ContainerResources, ...]:
        """Return it; `PodResourcesError` if kubelet does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything from outside; what is not there is `None`."""

    pods: Callable[[], Iterable[NodePod] | None]
    """The pods of this node; `None` until they are known."""
    claims: Callable[[], Iterable[PreparedClaim]] = tuple
    claim_region: Callable[[str], Path] | None = None
    """Where the region of a claim is, by the claim's UID."""
    plugin_regions: Path | None = None
    """The directory in which the device plugin makes those of its containers."""
    plugin_resources: frozenset[str] = frozenset()
    """Names under which the device plugin serves."""
    pod_resources: HeldByKubelet | None = None
    gpus: GpuReadings | None = None


class Source(StrEnum):
    """What may fail by itself."""

    PODS = "pods"
    POD_RESOURCES = "pod_resources"
    GPUS = "gpus"
    REGIONS = "regions"
    PROCESSES = "processes"
    """Of the host; those of containers at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A container and its region."""

    holder: Holder
    region: Region | Unreadable | None
    """`None` where nothing is limited."""


class GpuOwner(StrEnum):
    """Whose a process on a GPU is."""

    SHARE = "share"
    """That of a container whose pod holds the GPU or a part of it."""
    STRAY = "stray"
    UNKNOWN = "unknown"
    """Its pod cannot be told, or holds GPUs of another driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWorker:
    """A process on a GPU."""

    gpu_uuid: str
    host_pid: int
    memory_bytes: int | None
    owner: GpuOwner
    pod_uid: str | None
    """Empty for a process of no pod; `None` if that cannot be told."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one scan has found."""

    taken_s: float
    """Unix time."""
    success: Mapping[Source, bool]
    """Of the sources that there are."""
    looks: tuple[Look, ...] = ()
    places: tuple[Place, ...] = ()
    regions: Mapping[Path, Region | Unreadable]
    """All that were read, also those of containers that do not run."""
    gpus: tuple[GpuUsage, ...] = ()
    workers: tuple[GpuWorker, ...] = ()
    pods: Mapping[str, NodePod]
    """By UID."""
