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
from hami.vendors import Vendor


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
        return Invalid(
            reasons=tuple(reasons),
            warnings=tuple(warnings),
            requests=requests,
            preferences=preferences,
        )
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
    return [_read(each, pod, config, least_memory_mib) for each in all_containers(pod)]


def _read(
    container: Container, pod: JsonObject, config: DeviceConfig, least_memory_mib: int
) -> _Read:
    of_nvidia = nvidia.read(container, config.nvidia, least_memory_mib=least_memory_mib)
    concerned = _concerned(config, amounts.names(container))
    readings = (of_nvidia, *(vendor.read(container, pod) for vendor in concerned))
    devices = tuple(each.request for each in readings if each.request)
    edits = _merged([each.edits for each in readings])
    reasons = (reason for each in readings for reason in each.reasons)
    return _Read(
        request=ContainerRequest(container=container, devices=devices, edits=edits),
        nvidia=bool(of_nvidia.request or of_nvidia.reasons),
        reasons=(*amounts.malformed(container), *reasons),
        warnings=tuple(warning for each in readings for warning in each.warnings),
    )


def _concerned(config: DeviceConfig, named: frozenset[str]) -> list[Vendor]:
    """Return the vendors beside NVIDIA that look at a container which names *named*."""
    names_any = not named.isdisjoint(config.vendor_keys)
    return [
        each
        for each in config.vendors
        if each.edits_all or (names_any and not each.keys.isdisjoint(named))
    ]


def _merged(edits: list[Edits]) -> Edits:
    """Return all of *edits*; vendors have no key in common, and the first runtime class holds."""
    if len(edits) == 1:
        return edits[0]
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    pod_annotations: dict[str, str] = {}
    for each in edits:
        limits.update(each.limits)
        requests.update(each.requests)
        pod_annotations.update(each.pod_annotations)
    runtime_classes = (each.runtime_class_name for each in edits)
    return Edits(
        limits=limits,
        requests=requests,
        env=tuple(variable for each in edits for variable in each.env),
        pod_annotations=pod_annotations,
        runtime_class_name=next(filter(None, runtime_classes), None),
    )
