"""Reads what a pod asks for, of every container and vendor: absent, valid or invalid.

Whatever the pod is, an answer comes back: it has not been validated yet when a webhook sees it.
"""

from dataclasses import dataclass

from gpu.refusal import Refusal
from hami import amounts, nvidia, preference_reading
from hami.containers import Container, JsonObject, all_containers
from hami.deviceconfig import DeviceConfig
from hami.preferences import Preferences
from hami.requests import Absent, ContainerRequest, Edits, Invalid, Valid


def read(
    pod: JsonObject, config: DeviceConfig, *, least_memory_mib: int = nvidia.LEAST_MEMORY_MIB
) -> Absent | Valid | Invalid:
    """Return what *pod* asks for, or all reasons why it must be refused.

    Reasons come in the order of containers, then of HAMi's keys; those of annotations last. A
    share smaller than *least_memory_mib* is warned about; 0 warns of none.
    """
    containers = _read_containers(pod, config, least_memory_mib)
    requests = tuple(each.request for each in containers)
    reasons = [reason for each in containers for reason in each.reasons]
    warnings = [warning for each in containers for warning in each.warnings]
    asks = any(each.devices for each in requests)
    preferences = Preferences()
    if asks or reasons:
        annotations = preference_reading.read(pod, nvidia=any(each.nvidia for each in containers))
        reasons += annotations.reasons
        warnings += annotations.warnings
        preferences = annotations.preferences
    warnings += preference_reading.without_effect(pod, config.nvidia.keys)
    if reasons:
        return Invalid(reasons=tuple(reasons), warnings=tuple(warnings))
    if not asks:
        edited = tuple(each for each in requests if each.edits != Edits())
        return Absent(requests=edited, warnings=tuple(warnings))
    return Valid(requests=requests, preferences=preferences, warnings=tuple(warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One container, read."""

    request: ContainerRequest
    nvidia: bool
    """Whether it asks for NVIDIA GPUs, be it wrongly."""
    reasons: tuple[Refusal, ...]
    warnings: tuple[Refusal, ...]


def _read_containers(pod: JsonObject, config: DeviceConfig, least_memory_mib: int) -> list[_Read]:
    return [_read(each, config, least_memory_mib) for each in all_containers(pod)]


def _read(container: Container, config: DeviceConfig, least_memory_mib: int) -> _Read:
    found = nvidia.read(container, config.nvidia, least_memory_mib=least_memory_mib)
    devices = (found.request,) if found.request else ()
    return _Read(
        request=ContainerRequest(container=container, devices=devices, edits=found.edits),
        nvidia=bool(found.request or found.reasons),
        reasons=(*amounts.malformed(container), *found.reasons),
        warnings=found.warnings,
    )
