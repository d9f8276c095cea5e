"""What a container with a share must not set in its own environment.

HAMi-core takes its limits, its region and its options from variables, and others keep it from being
loaded or make it count on the wrong GPU: with `CUDA_VISIBLE_DEVICES` set and NVML opened first, no
release enforces the memory limit. Some runtimes let the pod's variables beat the driver's. What
`envFrom` or an image brings is not known at admission.

`CUDA_DISABLE_CONTROL` is HAMi's way to run without limits. That is for whoever has a GPU of his
own, or was granted it: an unlimited container among limited ones eats their memory. HAMi's device
plugin reads the variable; a claim has to say the same by its configuration.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu.refusal import Refusal
from hami.containers import Container
from hami.nvidia import ENV_CORE_POLICY, ENV_PRIORITY, ENV_VISIBLE_DEVICES
from hami.preferences import Preferences
from hami.requests import Absent, ContainerRequest, DeviceRequest, Valid
from hami.wording import shown
from kube.objects import JsonObject
from webhook.sharedpods import ClaimLookup, claim_uses, limited_claims, priorities

CONTROL: Final = "CUDA_DISABLE_CONTROL"

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"", "0", "f", "false", "no"})

_LIMIT: Final = re.compile(r"CUDA_DEVICE_(?:MEMORY|SM)_LIMIT(?:_.*)?", re.DOTALL)
_REASONS: Final = {
    "CUDA_VISIBLE_DEVICES": "limits go by the order of GPUs, which it changes",
    "CUDA_DEVICE_ORDER": "limits go by the order of GPUs, which it changes",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE": "usage is counted in this file",
    ENV_PRIORITY: "priority is asked for by resource",
    ENV_CORE_POLICY: "it can switch the core limit off",
    "CUDA_REDIRECT": "it names the library that limits",
    "LD_PRELOAD": "it takes the place of the library that limits",
    ENV_VISIBLE_DEVICES: "it can give GPUs that were not asked for",
}
_AS_THE_DRIVER: Final = (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),)
_POLICIES: Final = ("force", "disable")
_ALL_CORES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRules:
    """What the administrator decides, for the namespace of the pod."""

    warn_only: bool = False
    """Take variables that undo limits, with a warning; never an opt-out."""
    may_be_unlimited: bool = False
    """`CUDA_DISABLE_CONTROL` may lift the limits of shares."""
    core_policy: str = ""
    """The site's, which stands in every container once a pod was prepared for HAMi's scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is said about a pod."""

    reasons: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()


def control_disabled(container: JsonObject) -> bool:
    """Tell whether the raw *container* asks to run without limits, as HAMi reads it."""
    return any(
        name == CONTROL and isinstance(value, str) and value.lower() in _TRUE
        for name, value in _variables(container)
    )


def is_share(device: DeviceRequest, preferences: Preferences) -> bool:
    """Tell whether *device* may become less than a whole GPU or MIG device."""
    modes = preferences.modes
    if modes is not None and "hami-core" not in modes:
        return False
    is_whole = device.memory_mib is None and device.memory_percent in (None, 100)
    return not (is_whole and device.cores in (0, _ALL_CORES))


def share_containers(read: Absent | Valid) -> frozenset[str]:
    """Return the names of the containers that ask for limited shares in HAMi's words."""
    return frozenset(each.container.name for each, _ in _sharing(read))


def check_environment(
    pod: JsonObject,
    read: Absent | Valid,
    rules: EnvironmentRules,
    lookup: ClaimLookup | None = None,
) -> Findings:
    """Return what the variables of *pod* would do to its limits; *read* is what it asks for.

    With *lookup*, containers that use claims for shares, as users write them, are looked at too.
    """
    undoing: list[Refusal] = []
    reasons: list[Refusal] = []
    warnings: list[Refusal] = []
    asking = share_containers(read)
    for each, device in _sharing(read):
        disabled = control_disabled(each.container.raw)
        if disabled and not rules.may_be_unlimited:
            reasons.append(_opting_out(each.container))
        if not (disabled and rules.may_be_unlimited):
            undoing += _undoing(each.container, _known(rules, device.priority))
        warnings += _odd_controls(each.container)
    for container, priority in _claiming(pod, lookup):
        if container.name not in asking:
            undoing += _undoing(container, _known(rules, priority))
            warnings += _without_effect(container)
    if rules.warn_only:
        return Findings(reasons=tuple(reasons), warnings=(*undoing, *warnings))
    return Findings(reasons=(*reasons, *undoing), warnings=tuple(warnings))


def promoted(read: Valid) -> Valid:
    """Return *read* with whole GPUs for the shares that opt out of their limits.

    For claims only: on the way of HAMi's scheduler the pod's own amounts would stay.
    """
    return _with(
        read,
        {
            pointer: replace(device, memory_mib=None, memory_percent=100, cores=_ALL_CORES)
            for pointer, device in _opting(read)
        },
    )


def released(read: Valid) -> Valid:
    """Return *read* without limits for the shares that opt out of them, where that is granted."""
    return _with(
        read, {pointer: replace(device, is_limited=False) for pointer, device in _opting(read)}
    )


def _opting(read: Valid) -> Iterator[tuple[str, DeviceRequest]]:
    for each, device in _sharing(read):
        if control_disabled(each.container.raw):
            yield each.container.pointer, device


def _with(read: Valid, instead: dict[str, DeviceRequest]) -> Valid:
    if not instead:
        return read
    requests = tuple(_with_nvidia(each, instead) for each in read.requests)
    return replace(read, requests=requests)


def _with_nvidia(request: ContainerRequest, instead: dict[str, DeviceRequest]) -> ContainerRequest:
    new = instead.get(request.container.pointer)
    if new is None:
        return request
    devices = tuple(new if each is request.nvidia else each for each in request.devices)
    return replace(request, devices=devices)


def _sharing(read: Absent | Valid) -> Iterator[tuple[ContainerRequest, DeviceRequest]]:
    if isinstance(read, Absent):
        return
    for each in read.requests:
        device = each.nvidia
        if device is not None and device.is_limited and is_share(device, read.preferences):
            yield each, device


def _claiming(
    pod: JsonObject, lookup: ClaimLookup | None
) -> Iterator[tuple[Container, int | None]]:
    """Yield the containers with claims for shares, and which priority these ask for."""
    limited: Collection[str] = limited_claims(pod, lookup) if lookup is not None else ()
    if lookup is None or not limited:
        return
    asked = priorities(pod, lookup)
    for container, used in claim_uses(pod):
        if not used.isdisjoint(limited):
            yield container, next((asked[each] for each in sorted(used) if each in asked), None)


def _known(rules: EnvironmentRules, priority: int | None) -> tuple[tuple[str, str], ...]:
    """Return variables with the values that hold anyway, such as when a pod comes a second time."""
    found = [*_AS_THE_DRIVER]
    if priority is not None:
        found.append((ENV_PRIORITY, str(priority)))
    if rules.core_policy in _POLICIES:
        found.append((ENV_CORE_POLICY, rules.core_policy))
    return tuple(found)


def _undoing(container: Container, known: tuple[tuple[str, str], ...]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for name, value in _variables(container.raw):
        reason = _REASONS.get(name)
        if reason is None and _LIMIT.fullmatch(name):
            reason = "limits are what was asked for"
        if reason is not None and (name, value) not in known and name not in seen:
            seen.add(name)
            yield Refusal(
                code="LimitVariable",
                field=_env(container, name),
                value=_value(value),
                limit=f"a container with a share of a GPU cannot set {shown(name)}: {reason}",
                remedy="remove it, or ask for a whole GPU",
            )


def _opting_out(container: Container) -> Refusal:
    return Refusal(
        code="ControlDisabled",
        field=_env(container, CONTROL),
        value="true",
        limit="opting out of limits requires a whole GPU (gpumem-percentage: 100)",
        remedy="remove it, or have an administrator allow it for the namespace",
    )


def _odd_controls(container: Container) -> Iterator[Refusal]:
    for value in _controls(container):
        if not isinstance(value, str) or value.lower() not in _TRUE | _FALSE:
            yield Refusal(
                code="ControlUnclear",
                field=_env(container, CONTROL),
                value=_value(value),
                limit="is neither true nor false: control stays on",
            )


def _without_effect(container: Container) -> Iterator[Refusal]:
    for value in _controls(container):
        if not isinstance(value, str) or value.lower() not in _FALSE:
            yield Refusal(
                code="ControlWithoutEffect",
                field=_env(container, CONTROL),
                value=_value(value),
                limit="does nothing beside a claim of one's own: control stays on",
                remedy="set `enforcement: none` in the claim's ShareConfig, where that is allowed",
            )


def _controls(container: Container) -> Iterator[Any]:
    return (value for name, value in _variables(container.raw) if name == CONTROL)


def _variables(container: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield names and values; `None` for a value that comes from somewhere else."""
    env = container.get("env")
    for each in env if isinstance(env, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each["name"], None if each.get("valueFrom") else each.get("value", "")


def _value(value: Any) -> str:
    return "from elsewhere" if value is None else shown(value)


def _env(container: Container, name: str) -> str:
    return f"{container.path}.env[{shown(name)}]"
