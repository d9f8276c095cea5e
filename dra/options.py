"""Which `ShareConfig` counts for a claim, and whether whoever wrote it may ask for that.

Kubernetes merges nothing: class entries come before claim entries, and inside one source a later
entry is stronger. The strongest entry that applies wins whole. HAMi-core takes its options per
container, not per GPU, so all shares of a claim must come out with the same ones.

Who books little must not get much: to run without limits, or without the core limit, is for an
administrator to grant, by a DeviceClass (which only administrators write) or by naming the
namespace in the driver's settings. The same list exists for priority 0, which overtakes others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra.allocation import AllocatedDevice, Allocation, ConfigEntry
from gpu.refusal import Refusal, RefusedError
from kube.shareconfig import DEFAULT, ShareConfig, ShareConfigError, parse

ANY_NAMESPACE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """Namespaces whose claims may ask for what others may not; `*` stands for all."""

    unlimited_namespaces: frozenset[str] = frozenset()
    """May set `enforcement: none` and `corePolicy: disable`."""
    priority_namespaces: frozenset[str] = frozenset({ANY_NAMESPACE})
    """May set `priority: 0`."""


def resolve(allocation: Allocation, limited: Sequence[bool], privileges: Privileges) -> ShareConfig:
    """Return the one `ShareConfig` of *allocation*; raise `RefusedError`.

    *limited* tells of each allocated device whether it is a share that limits apply to; other
    devices ignore entries that are for all, and whole ones refuse entries that name them.
    """
    parsed = [(entry, _parse(entry)) for entry in allocation.configs]
    chosen: list[tuple[AllocatedDevice, ShareConfig]] = []
    for device, is_limited in zip(allocation.devices, limited, strict=True):
        strongest = _strongest(device, parsed)
        if strongest is not None and not is_limited:
            _refuse_unfit(device, strongest[0])
        elif is_limited:
            entry, config = strongest or (None, DEFAULT)
            _check_privileges(entry, config, allocation.namespace, privileges)
            chosen.append((device, config))
    for device, config in chosen[1:]:
        _refuse_conflict(chosen[0], (device, config))
    return chosen[0][1] if chosen else DEFAULT


def _parse(entry: ConfigEntry) -> ShareConfig:
    try:
        return parse(dict(entry.parameters))
    except ShareConfigError as error:
        refusal = Refusal(
            code="ShareConfigInvalid",
            field=f"devices.config.opaque.parameters.{error.field}",
            value=error.value,
            limit=error.allowed,
        )
        raise RefusedError(refusal) from error


def _strongest(
    device: AllocatedDevice, parsed: list[tuple[ConfigEntry, ShareConfig]]
) -> tuple[ConfigEntry, ShareConfig] | None:
    """Return the last claim entry that applies, else the last class entry that does."""
    applying = [pair for pair in parsed if pair[0].applies_to(device)]
    of_claim = [pair for pair in applying if not pair[0].from_class]
    return next(reversed(of_claim or applying), None)


def _refuse_unfit(device: AllocatedDevice, entry: ConfigEntry) -> None:
    if entry.from_class or not entry.names(device) or device.consumed is not None:
        return
    raise RefusedError(
        Refusal(
            code="ShareConfigDoesNotFit",
            field="devices.config.requests",
            value=device.main_request,
            limit="a ShareConfig is for shares; this request was given a whole device",
            remedy="leave the request out of the config's `requests`",
        )
    )


def _check_privileges(
    entry: ConfigEntry | None, config: ShareConfig, namespace: str, privileges: Privileges
) -> None:
    if entry is None or entry.from_class:
        return
    unlimited = _allows(privileges.unlimited_namespaces, namespace)
    if config.enforcement == "none" and not unlimited:
        _refuse_privilege("enforcement", "none", namespace)
    if config.core_policy == "disable" and not unlimited:
        _refuse_privilege("corePolicy", "disable", namespace)
    if config.priority == 0 and not _allows(privileges.priority_namespaces, namespace):
        _refuse_privilege("priority", "0", namespace)


def _allows(namespaces: frozenset[str], namespace: str) -> bool:
    return ANY_NAMESPACE in namespaces or namespace in namespaces


def _refuse_privilege(field: str, value: str, namespace: str) -> None:
    raise RefusedError(
        Refusal(
            code="ShareConfigNotAllowed",
            field=f"devices.config.opaque.parameters.{field}",
            value=value,
            limit=f"not allowed for claims in namespace `{namespace}`",
            remedy="an administrator can set it in a DeviceClass or list the namespace",
        )
    )


def _refuse_conflict(
    first: tuple[AllocatedDevice, ShareConfig], other: tuple[AllocatedDevice, ShareConfig]
) -> None:
    if first[1] == other[1]:
        return
    raise RefusedError(
        Refusal(
            code="ShareConfigConflict",
            field="devices.config",
            value=f"{first[0].main_request}, {other[0].main_request}",
            limit="all shares of a claim are enforced with one ShareConfig",
            remedy="give these requests the same config, or a claim each",
        )
    )
