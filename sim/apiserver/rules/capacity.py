"""Rules for request policies of consumable capacity (KEP-5075).

The step grid is checked on whole numbers, rounded up, as releases up to 1.37 do for whole
values. Gates for fractions are not simulated.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kube.quantity import Quantity, parse

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_DEFAULT_BLAMED_SINCE = 37
_MAX_VALUES = 10
_INT64_MAX = 2**63 - 1


def check_policy(found: Findings, path: str, capacity: JsonObject) -> None:
    """Check the `requestPolicy` of one capacity of a multi-allocation device."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    value = parse(str(capacity["value"]))
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        found.forbidden(
            path,
            "exactly one policy can be specified, cannot specify "
            '"validValues" and "validRange" at the same time',
        )
        return
    form = "validValues" if values else "validRange" if span is not None else ""
    if not form:
        return
    if "default" not in policy:
        found.required(f"{path}.default", f"required when {form} is defined")
        return
    default = parse(str(policy["default"]))
    if values:
        options = [parse(str(option)) for option in values]
        _check_values(found, f"{path}.validValues", options, value, default)
    else:
        _check_range(found, f"{path}.validRange", span, value, default)


def _check_values(
    found: Findings, path: str, options: list[Quantity], value: Quantity, default: Quantity
) -> None:
    for index, (lower, upper) in enumerate(pairwise(options)):
        if lower > upper:
            found.invalid(
                f"{path}[{index + 1}]", str(upper), "values must be sorted in ascending order"
            )
    found.at_most(path, options, _MAX_VALUES)
    found.unique(path, [option.value() for option in options])
    for index, option in enumerate(options):
        if option > value:
            found.invalid(
                f"{path}[{index}]", str(option), f"option is larger than capacity value: {value}"
            )
    if default not in options:
        found.invalid(
            path, str(default), "default value is not valid according to the requestPolicy"
        )


def _check_range(
    found: Findings, path: str, span: JsonObject, value: Quantity, default: Quantity
) -> None:
    if "min" not in span:
        found.required(f"{path}.min", "required when validRange is defined")
        return
    low = parse(str(span["min"]))
    high = parse(str(span["max"])) if "max" in span else None
    if low > value:
        found.invalid(f"{path}.min", str(low), f"min is larger than capacity value: {value}")
    if default < low:
        field = "default" if found.minor >= _DEFAULT_BLAMED_SINCE else "min"
        found.invalid(f"{path}.{field}", str(default), f"default is less than min: {low}")
    if high is not None:
        if low > high:
            found.invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > value:
            found.invalid(f"{path}.max", str(high), f"max is larger than capacity value: {value}")
        if default > high:
            found.invalid(f"{path}.default", str(default), f"default is more than max: {high}")
    if "step" in span:
        step = parse(str(span["step"]))
        if low + step > value:
            found.invalid(
                f"{path}.step",
                str(step),
                f"one step {low + step} is larger than capacity value: {value}",
            )
        _check_grid(found, f"{path}.step", (low, step), (default, high))


def _check_grid(
    found: Findings,
    path: str,
    grid: tuple[Quantity, Quantity],
    points: tuple[Quantity, Quantity | None],
) -> None:
    low, step = grid
    if step.nanos <= 0:
        found.invalid(path, str(step), "must be greater than zero")
        return
    numbers = [number for number in (*grid, *points) if number is not None]
    if any(not 0 <= number.value() <= _INT64_MAX for number in numbers):
        found.invalid(path, str(step), f"values must be from 0 to {_INT64_MAX}")
        return
    for point in points:
        if point is not None and (point.value() - low.value()) % step.value():
            found.invalid(
                path, str(point), f"value is not a multiple of a given step ({step}) from ({low})"
            )
