"""Metax's shared GPUs: memory in two units, and classes of pods in annotations.

A bare number of memory is GiB, one whose canonical text holds a letter is bytes; so 4000, which
the API server stores as `4k`, is 4000 bytes and to HAMi no size at all: the whole card.
"""

from dataclasses import dataclass
from typing import Final

from gpu.refusal import RefusedError
from hami import amounts
from hami.requests import DeviceRequest
from hami.vendor_rules.asking import Asking
from hami.vendor_rules.plain import sized
from hami.vendor_rules.vendor import Vendor

APP_CLASS_KEY: Final = "metax-tech.com/sgpu-app-class"
APP_CLASSES: Final = ("online", "offline")
QOS_KEY: Final = "metax-tech.com/sgpu-qos-policy"
QOS_POLICIES: Final = ("best-effort", "fixed-share", "burst-share")
TOPOLOGY_KEY: Final = "metax-tech.com/sgpu-topology-aware"
"""For the scheduler alone, and before what is configured."""
_GIB_IN_MIB: Final = 1024
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaxShareRule:
    """Read a share, and give a pod without a policy the default one."""

    topology_aware: bool = False
    """Whether links decide between nodes for pods that do not say."""

    def __call__(self, vendor: Vendor, asking: Asking) -> DeviceRequest | None:
        """Return what is asked for."""
        count = asking.count(vendor.count_name, vendor.memory_name, vendor.core_name)
        if not count:
            return None
        memory_mib = _memory_mib(vendor, asking)
        cores = asking.amount(vendor.core_name, high=100)
        _check_class(vendor, asking, count)
        return sized(vendor, count, memory_mib=memory_mib, cores=cores)


def _memory_mib(vendor: Vendor, asking: Asking) -> int | None:
    found = asking.given(vendor.memory_name)
    if found is None:
        return None
    try:
        exact = amounts.number(found)
        if exact.nanos == 0 or not any(map(str.isalpha, exact.canonical())):
            size = asking.memory(vendor.memory_name, _GIB_IN_MIB)
            return size.mib if size else None
    except RefusedError as error:
        asking.reasons.append(error.refusal)
        return None
    name, mib = vendor.memory_name, exact.value() // _MIB
    if not exact.is_whole() or not 0 < mib <= amounts.MEMORY_LIMIT_MIB:
        asking.refuse(
            "MemoryReadAsBytes",
            name,
            f"{name} with a suffix is bytes, 1Mi..{amounts.MEMORY_LIMIT_MIB}Mi",
            remedy="write 16Gi, or 16 for GiB",
        )
        return None
    asking.warn("MemoryReadAsBytes", name, f"{name} is read as {mib} MiB")
    return mib


def _check_class(vendor: Vendor, asking: Asking, count: int) -> None:
    app_class = asking.annotations.get(APP_CLASS_KEY)
    if app_class is not None:
        if app_class not in APP_CLASSES:
            allowed = f"{APP_CLASS_KEY} must be one of {', '.join(APP_CLASSES)}"
            asking.refuse_annotation("AppClassUnknown", APP_CLASS_KEY, allowed)
        if count != 1:
            limit = f"{vendor.count_name} must be 1 with {APP_CLASS_KEY}"
            asking.refuse("CountNotOffered", vendor.count_name, limit)
    if app_class == "online":
        return
    policy = asking.annotations.get(QOS_KEY)
    if policy is None:
        asking.annotate(QOS_KEY, QOS_POLICIES[0])
    elif policy not in QOS_POLICIES:
        allowed = f"{QOS_KEY} must be one of {', '.join(QOS_POLICIES)}"
        asking.refuse_annotation("QosPolicyUnknown", QOS_KEY, allowed)
