"""What a release of the scheduler does differently, as one value per difference.

Gates follow their defaults (kubernetes: pkg/features/kube_features.go): 1.34 and 1.35 run the
stable allocator, which knows neither shares nor counters nor taints. Fixes of 1.37 are named
after what they make right.
"""

from dataclasses import dataclass

from sim.scheduler.errors import SchedulerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Switches of one release; the defaults are those of 1.36."""

    consumable_capacity: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    all_mode_needs_capacity: bool = False
    """A full device fails a request for all devices instead of being left out of it."""
    fractional_ranges: bool = False
    """Ranges with fractions are rounded on a grid of thousandths instead of whole numbers."""
    counters_by_driver: bool = False
    """Pools of different drivers with one name keep their counters apart."""
    counters_restored: bool = False
    """Counters are given back whenever a device is not taken in the end."""
    distinct_per_device: bool = False
    """`distinctAttribute` remembers each device instead of one value per request."""
    config_once: bool = False
    """A claim's config is copied once, and without requests when it covers all of them."""


_STABLE = Features(
    consumable_capacity=False,
    partitionable_devices=False,
    device_taints=False,
    binding_conditions=False,
)
_FEATURES = {
    "1.34": _STABLE,
    "1.35": _STABLE,
    "1.36": Features(),
    "1.37": Features(
        all_mode_needs_capacity=True,
        fractional_ranges=True,
        counters_by_driver=True,
        counters_restored=True,
        distinct_per_device=True,
        config_once=True,
    ),
}


def features_of(profile: str) -> Features:
    """Return the switches of *profile*, a minor release such as `1.36`."""
    try:
        return _FEATURES[profile]
    except KeyError:
        known = ", ".join(_FEATURES)
        msg = f"no profile `{profile}`; known are {known}"
        raise SchedulerError(msg) from None
