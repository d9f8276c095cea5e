"""How much of a capacity a request consumes, and whether it is there (KEP-5075).

A request that does not name a capacity consumes the policy's default, or all of it where there
is no policy. Amounts are raised to what the policy allows before they are compared
(allocator: consumable_capacity.go). An amount that no 64-bit number can say stops the pod since
1.37; before, it wraps around, and a device may end up with a negative amount.
"""

from collections.abc import Mapping

from kube.quantity import Quantity, whole
from sim.scheduler.devices import Capacity, Device, Policy
from sim.scheduler.errors import FatalError
from sim.scheduler.features import Features
from sim.scheduler.requests import Wanted
from sim.scheduler.usage import Amounts
from sim.scheduler.verdicts import Refused, capacity_code

_ZERO = Quantity(0)
_INT64 = 2**63
_MILLI = 10**6
"""A thousandth, in the billionths that quantities are kept in."""
_UNIT = 10**9


def consumed(asked: Quantity | None, capacity: Capacity, features: Features) -> Quantity:
    """Return what a request for *asked* takes; raises `FatalError` when no number can say it."""
    policy = capacity.policy
    if asked is None:
        default = policy.default if policy else None
        return capacity.value if default is None else default
    if policy is None:
        return asked
    if policy.minimum is not None:
        return _on_range(asked, policy, features)
    return next((value for value in policy.values if value >= asked), asked)


def violates(amount: Quantity, policy: Policy | None, features: Features) -> bool:
    """Tell whether *policy* forbids to take *amount*."""
    if policy is None or amount == policy.default:
        return False
    if policy.minimum is not None:
        if policy.maximum is not None and amount > policy.maximum:
            return True
        return _has_step(policy) and _off_grid(amount, policy, features)
    return bool(policy.values) and amount not in policy.values


def shortage(
    wanted: Wanted, device: Device, taken: tuple[Amounts, ...], features: Features
) -> Refused | None:
    """Say why *device* has too little for *wanted* when all amounts in *taken* are gone."""
    for name, asked in wanted.capacity.items():
        if name not in device.capacity:
            known = ", ".join(device.capacity) or "none"
            return Refused("CapacityNameUnknown", f"asked {name} {asked}", f"known are {known}")
    for name, amount in consumption(wanted, device, features).items():
        capacity = device.capacity[name]
        if violates(amount, capacity.policy, features):
            return _not_allowed(name, wanted.capacity.get(name), capacity)
        free = capacity.value
        for amounts in taken:
            free -= amounts.get(name, _ZERO)
        if amount > free:
            return Refused(
                capacity_code(name, "Insufficient"),
                f"asked {amount}",
                f"free {free} of {capacity.value}",
            )
    return None


def consumption(wanted: Wanted, device: Device, features: Features) -> Mapping[str, Quantity]:
    """Return what *wanted* takes of every capacity of *device*; raises `FatalError`."""
    amounts = {
        name: consumed(wanted.capacity.get(name), capacity, features)
        for name, capacity in device.capacity.items()
    }
    for name, amount in amounts.items():
        if amount < _ZERO and features.unrepresentable_is_fatal:
            message = f"request {wanted.name} asks for {amount} of {name}"
            raise FatalError("CapacityNegative", message)
    return amounts


def _not_allowed(name: str, asked: Quantity | None, capacity: Capacity) -> Refused:
    policy = capacity.policy or Policy()
    if policy.values:
        limit = "allowed are " + ", ".join(str(value) for value in policy.values)
    else:
        maximum = capacity.value if policy.maximum is None else policy.maximum
        limit = f"allowed is {policy.minimum} to {maximum}"
        limit += f" in steps of {policy.step}" if _has_step(policy) else ""
    return Refused(capacity_code(name, "NotAllowed"), f"asked {asked}", limit)


def _on_range(asked: Quantity, policy: Policy, features: Features) -> Quantity:
    minimum = policy.minimum or _ZERO
    if asked < minimum:
        return minimum
    if not _has_step(policy):
        return asked
    unit = _grid_unit(asked, policy, features)
    start, step = _units(minimum, unit), _units(policy.step or _ZERO, unit)
    steps = -(-(_units(asked, unit) - start) // step)
    amount = start + steps * step
    if not -_INT64 <= amount < _INT64:
        if features.unrepresentable_is_fatal:
            message = f"a request for {asked} is no 64-bit number when it is rounded up"
            raise FatalError("CapacityNotRepresentable", message)
        amount = (amount + _INT64) % (2 * _INT64) - _INT64
    written = policy.step if features.written_as_step and policy.step else whole(0, binary=True)
    return Quantity(amount * unit, written.format)


def _has_step(policy: Policy) -> bool:
    return policy.step is not None and policy.step > _ZERO


def _off_grid(amount: Quantity, policy: Policy, features: Features) -> bool:
    unit = _grid_unit(amount, policy, features)
    step = _units(policy.step or _ZERO, unit)
    return (_units(amount, unit) - _units(policy.minimum or _ZERO, unit)) % step != 0


def _grid_unit(amount: Quantity, policy: Policy, features: Features) -> int:
    if not features.fractional_ranges:
        return _UNIT
    numbers = (amount, policy.minimum or _ZERO, policy.step or _ZERO)
    return _UNIT if all(number.is_whole() for number in numbers) else _MILLI


def _units(amount: Quantity, unit: int) -> int:
    magnitude = -(-abs(amount.nanos) // unit)
    return magnitude if amount.nanos >= 0 else -magnitude
