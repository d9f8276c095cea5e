"""What a release of the scheduler does differently, as one value per difference.

Gates follow their defaults (kubernetes: pkg/features/kube_features.go): 1.34 and 1.35 run the
stable allocator, which knows neither shares nor counters nor taints. Fixes of 1.37 are named
after what they make right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.scheduler.errors import SchedulerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Switches of one release; the defaults are those of 1.36."""

    consumable_capacity: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    list_attributes: bool = False
    list_constraints: bool = False
    """Constraints know lists too, once the gate for lists is on."""
    extended_resources: bool = True
    taint_rules: bool = False
    rules_need_selector: bool = False
    """A rule without a selector is for no device instead of all."""
    all_mode_needs_capacity: bool = False
    """A full device fails a request for all devices; only one too small when empty is left out."""
    fractional_ranges: bool = False
    """Ranges with fractions are rounded on a grid of thousandths instead of whole numbers.

    1.37 has the gate on only for servers that need not go back to 1.36, which is not the default.
    """
    written_as_step: bool = False
    """An amount that is rounded up is written in the units of its step, not always binary ones."""
    unrepresentable_is_fatal: bool = False
    """An amount that no 64-bit number can say, or a negative one, stops the pod on all nodes."""
    counters_for_all_nodes: bool = True
    """A slice of counters is looked at by all nodes, even where it names one of them."""
    shares_need_amounts: bool = True
    """Only a held share with amounts counts as one that has drawn on its device's counters."""
    counters_by_driver: bool = False
    """Pools of different drivers with one name keep their counters apart."""
    distinct_per_device: bool = False
    """`distinctAttribute` remembers each device instead of one value per request."""
    config_once: bool = False
    """A claim's config is copied once, and without requests when it covers all of them."""


_STABLE = Features(
    consumable_capacity=False,
    partitionable_devices=False,
    device_taints=False,
    binding_conditions=False,
    extended_resources=False,
)
_FEATURES = {
    "1.34": _STABLE,
    "1.35": _STABLE,
    "1.36": Features(),
    "1.37": Features(
        list_constraints=True,
        taint_rules=True,
        rules_need_selector=True,
        all_mode_needs_capacity=True,
        written_as_step=True,
        counters_for_all_nodes=False,
        shares_need_amounts=False,
        unrepresentable_is_fatal=True,
        counters_by_driver=True,
        distinct_per_device=True,
        config_once=True,
    ),
}


_GATES = {
    "DRAConsumableCapacity": "consumable_capacity",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRADeviceTaints": "device_taints",
    "DRADeviceBindingConditions": "binding_conditions",
    "DRADeviceTaintRules": "taint_rules",
    "DRAExtendedResource": "extended_resources",
    "DRAFractionalCapacityRange": "fractional_ranges",
    "DRAListTypeAttributes": "list_attributes",
}


def features_of(profile: str, gates: Mapping[str, bool] | None = None) -> Features:
    """Return the switches of *profile*, a minor release such as `1.36`.

    *gates* are feature gates that are not as the release has them by default.
    """
    if profile not in _FEATURES:
        known = ", ".join(_FEATURES)
        msg = f"no profile `{profile}`; known are {known}"
        raise SchedulerError(msg)
    unknown = sorted(set(gates or ()) - _GATES.keys())
    if unknown:
        msg = f"no gate `{unknown[0]}` in this scheduler"
        raise SchedulerError(msg)
    switched = {_GATES[gate]: on for gate, on in (gates or {}).items()}
    return replace(_FEATURES[profile], **switched)
