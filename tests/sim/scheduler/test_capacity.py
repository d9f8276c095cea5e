"""Amounts are raised to what a policy allows, and compared with what is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.quantity import parse, whole
from sim.scheduler.capacity import consumed, violates
from sim.scheduler.devices import Capacity, Policy
from sim.scheduler.errors import FatalError
from sim.scheduler.features import features_of

RANGE = Policy(default=parse("8Gi"), minimum=parse("1Gi"), maximum=parse("40Gi"), step=parse("1Gi"))
NO_STEP = Policy(default=parse("4"), minimum=parse("2"), maximum=parse("8"))
VALUES = Policy(default=parse("1"), values=(parse("1"), parse("4"), parse("8")))
ONLY_DEFAULT = Policy(default=parse("3"))


@pytest.mark.parametrize("profile", ["1.36", "1.37"])
@pytest.mark.parametrize(
    ("asked", "policy", "expected", "allowed"),
    [
        (None, None, "100Gi", True),
        ("5Gi", None, "5Gi", True),
        (None, RANGE, "8Gi", True),
        ("1536Mi", RANGE, "2Gi", True),
        ("1", RANGE, "1Gi", True),
        ("0", RANGE, "1Gi", True),
        ("40Gi", RANGE, "40Gi", True),
        ("41Gi", RANGE, "41Gi", False),
        ("1", NO_STEP, "2", True),
        ("3", NO_STEP, "3", True),
        ("9", NO_STEP, "9", False),
        (None, VALUES, "1", True),
        ("2", VALUES, "4", True),
        ("8", VALUES, "8", True),
        ("9", VALUES, "9", False),
        (None, ONLY_DEFAULT, "3", True),
        ("7", ONLY_DEFAULT, "7", True),
    ],
)
def test_amount(
    asked: str | None, policy: Policy | None, expected: str, *, allowed: bool, profile: str
) -> None:
    """The consumed amount is the next one that the policy allows, if there is one."""
    features = features_of(profile)
    capacity = Capacity(value=parse("100Gi"), policy=policy)
    amount = consumed(parse(asked) if asked else None, capacity, features)
    assert amount == parse(expected)
    assert violates(parse(expected), policy, features) is not allowed


def test_unrepresentable_amount_is_fatal() -> None:
    """An amount that no 64-bit number can say stops the pod since 1.37, and wraps before."""
    policy = Policy(default=whole(1), minimum=whole(1), step=whole(2**62))
    capacity = Capacity(value=whole(2**63 - 1), policy=policy)
    assert consumed(whole(2**62 + 2), capacity, features_of("1.36")) == whole(2 - 2**63 - 1)
    with pytest.raises(FatalError, match="64-bit"):
        consumed(whole(2**62 + 2), capacity, features_of("1.37"))


@given(
    minimum=st.integers(0, 10**6),
    step=st.integers(1, 10**6),
    asked=st.integers(0, 10**9),
    milli=st.booleans(),
)
def test_range_rounds_up_to_its_grid(minimum: int, step: int, asked: int, *, milli: bool) -> None:
    """The result is the smallest point of the grid that is not below what was asked."""
    unit = "m" if milli else ""
    policy = Policy(
        default=parse(f"{minimum}{unit}"),
        minimum=parse(f"{minimum}{unit}"),
        step=parse(f"{step}{unit}"),
    )
    features = features_of("1.37", {"DRAFractionalCapacityRange": True})
    amount = consumed(parse(f"{asked}{unit}"), Capacity(value=whole(1), policy=policy), features)
    scale = 10**6 if milli else 10**9
    points = range(minimum, max(minimum, asked) + step, step)
    expected = next(point for point in points[-3:] if point >= asked)
    expected = minimum if asked <= minimum else expected
    assert amount is not None
    assert amount.nanos == expected * scale
    assert not violates(amount, policy, features)
