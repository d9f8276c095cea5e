"""What a pod asks for in HAMi's words, once read: values, no rules.

A request is absent, valid or invalid, and never an empty one in the place of one that could not
be read: the scheduler could not tell it from a container that wants nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu.refusal import Refusal
from hami.containers import Container
from hami.preferences import Preferences

NVIDIA: Final = "NVIDIA"
"""HAMi's common word of the only vendor that is served by claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one container asks of one vendor; sizes are for each of *count* devices."""

    word: str
    """HAMi's common word, such as `NVIDIA` or `MLU`."""
    count: int
    memory_mib: int | None
    """After factors and defaults; `None` where the size is a percentage."""
    memory_percent: int | None
    """1 to 100 of whichever device it becomes; `None` where *memory_mib* says it."""
    cores: int
    """Percent of NVIDIA GPUs, after defaults; 0 is no share of its own and no limit."""
    priority: int | None = None
    """NVIDIA only; 0 goes before 1."""
    is_limited: bool = True
    """NVIDIA only; a share for which that was lifted gets its sizes booked and nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What admission writes into a container on the way of HAMi's own scheduler."""

    limits: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    env: tuple[tuple[str, str], ...] = ()
    """Variables to append, by name and value."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_class_name: str | None = None
    """For a pod that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container, asking or not."""

    container: Container
    devices: tuple[DeviceRequest, ...]
    edits: Edits = field(default_factory=Edits)

    @property
    def nvidia(self) -> DeviceRequest | None:
        """What it asks of NVIDIA GPUs."""
        return next((each for each in self.devices if each.word == NVIDIA), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """No container asks for a device; *warnings* may be about keys without an effect."""

    requests: tuple[ContainerRequest, ...] = ()
    """Containers that are edited all the same, such as by `overwriteEnv`."""
    warnings: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """At least one container asks for a device, and all could be read."""

    requests: tuple[ContainerRequest, ...]
    """Every container of the pod, in the order of `all_containers`."""
    preferences: Preferences
    warnings: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The pod must be refused for all *reasons*."""

    reasons: tuple[Refusal, ...]
    warnings: tuple[Refusal, ...] = ()
    requests: tuple[ContainerRequest, ...] = ()
    """What could be read of the containers, to find out what else is wrong."""
    preferences: Preferences = field(default_factory=Preferences)
