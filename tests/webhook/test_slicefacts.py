"""What is learnt from slices."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.objects import JsonObject
from tests.webhook.translating import a_gpu, a_mig_gpu, a_slice, an_exclusive_gpu
from webhook.facts import ClusterFacts
from webhook.slicefacts import (
    OfferedDevice,
    OfferedSlice,
    counts_are_distinct,
    current_devices,
    facts_of,
    read_slice,
)


def facts(*slices: JsonObject) -> ClusterFacts:
    """Return the facts of *slices*."""
    return facts_of(map(read_slice, slices), distinct=True)


def test_sizes_shares_and_models_are_counted_over_nodes() -> None:
    """Shared and exclusive GPUs count by memory, partitions apart, shares only where shared."""
    one = a_slice(a_gpu(1), a_gpu(2, 46068, name="NVIDIA L40S"), node="a")
    two = a_slice(a_gpu(3), an_exclusive_gpu(4), node="b", shares=4)
    three = a_slice(a_mig_gpu(5, 9856, 9856, 40192), node="c")
    assert facts(one, two, three) == ClusterFacts(
        gpus_by_memory_mib={24564: 3, 46068: 1},
        gpus_by_shares={4: 1, 10: 2},
        mig_by_memory_mib={9856: 2, 40192: 1},
        models=frozenset({"NVIDIA A10", "NVIDIA L40S"}),
        fill_levels=False,
        counts_are_distinct=True,
    )


def test_fill_levels_are_noticed() -> None:
    """One GPU that publishes its level is enough."""
    assert facts(a_slice(a_gpu(1), a_gpu(2), fill_levels={2: 0})).fill_levels


def test_no_slice_tells_nothing() -> None:
    """All is empty where no agent runs."""
    assert facts_of((), distinct=False) == ClusterFacts(counts_are_distinct=False)


def a_part(generation: int, *names: str, slices: int = 2) -> OfferedSlice:
    """Return a slice of one pool."""
    devices = tuple(
        OfferedDevice(
            name=name,
            mode="shared",
            memory_mib=1000,
            shares=10,
            model="A10",
            has_fill_level=False,
        )
        for name in names
    )
    return OfferedSlice(pool="p", generation=generation, slice_count=slices, devices=devices)


def names_of(*slices: OfferedSlice) -> list[str]:
    """Return the devices that count."""
    return sorted(device.name for _, device in current_devices(slices))


def test_of_a_whole_pool_only_the_newest_generation_counts() -> None:
    """What an older one still says is past."""
    new = (a_part(5, "a"), a_part(5, "b"))
    assert names_of(a_part(4, "a", "old"), *new) == ["a", "b"]


def test_while_a_pool_is_being_renewed_nothing_is_forgotten() -> None:
    """Older slices stand for those that are not there yet, and no device counts twice."""
    assert names_of(a_part(5, "a"), a_part(4, "b"), a_part(3, "a", "c")) == ["a", "b", "c"]
    assert names_of(a_part(5, "a"), replace(a_part(4, "a"), pool="q")) == ["a", "a"]


@pytest.mark.parametrize(
    ("version", "distinct"),
    [
        ("v1.36.0", True),
        ("v1.36.2-gke.100", True),
        ("1.37.0+k3s1", True),
        ("v2.0.0", True),
        ("v1.35.9", False),
        ("v1.4.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_counts_are_distinct_since_136(version: str, *, distinct: bool) -> None:
    """Whatever a distribution appends to the number."""
    assert counts_are_distinct(version) is distinct


@pytest.mark.parametrize(
    "device",
    [
        None,
        {"attributes": {}},
        {"name": "x", "attributes": {"mode": "shared"}},
        {"name": "x", "capacity": {"memory": {"value": "many"}}},
        {"name": "x", "capacity": {"memory": {}}},
        {"name": "x", "capacity": [1]},
    ],
)
def test_an_odd_device_does_not_hide_the_others(device: Any) -> None:
    """It is left out."""
    item = a_slice(a_gpu(1))
    item["spec"]["devices"].append(device)
    assert facts(item).gpus_by_memory_mib == {24564: 1}


@pytest.mark.parametrize("capacity", ["memory", "shares"])
@pytest.mark.parametrize("value", ["-1", "0", "17Ti", "8Ei"])
def test_an_impossible_size_is_none(capacity: str, value: str) -> None:
    """A claim cannot name it, and one such device must not spoil the claims of all pods."""
    item = a_slice(a_gpu(1), a_gpu(2))
    item["spec"]["devices"][1]["capacity"][capacity]["value"] = value
    found = facts(item)
    assert set(found.gpus_by_memory_mib) == {24564}
    assert set(found.gpus_by_shares) == {10}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["attributes", "capacity", "memory", "value", "mode", "string", "name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_whatever_stands_in_a_list_of_devices_can_be_read(devices: list[Any]) -> None:
    """What is no device is none."""
    item = a_slice(a_gpu(1))
    item["spec"]["devices"] = devices
    facts(item)
