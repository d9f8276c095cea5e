"""What a ResourceClaim or a template of one may ask of our devices.

Everything here would come to light later, as a pod that stays pending or is refused on the node.
Only requests of our classes and configs for our driver are looked at. Sizes are held against the
GPUs that are published; where there are none yet, nothing is too large.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from gpu.names import CAPACITY_CORES, CAPACITY_MEMORY, CAPACITY_SHARES
from gpu.refusal import Refusal
from hami.wording import shown
from kube.objects import JsonObject
from kube.shareconfig import ShareConfigError, parse
from webhook.claimspec import (
    CLASSES,
    MULTIPROCESSORS,
    Part,
    amount,
    is_share,
    own_configs,
    parts,
)
from webhook.facts import ClusterFacts
from webhook.sharerequest import DEVICES_MAX
from webhook.uncontrolled import LABEL, LABEL_VALUE

_OF_GPUS: Final = (CAPACITY_MEMORY, CAPACITY_CORES, CAPACITY_SHARES)
_OF_MIG: Final = (CAPACITY_MEMORY, MULTIPROCESSORS)
_MEANT: Final = {
    "gpumem": CAPACITY_MEMORY,
    "mem": CAPACITY_MEMORY,
    "vram": CAPACITY_MEMORY,
    "gpucores": CAPACITY_CORES,
    "sm": CAPACITY_CORES,
}
_MIB: Final = 1 << 20
_CORES_ALL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What the namespace of a claim may, and which DeviceClasses give devices of ours."""

    classes: frozenset[str] = CLASSES
    may_be_unlimited: bool = False
    """Set `enforcement: none` and `corePolicy: disable`."""
    may_ignore_cores: bool = False
    """Set `corePolicy: disable`, because the administrator has that for everybody."""
    may_go_first: bool = True
    """Set `priority: 0`."""


def check_claim_spec(
    spec: JsonObject, *, rules: ClaimRules, facts: ClusterFacts, field: str = "spec"
) -> tuple[Refusal, ...]:
    """Return why *spec* cannot be what somebody wants; *field* is its path in the object."""
    ours = tuple(parts(spec, field, classes=rules.classes))
    found = [refusal for part in ours for refusal in _check_part(part, facts)]
    found += _check_number(ours, field)
    found += _check_mixture(ours)
    found += check_configs(spec, rules=rules, field=field)
    for path, entry in own_configs(spec, field):
        found += _check_named(path, entry, ours)
    return tuple(found)


def check_configs(
    spec: JsonObject, *, rules: ClaimRules, field: str = "spec"
) -> tuple[Refusal, ...]:
    """Return why the configs of *spec* for our driver are none, or not for its namespace."""
    return tuple(
        refusal
        for path, entry in own_configs(spec, field)
        for refusal in _check_config(path, entry, rules)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """How much of one capacity a part asks for."""

    path: str
    value: Any
    amount: int
    part: Part
    facts: ClusterFacts


def _check_part(part: Part, facts: ClusterFacts) -> Iterator[Refusal]:
    known = _OF_MIG if part.is_mig else _OF_GPUS
    for capacity, value in part.capacity().items():
        path = f"{part.path}.capacity.requests[{capacity}]"
        if capacity not in known:
            yield _unknown_capacity(path, capacity, part)
            continue
        number = amount(value)
        if number is None:
            yield _refusal("QuantityInvalid", path, value, "a quantity, such as `3000Mi`")
            continue
        asked = _Asked(path=path, value=value, amount=number, part=part, facts=facts)
        yield from _CHECKS[capacity](asked)
    count = part.body.get("count")
    if isinstance(count, int) and count > DEVICES_MAX:
        yield _refusal("TooManyDevices", f"{part.path}.count", count, _DEVICES)


def _check_memory(asked: _Asked) -> Iterator[Refusal]:
    is_mig = asked.part.is_mig
    sizes_mib = asked.facts.mig_by_memory_mib if is_mig else asked.facts.gpus_by_memory_mib
    largest_mib = max(sizes_mib, default=0)
    if asked.amount < _MIB:
        remedy = "it is in bytes: write `3000Mi` for 3000 MiB"
        yield _refusal("MemoryOutOfRange", asked.path, asked.value, "at least 1 MiB", remedy)
    elif largest_mib and asked.amount > largest_mib * _MIB:
        what = "MIG device" if is_mig else "GPU"
        limit = f"the largest {what} has {largest_mib} MiB (`{largest_mib}Mi`)"
        yield _refusal("MemoryExceedsGpu", asked.path, asked.value, limit)


def _check_cores(asked: _Asked) -> Iterator[Refusal]:
    if not 0 <= asked.amount <= _CORES_ALL:
        limit = "percent of one GPU, 0 to 100"
        yield _refusal("CoresOutOfRange", asked.path, asked.value, limit)


def _check_shares(asked: _Asked) -> Iterator[Refusal]:
    most = max(asked.facts.gpus_by_shares, default=0)
    if asked.amount < 1:
        yield _refusal("SharesOutOfRange", asked.path, asked.value, "1 or more")
    elif most and asked.amount > most:
        limit = f"a GPU has at most {most} shares"
        yield _refusal("SharesExceedGpu", asked.path, asked.value, limit)


def _check_multiprocessors(asked: _Asked) -> Iterator[Refusal]:
    if asked.amount < 1:
        yield _refusal("MultiprocessorsOutOfRange", asked.path, asked.value, "1 or more")


_CHECKS: Final[Mapping[str, Callable[[_Asked], Iterator[Refusal]]]] = {
    CAPACITY_MEMORY: _check_memory,
    CAPACITY_CORES: _check_cores,
    CAPACITY_SHARES: _check_shares,
    MULTIPROCESSORS: _check_multiprocessors,
}


def _unknown_capacity(path: str, capacity: str, part: Part) -> Refusal:
    known = _OF_MIG if part.is_mig else _OF_GPUS
    what = "MIG devices have" if part.is_mig else "GPUs have"
    limit = f"no device has it; {what} {', '.join(f'`{each}`' for each in known)}"
    near = [_MEANT.get(capacity.lower(), ""), *get_close_matches(capacity.lower(), known, n=1)]
    meant = next((each for each in near if each in known), None)
    remedy = f"did you mean `{meant}`?" if meant else ""
    return _refusal("UnknownCapacity", path, capacity, limit, remedy)


def _check_number(ours: Iterable[Part], field: str) -> Iterator[Refusal]:
    """Refuse several requests that are too many together; single ones are refused already."""
    least: dict[str, int] = {}
    for part in ours:
        count = part.body.get("count")
        number = count if isinstance(count, int) and count > 0 else 1
        least[part.request] = min(number, least.get(part.request, number))
    if sum(least.values()) > DEVICES_MAX >= max(least.values(), default=0):
        yield _refusal("TooManyDevices", f"{field}.devices.requests", sum(least.values()), _DEVICES)


_DEVICES: Final = f"a claim holds 1..{DEVICES_MAX} devices"


def _check_mixture(ours: Iterable[Part]) -> Iterator[Refusal]:
    sure = [part for part in ours if not part.alternative]
    mig = next((part for part in sure if part.is_mig), None)
    if mig is not None and any(is_share(part) for part in sure):
        limit = "a container cannot use a MIG device beside a share"
        remedy = "use two containers with a claim each"
        yield _refusal("MigBesideShare", mig.path, mig.request, limit, remedy)


def _check_config(path: str, entry: JsonObject, rules: ClaimRules) -> Iterator[Refusal]:
    at = f"{path}.opaque.parameters"
    try:
        config = parse(entry["opaque"].get("parameters"))
    except ShareConfigError as error:
        yield _refusal("ShareConfigInvalid", f"{at}.{error.field}", error.value, error.allowed)
        return
    if config.enforcement == "none" and not rules.may_be_unlimited:
        yield _not_allowed(f"{at}.enforcement", "none")
    may_ignore_cores = rules.may_be_unlimited or rules.may_ignore_cores
    if config.core_policy == "disable" and not may_ignore_cores:
        yield _not_allowed(f"{at}.corePolicy", "disable")
    if config.priority == 0 and not rules.may_go_first:
        yield _refusal("ShareConfigNotAllowed", f"{at}.priority", 0, _NOT_HERE)


def _check_named(path: str, entry: JsonObject, ours: Iterable[Part]) -> Iterator[Refusal]:
    """Refuse a config that names a request for MIG devices, which have nothing to configure."""
    named = entry.get("requests")
    for part in ours:
        if part.is_mig and isinstance(named, list) and not part.names.isdisjoint(named):
            limit = "a ShareConfig is for shares; this request is for MIG devices"
            remedy = "leave the request out of the config's `requests`"
            yield _refusal("ShareConfigDoesNotFit", f"{path}.requests", part.request, limit, remedy)


_NOT_HERE: Final = "not allowed for claims in this namespace"


def _not_allowed(path: str, value: str) -> Refusal:
    remedy = f"an administrator can allow it with the namespace label `{LABEL}: {LABEL_VALUE}`"
    return _refusal("ShareConfigNotAllowed", path, value, _NOT_HERE, remedy)


def _refusal(code: str, field: str, value: Any, limit: str, remedy: str = "") -> Refusal:
    return Refusal(code=code, field=field, value=shown(value), limit=limit, remedy=remedy)
