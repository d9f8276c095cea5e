"""Tests of what ResourceQuotas are read as."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.deviceconfig import DeviceConfig, NvidiaConfig
from hami.quota import quota_names
from webhook.quotas import bounds_of, read_quota

CONFIG = DeviceConfig()
NAMES = quota_names(CONFIG.nvidia, CONFIG.vendors)


def quota(hard: dict[str, Any], name: str = "gpu-quota", **spec: Any) -> dict[str, Any]:
    """Return a ResourceQuota."""
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def limits(hard: dict[str, Any]) -> dict[str, int | None]:
    """Return the bound under each key."""
    return {bound.key: bound.limit for bound in bounds_of([quota(hard)], NAMES)}


def codes(hard: dict[str, Any], **spec: Any) -> list[str]:
    """Return the codes of the remarks."""
    return [remark.code for remark in read_quota(quota(hard, **spec), NAMES).remarks]


@pytest.mark.parametrize(
    ("key", "written", "limit"),
    [
        ("limits.nvidia.com/gpumem", "4096", 4096),
        ("limits.nvidia.com/gpumem", "6k", 6000),
        ("limits.nvidia.com/gpumem", 4096, 4096),
        ("limits.nvidia.com/gpumem", "16Gi", 16384),
        ("limits.nvidia.com/gpumem", "1Ki", 0),
        ("requests.nvidia.com/gpumem", "4096", 4096),
        ("limits.nvidia.com/gpucores", "0", 0),
        ("limits.nvidia.com/gpu", "2", 2),
        ("limits.nvidia.com/gpu", "1500m", None),
        ("limits.nvidia.com/gpumem", "much", None),
        ("limits.nvidia.com/gpumem", "-1", None),
        ("limits.nvidia.com/gpumem", None, None),
        ("limits.nvidia.com/gpumem", True, None),
        ("limits.nvidia.com/gpumem", [], None),
        ("limits.cambricon.com/mlu.smlu.vmemory", "4", 1024),
    ],
)
def test_a_bound_is_read(key: str, written: Any, limit: int | None) -> None:
    """Both prefixes bound; what cannot be read is no number, and 0 is one."""
    assert limits({key: written}) == {key: limit}


def test_other_keys_bound_nothing() -> None:
    """Names without a prefix, objects and other resources are left alone."""
    hard = {"pods": "1k", "count/pods": "1", "cpu": "4", "limits.cpu": "4", "requests.storage": "1"}
    hard |= {"share.gpuslice.io.deviceclass.resource.k8s.io/devices": "1"}
    hard |= {"requests.nvidia.com/mig-1g.5gb": "1", "requests.nvidia.com/gpu.shared": "1"}
    hard |= {"requests.intel.com/gpu_xe": "1"}
    assert limits(hard) == {}
    assert codes(hard) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("limits.nvidia.com/gpumemory", "nvidia.com/gpumem"),
        ("requests.nvidia.com/gpucore", "nvidia.com/gpucores"),
        ("limits.nvidia.com/gpus", "nvidia.com/gpu"),
        ("limits.nvidia.com/GPUmem", "nvidia.com/gpumem"),
        ("limits.nvdia.com/gpumem", "nvidia.com/gpumem"),
        ("limits.gpumem", "nvidia.com/gpumem"),
        ("nvidia.com/gpumem", "limits.nvidia.com/gpumem"),
    ],
)
def test_a_misspelt_key_gets_a_remark(key: str, meant: str) -> None:
    """It bounds nothing, and says what was probably meant."""
    reading = read_quota(quota({key: "6k"}), NAMES)
    assert reading.bounds == ()
    (remark,) = reading.remarks
    assert (remark.code, remark.value) == ("QuotaKeyUnknown", "6k")
    said = f"{remark.limit}; {remark.remedy}"
    assert said == f"{key} matches no configured GPU resource; did you mean {meant}?"


@pytest.mark.parametrize(
    ("hard", "code"),
    [
        ({"requests.nvidia.com/gpu": "2"}, "QuotaCountedByKubernetesToo"),
        ({"limits.nvidia.com/gpumem": "16Gi"}, "QuotaReadAsBytes"),
        ({"limits.nvidia.com/gpumem": "16G"}, "QuotaLooksLikeBytes"),
        ({"limits.nvidia.com/gpumem": "x"}, "QuotaUnreadable"),
    ],
)
def test_a_surprising_bound_gets_a_remark(hard: dict[str, Any], code: str) -> None:
    """It holds, and an event says how it was read."""
    assert codes(hard) == [code]


def test_a_plain_bound_gets_none() -> None:
    """What is as it should be is not talked about."""
    assert codes({"limits.nvidia.com/gpumem": "4096", "limits.nvidia.com/gpu": "0"}) == []


@pytest.mark.parametrize(
    "scoped", [{"scopes": ["Terminating"]}, {"scopeSelector": {"matchExpressions": []}}]
)
def test_scopes_exempt_nobody(scoped: dict[str, Any]) -> None:
    """GPU keys hold for the namespace, which a remark says; other quotas are left alone."""
    hard = {"limits.nvidia.com/gpu": "2"}
    assert bounds_of([quota(hard, **scoped)], NAMES)[0].limit == 2
    assert codes(hard, **scoped) == ["QuotaScopesIgnored"]
    assert codes({"pods": "2"}, **scoped) == []


def test_all_quotas_of_a_namespace_hold() -> None:
    """None replaces another."""
    two = [quota({"limits.nvidia.com/gpu": str(n)}, name=f"q{n}") for n in (3, 5)]
    assert [(bound.quota, bound.limit) for bound in bounds_of(two, NAMES)] == [("q3", 3), ("q5", 5)]


def test_memory_is_in_the_unit_of_requests() -> None:
    """With a factor of 2 a bound of 1024 is 2048 MiB; bytes are bytes."""
    names = quota_names(NvidiaConfig(memory_factor=2), ())
    hard = {"limits.nvidia.com/gpumem": "1024", "requests.nvidia.com/gpumem": "1Gi"}
    assert [bound.limit for bound in bounds_of([quota(hard)], names)] == [2048, 1024]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(anything, st.text(max_size=30), anything)
def test_no_quota_raises(spec: Any, key: str, value: Any) -> None:
    """Whatever the JSON is, a reading comes back."""
    read_quota({"spec": spec}, NAMES)
    read_quota({"spec": {"hard": {f"limits.{key}": value, key: value}}}, NAMES)


def test_a_name_without_end_is_none() -> None:
    """Not even writing it fails."""
    deep: Any = []
    for _ in range(1500):
        deep = [deep]
    read = read_quota(
        {"metadata": {"name": deep}, "spec": {"hard": {"limits.nvidia.com/gpumem": 1}}}, NAMES
    )
    assert [bound.quota for bound in read.bounds] == [""]
