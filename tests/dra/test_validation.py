"""Devices that the API server would refuse are found before they are sent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.validation import check_device
from gpu.refusal import RefusedError
from kube.quantity import whole
from sim.apiserver.rules.devices import check_device as check_as_server
from sim.apiserver.rules.findings import Findings


def device(**fields: Any) -> dict[str, Any]:
    """Return a good device with *fields* in place of its own."""
    return {"name": "gpu-a", "attributes": {}, "capacity": {}, **fields}


def refusal_code(candidate: dict[str, Any]) -> str:
    """Return the code of the refusal of *candidate*, empty when it is accepted."""
    try:
        check_device(candidate)
    except RefusedError as error:
        return error.refusal.code
    return ""


def with_policy(value: str, policy: dict[str, Any]) -> dict[str, Any]:
    """Return a device to share with one capacity."""
    capacity = {"memory": {"value": value, "requestPolicy": policy}}
    return device(allowMultipleAllocations=True, capacity=capacity)


@pytest.mark.parametrize(
    ("candidate", "code"),
    [
        (device(), ""),
        (device(name="GPU-a"), "InvalidName"),
        (device(name="a" * 64), "InvalidName"),
        (device(name=""), "InvalidName"),
        (device(nodeName="node-1"), "UnknownField"),
        (device(attributes={f"a{i}": {"int": i} for i in range(33)}), "TooManyEntries"),
        (device(attributes={f"a{i}": {"int": i} for i in range(32)}), ""),
        (device(attributes={"with-dash": {"int": 1}}), "InvalidKey"),
        (device(attributes={"a" * 33: {"int": 1}}), "InvalidKey"),
        (device(attributes={"1a": {"int": 1}}), "InvalidKey"),
        (device(attributes={"/a": {"int": 1}}), "InvalidKey"),
        (device(attributes={"example.com/a": {"int": 1}}), ""),
        (device(attributes={"example..com/a": {"int": 1}}), "InvalidKey"),
        (device(attributes={"a": {"string": "é" * 33}}), "InvalidAttribute"),
        (device(attributes={"a": {"string": "é" * 32}}), ""),
        (device(attributes={"a": {"version": "580.65.06"}}), "InvalidAttribute"),
        (device(attributes={"a": {"version": "1.2"}}), "InvalidAttribute"),
        (device(attributes={"a": {"version": "1.2.3-rc.1+x"}}), ""),
        (device(attributes={"a": {"int": 2**63}}), "InvalidAttribute"),
        (device(attributes={"a": {"int": True}}), "InvalidAttribute"),
        (device(attributes={"a": {"bool": True}}), ""),
        (device(attributes={"a": {"int": 1, "bool": True}}), "InvalidAttribute"),
        (device(attributes={"a": {}}), "InvalidAttribute"),
        (device(attributes={"a": {"ints": [1]}}), "InvalidAttribute"),
        (device(capacity={"memory": {"value": "1K"}}), "InvalidQuantity"),
        (device(capacity={"memory": {"value": "1.5"}}), "InvalidQuantity"),
        (device(capacity={"memory": {"value": "-1"}}), "InvalidQuantity"),
        (device(capacity={"memory": {}}), "InvalidQuantity"),
        (
            device(capacity={"memory": {"value": "1", "requestPolicy": {"default": "1"}}}),
            "PolicyNotAllowed",
        ),
        (device(taints=[{"key": "a.b/c", "value": "d", "effect": "NoSchedule"}]), ""),
        (device(taints=[{"key": "", "effect": "NoSchedule"}]), "InvalidTaint"),
        (device(taints=[{"key": "/c", "effect": "NoSchedule"}]), "InvalidTaint"),
        (device(taints=[{"key": "c", "value": "-", "effect": "NoSchedule"}]), "InvalidTaint"),
        (device(taints=[{"key": "c", "effect": "Never"}]), "InvalidTaint"),
        (device(taints=[{"key": f"c{i}", "effect": "None"} for i in range(17)]), "TooManyTaints"),
    ],
)
def test_rules_of_a_device(candidate: dict[str, Any], code: str) -> None:
    """Each rule of a device has its own refusal."""
    assert refusal_code(candidate) == code


@pytest.mark.parametrize(
    ("value", "policy", "code"),
    [
        ("10", {"default": "3"}, ""),
        ("10", {"default": "11"}, "InvalidPolicy"),
        ("10", {"validValues": ["1"]}, "InvalidQuantity"),
        ("10", {"default": "1", "validValues": ["1", "2"]}, ""),
        ("10", {"default": "1", "validValues": ["2"]}, "InvalidPolicy"),
        ("10", {"default": "1", "validValues": ["1", "1"]}, "InvalidPolicy"),
        ("10", {"default": "1", "validValues": ["2", "1"]}, "InvalidPolicy"),
        ("10", {"default": "1", "validValues": ["1", "11"]}, "InvalidPolicy"),
        ("10", {"default": "1", "validValues": [str(i) for i in range(11)]}, "InvalidPolicy"),
        (
            "10",
            {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
            "InvalidPolicy",
        ),
        ("10", {"default": "1", "validRange": {}}, "InvalidQuantity"),
        ("10", {"default": "10", "validRange": {"min": "1", "max": "10", "step": "3"}}, ""),
        ("10", {"default": "10", "validRange": {"min": "1", "step": "4"}}, "InvalidPolicy"),
        ("10", {"default": "1", "validRange": {"min": "1", "step": "10"}}, "InvalidPolicy"),
        ("10", {"default": "1", "validRange": {"min": "1", "step": "0"}}, "InvalidPolicy"),
        ("10", {"default": "0", "validRange": {"min": "1"}}, "InvalidPolicy"),
        ("10", {"default": "1", "validRange": {"min": "1", "max": "11"}}, "InvalidPolicy"),
        ("10", {"default": "5", "validRange": {"min": "1", "max": "4"}}, "InvalidPolicy"),
    ],
)
def test_rules_of_a_policy(value: str, policy: dict[str, Any], code: str) -> None:
    """Defaults lie in their range and on its grid, below the value."""
    assert refusal_code(with_policy(value, policy)) == code


AMOUNT = st.integers(0, 12).map(lambda number: whole(number).canonical())
POLICIES = st.fixed_dictionaries(
    {"default": AMOUNT},
    optional={
        "validValues": st.lists(AMOUNT, min_size=1, max_size=12),
        "validRange": st.fixed_dictionaries(
            {"min": AMOUNT}, optional={"max": AMOUNT, "step": AMOUNT}
        ),
    },
)


@given(AMOUNT, POLICIES)
def test_no_policy_passes_that_the_server_refuses(value: str, policy: dict[str, Any]) -> None:
    """The check is never laxer than the server's rules."""
    candidate = with_policy(value, policy)
    found = Findings()
    check_as_server(found, "device", candidate, selects_nodes=False)
    if found.causes:
        assert refusal_code(candidate)
