"""From what a container asks in HAMi's words to the content of its claim.

Sizes are what is hard: HAMi's scheduler looks at a GPU and takes a percentage of it, or all of
its shares, but a claim must name amounts. So there is one alternative for each total that GPUs of
the cluster have, and without a GPU only what the settings say about the ones to come.

What claims cannot say is a warning, and what they would say wrongly is refused.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from gpu.refusal import Refusal, RefusedError
from hami import userkeys as keys
from hami.preferences import Preferences
from hami.requests import DeviceRequest
from hami.wording import shown
from kube.shareconfig import CorePolicy
from webhook import cel
from webhook.alternatives import fitted, separate
from webhook.facts import ClusterFacts
from webhook.placementwish import fill_of, near_of, numa_bound
from webhook.sharerequest import (
    ALTERNATIVES_MAX,
    DEVICES_MAX,
    FILL_LEVELS,
    Devices,
    ShareRequest,
)

_ALL_CORES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationSettings:
    """What the administrator decides about claims."""

    keys: frozenset[str] = frozenset(
        {
            "nvidia.com/gpu",
            "nvidia.com/gpumem",
            "nvidia.com/gpumem-percentage",
            "nvidia.com/gpucores",
            "nvidia.com/priority",
        }
    )
    """The resource names of NVIDIA's GPUs, which leave the pod."""
    core_policy: CorePolicy = "default"
    fallback_sizes_mib: tuple[int, ...] = ()
    """The totals that a percentage is of while there is no GPU."""
    fallback_shares: tuple[int, ...] = ()
    """How many shares GPUs will offer, for `mutex` while there is no GPU."""
    prefer_fill_levels: bool = True
    """Whether `binpack` and `spread` become wishes where GPUs publish how full they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One container's request with all that decides about its claim."""

    device: DeviceRequest
    preferences: Preferences
    facts: ClusterFacts
    settings: TranslationSettings
    path: str
    """Where the container stands in the pod."""


@dataclass(slots=True)
class _Wish:
    """A request in the making."""

    asked: Asked
    fields: dict[str, Any] = field(default_factory=dict)
    warnings: list[Refusal] = field(default_factory=list)

    def warn(self, code: str, where: str, value: object, limit: str, remedy: str = "") -> None:
        self.warnings.append(
            Refusal(code=code, field=where, value=shown(value), limit=limit, remedy=remedy)
        )


def wished(asked: Asked) -> tuple[ShareRequest, tuple[Refusal, ...]]:
    """Return the content of the claim and warnings; raises `RefusedError`."""
    device, preferences = asked.device, asked.preferences
    if not 1 <= device.count <= DEVICES_MAX:
        raise _refused(
            "TooManyDevices", asked.path, device.count, f"a claim holds 1..{DEVICES_MAX}"
        )
    wish = _Wish(asked)
    wish.fields = {
        "count": device.count,
        "count_is_distinct": asked.facts.counts_are_distinct,
        "cores": device.cores,
        "use_types": tuple(sorted(set(preferences.use_types))),
        "nouse_types": tuple(sorted(set(preferences.nouse_types))),
        "use_uuids": tuple(sorted(set(preferences.use_uuids))),
        "nouse_uuids": tuple(sorted(set(preferences.nouse_uuids))),
    }
    _choose_devices(wish)
    _choose_memory(wish)
    _choose_exclusion(wish)
    _choose_mig(wish)
    _choose_config(wish)
    _choose_placement(wish)
    request, dropped = fitted(_made(wish), asked.path)
    if request.count > 1 and len(request.sizes_mib) > 1 and not separate(request):
        wish.warn("OneSizeForAll", asked.path, request.count, "all of its GPUs are of one size")
    return request, (*wish.warnings, *dropped)


def _made(wish: _Wish) -> ShareRequest:
    _check_uuids(wish.asked.preferences)
    try:
        return ShareRequest(**wish.fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = str(first["loc"][0]) if first["loc"] else ""
        value = wish.fields.get(where, "")
        raise _refused(
            "CannotBeClaimed", wish.asked.path, value, f"{where}: {first['msg']}"
        ) from error


def _check_uuids(preferences: Preferences) -> None:
    """Say which one is wrong, which the request itself would not."""
    for key, uuids in (
        (keys.USE_UUID, preferences.use_uuids),
        (keys.NOUSE_UUID, preferences.nouse_uuids),
    ):
        bad = next((each for each in uuids if not cel.is_uuid(each)), None)
        if bad is not None:
            raise _refused("UuidInvalid", _annotation(key), bad, f"must match {cel.UUID_PATTERN}")


def _choose_devices(wish: _Wish) -> None:
    text = wish.asked.preferences.modes
    gpus = text is None or "hami-core" in text
    mig = text is not None and "mig" in text
    where = _annotation(keys.VGPU_MODE)
    if not gpus and not mig:
        raise _refused(
            "ModeNotServed",
            where,
            text,
            "claims are served with shares of GPUs (hami-core) and MIG devices (mig)",
            "name one of them, or leave the annotation out",
        )
    if mig and wish.asked.device.memory_mib is None:
        limit = "a MIG device does not say what it is a percentage of"
        remedy = "ask for memory in MiB"
        if not gpus:
            raise _refused("MigNeedsMemory", where, text, limit, remedy)
        wish.warn("MigNotTried", where, text, limit, remedy)
        mig = False
    if mig and gpus and wish.asked.device.count > 1 and not wish.asked.facts.counts_are_distinct:
        limit = (
            "this cluster could give MIG devices and shares together, which no container can use"
        )
        wish.warn("MigNotTried", where, text, limit)
        mig = False
    wish.fields["devices"] = (Devices.GPU_OR_MIG if gpus else Devices.MIG) if mig else Devices.GPU


def _choose_memory(wish: _Wish) -> None:
    device = wish.asked.device
    if device.memory_mib is not None:
        wish.fields["memory_mib"] = device.memory_mib
        return
    percent = device.memory_percent or 100
    if percent >= 100:
        return
    wish.fields["memory_percent"] = percent
    known = wish.asked.facts.gpus_by_memory_mib
    sizes = _most(known or dict.fromkeys(wish.asked.settings.fallback_sizes_mib, 1))
    if not sizes:
        raise _refused(
            "NoSizesKnown",
            wish.asked.path,
            f"{percent} %",
            "no GPU is published yet, so nothing says what it is a percentage of",
            "ask for memory in MiB, or name the sizes to come in the webhook's settings",
        )
    wish.fields["sizes_mib"] = sizes
    _warn_left_out(wish, "totals", set(known) - set(sizes))


def _choose_exclusion(wish: _Wish) -> None:
    """Let `mutex` take all shares of a GPU; who takes all its memory is alone already."""
    is_share = wish.fields.keys() & {"memory_mib", "memory_percent"}
    takes_gpus = wish.fields["devices"] is not Devices.MIG
    if "mutex" not in wish.asked.preferences.gpu_policies or not is_share or not takes_gpus:
        return
    known = wish.asked.facts.gpus_by_shares
    beside_mig = wish.fields["devices"] is Devices.GPU_OR_MIG
    sizes = max(1, len(wish.fields.get("sizes_mib", ())))
    room = ALTERNATIVES_MAX // sizes - int(beside_mig)
    shares = _most(known or dict.fromkeys(wish.asked.settings.fallback_shares, 1), room)
    if not shares:
        raise _refused(
            "NoSharesKnown",
            _annotation(keys.GPU_POLICY),
            "mutex",
            "no GPU is published yet, so nothing says how many shares are all",
            "name the number to come in the webhook's settings, or ask for a whole GPU",
        )
    wish.fields["shares"] = shares
    wish.fields["cores"] = wish.asked.device.cores or _ALL_CORES
    _warn_left_out(wish, "numbers of shares", set(known) - set(shares))


def _choose_mig(wish: _Wish) -> None:
    if wish.fields["devices"] is Devices.GPU:
        return
    memory_mib = wish.asked.device.memory_mib or 0
    large = [size for size in wish.asked.facts.mig_by_memory_mib if size >= memory_mib]
    shares = max(1, len(wish.fields.get("shares", ())))
    gpus = shares if wish.fields["devices"] is Devices.GPU_OR_MIG else 0
    # The last alternative is for whatever is large enough.
    room = ALTERNATIVES_MAX - 1 - gpus
    wish.fields["mig_sizes_mib"] = tuple(sorted(large)[:room])
    if wish.asked.facts.mig_by_memory_mib and not large:
        limit = "no MIG device that is published is so large"
        wish.warn("NoSuchMigDevice", wish.asked.path, f"{memory_mib} MiB", limit)


def _choose_config(wish: _Wish) -> None:
    device = wish.asked.device
    has_cores = 0 < wish.fields["cores"] < _ALL_CORES
    is_share = has_cores or bool(wish.fields.keys() & {"memory_mib", "memory_percent"})
    limited = has_cores and device.is_limited
    if is_share and not device.is_limited:
        wish.fields["enforcement"] = "none"
    if limited:
        wish.fields["core_policy"] = wish.asked.settings.core_policy
    if device.priority is None:
        return
    if device.priority not in {0, 1}:
        raise _refused("PriorityOutOfRange", wish.asked.path, device.priority, "priority is 0 or 1")
    if is_share and device.is_limited:
        wish.fields["priority"] = device.priority
    if not limited:
        limit = "HAMi-core orders only containers with a core limit of 1..99"
        wish.warn("PriorityWithoutEffect", wish.asked.path, device.priority, limit)


def _choose_placement(wish: _Wish) -> None:
    preferences = wish.asked.preferences
    if wish.asked.device.count > 1:
        wish.fields["numa_bound"] = numa_bound(preferences)
        wish.fields["near"] = near_of(preferences)
    published = wish.asked.facts.fill_levels and wish.asked.settings.prefer_fill_levels
    fill, warnings = fill_of(preferences, published=published)
    wish.warnings += warnings
    is_share = wish.fields.keys() & {"memory_mib", "memory_percent"}
    is_alone = bool(wish.fields.get("shares"))
    if fill and is_share and not is_alone and wish.fields["devices"] is not Devices.MIG:
        # Who is alone on a GPU finds it empty anyway.
        wish.fields |= {"fill": fill, "fill_steps": FILL_LEVELS}


def _most(counted: Mapping[int, int], room: int = ALTERNATIVES_MAX) -> tuple[int, ...]:
    """Return the most frequent keys, ascending."""
    return tuple(sorted(key for key, _ in Counter(counted).most_common(room)))


def _warn_left_out(wish: _Wish, what: str, lost: set[int]) -> None:
    if lost:
        listed = ", ".join(str(each) for each in sorted(lost))
        limit = f"a request has at most {ALTERNATIVES_MAX} alternatives; rare {what} come last"
        wish.warn("AlternativesDropped", wish.asked.path, listed, limit)


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _refused(code: str, where: str, value: object, limit: str, remedy: str = "") -> RefusedError:
    return RefusedError(
        Refusal(code=code, field=where, value=shown(value), limit=limit, remedy=remedy)
    )
