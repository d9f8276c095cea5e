"""Whatever a container says, every vendor answers, and never with a silent nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hami.amounts import MEMORY_LIMIT_MIB
from hami.requests import DeviceRequest
from hami.vendors import Vendor
from tests.hami.vendorreading import CHART, pod, read_pod

AMOUNTS = st.one_of(
    st.integers(0, 64).map(str),
    st.sampled_from(["1k", "4k", "16Gi", "5e3", "500m", "1.0", "3M", "98304", "24577", "-1", ""]),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=1),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@st.composite
def asking(draw: st.DrawFn) -> tuple[Vendor, dict[str, Any]]:
    """Return a vendor and amounts of some of its resources."""
    vendor = draw(st.sampled_from(sorted(CHART.values(), key=lambda each: each.word)))
    names = sorted(vendor.keys)
    return vendor, draw(st.dictionaries(st.sampled_from(names), AMOUNTS, min_size=1))


@given(asking(), st.sampled_from(["limits", "requests", "both"]))
def test_any_amount(asked: tuple[Vendor, dict[str, Any]], where: str) -> None:
    """An amount is read inside its bounds or refused; nothing raises."""
    vendor, amounts = asked
    made = pod(amounts)
    if where != "both":
        del made["spec"]["containers"][0]["resources"][
            "requests" if where == "limits" else "limits"
        ]
    reading = read_pod(vendor, made)
    if reading.reasons:
        assert reading.request is None
        assert all(each.code and each.field and str(each) for each in reading.reasons)
    elif reading.request is None:
        zeros = [value for name, value in amounts.items() if name != vendor.core_name]
        assert reading.warnings or all(_is_zero(each) for each in zeros)
    else:
        _check(vendor, reading.request)


def _is_zero(amount: Any) -> bool:
    return str(amount) in {"0", "0.0", "-0.0"}


def _check(vendor: Vendor, request: DeviceRequest) -> None:
    assert request.word == vendor.word
    assert request.count >= 1
    assert (request.memory_mib is None) != (request.memory_percent is None)
    assert request.memory_percent in {None, 100}
    assert 0 <= (request.memory_mib or 0) <= MEMORY_LIMIT_MIB
    assert 0 <= request.cores <= 100
    if vendor.whole_card:
        assert request.memory_mib != 0


@given(JSON, JSON, JSON)
def test_any_pod(resources: Any, env: Any, annotations: Any) -> None:
    """Fields of any kind are read without an exception."""
    container = {"name": "main", "resources": resources, "env": env}
    made = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    for vendor in CHART.values():
        read_pod(vendor, made)
    container["resources"] = {"limits": resources, "requests": env}
    for vendor in CHART.values():
        read_pod(vendor, made)
