"""Devices as HAMi's annotations speak of them: what a node registers, what a pod was given.

Values without rules; `hami.annotations` turns them into text and back. Sizes are MiB and cores are
percent of one device as its node scales them, so a device may have more than 100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlacement:
    """Where an instance lies: *size* memory slices from *start*."""

    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One kind of instance that a GPU can hold."""

    name: str
    memory_mib: int
    cores: int
    slice_count: int
    placements: tuple[MigPlacement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredDevice:
    """A device of a node, of whichever vendor."""

    word: str
    """HAMi's common word of the vendor."""
    uuid: str
    index: int
    count: int
    """How many containers may share it."""
    memory_mib: int
    cores: int
    type: str
    """The model; requests name their type by a part of it."""
    numa: int
    mode: str
    """`hami-core`, `mig` or what its vendor says; empty where the node does not tell."""
    healthy: bool
    mig_profiles: tuple[MigProfile, ...] = ()
    custom: Mapping[str, Any] = field(default_factory=dict)
    """What only its vendor's rules read, such as a network or a link zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevice:
    """A device, or a part of one, that a container was given."""

    uuid: str
    type: str
    memory_mib: int
    cores: int


Slots = tuple[tuple[PodDevice, ...], ...]
"""What each container of a pod was given: init containers first, every position there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigAllocation:
    """An instance that a container was given; its ids are known once the node has made it."""

    container_index: int
    """Init containers come first."""
    device_index: int
    gpu_uuid: str
    profile: str
    placement: MigPlacement
    mig_uuid: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
