"""A claim that cannot become what it asks for is refused when it is made."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.claims_known import a_config, a_spec, with_configs
from webhook.claimspec import CLASSES
from webhook.facts import ClusterFacts
from webhook.shares import ClaimRules, check_claim_spec

FACTS = ClusterFacts(
    gpus_by_memory_mib={24576: 4, 81920: 8},
    gpus_by_shares={10: 10, 20: 2},
    mig_by_memory_mib={9984: 7},
)
GRANTED = ClaimRules(may_be_unlimited=True)


def said(
    spec: Any, rules: ClaimRules | None = None, facts: ClusterFacts = FACTS, field: str = "spec"
) -> list[str]:
    """Return what is said against *spec*."""
    found = check_claim_spec(spec, rules=rules or ClaimRules(), facts=facts, field=field)
    return [str(each) for each in found]


def asking(device_class: str = "share.gpuslice.io", **asked: Any) -> dict[str, Any]:
    """Build a spec that asks for these capacities."""
    exactly = {"deviceClassName": device_class, "capacity": {"requests": asked}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        a_spec(),
        a_spec("3000Mi", "30"),
        a_spec("80Gi", "100"),
        a_spec("1Mi", "0"),
        asking(memory="1Gi", shares="20"),
        asking(memory=1 << 30, cores=50),
        asking(**{"gpuslice.io/memory": "3000Mi"}),
        asking("gpu.gpuslice.io", cores="100"),
        asking("mig.gpuslice.io", memory="9984Mi", multiprocessors="14"),
        a_spec("1Gi", count=32),
    ],
)
def test_possible(spec: dict[str, Any]) -> None:
    """What the documents offer is taken, in their own units and with or without our domain."""
    assert said(spec) == []


LAB = ClaimRules(classes=CLASSES | {"lab.example"})


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (asking("lab.example", memory="81Gi"), "MemoryExceedsGpu"),
        (asking("lab.example", memroy="1Gi"), "UnknownCapacity"),
        (asking("lab.example", memory="1Gi", cores="101"), "CoresOutOfRange"),
        (asking("lab.example", memory="10Gi", multiprocessors="14"), "MemoryExceedsGpu"),
        (asking("lab.example", memory="80Gi", shares="20", cores="50"), None),
        (asking("lab.example", memory="9984Mi", multiprocessors="14"), None),
    ],
)
def test_classes_of_an_administrator(spec: dict[str, Any], code: str | None) -> None:
    """They are held to the same, once they are named; MIG devices are told by what is asked."""
    assert said(spec) == []
    assert [each.partition(":")[0] for each in said(spec, LAB)] == [code] * (code is not None)


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        (a_spec("0"), "MemoryOutOfRange", "write `3000Mi` for 3000 MiB"),
        (a_spec("3000"), "MemoryOutOfRange", "at least 1 MiB"),
        (a_spec("-1Gi"), "MemoryOutOfRange", "at least 1 MiB"),
        (a_spec("81Gi"), "MemoryExceedsGpu", "the largest GPU has 81920 MiB (`81920Mi`)"),
        (a_spec("3000M i"), "QuantityInvalid", "a quantity"),
        (asking(memory=True), "QuantityInvalid", "a quantity"),
        (asking(memory=None), "QuantityInvalid", "a quantity"),
        (a_spec("1Gi", "101"), "CoresOutOfRange", "0 to 100"),
        (a_spec("1Gi", "-1"), "CoresOutOfRange", "0 to 100"),
        (asking(shares="0"), "SharesOutOfRange", "1 or more"),
        (asking(shares="21"), "SharesExceedGpu", "at most 20 shares"),
        (asking(gpumem="1Gi"), "UnknownCapacity", "did you mean `memory`?"),
        (asking(memroy="1Gi"), "UnknownCapacity", "did you mean `memory`?"),
        (asking(gpucores="10"), "UnknownCapacity", "did you mean `cores`?"),
        (asking(xyz="1"), "UnknownCapacity", "GPUs have `memory`, `cores`, `shares`"),
        (asking(**{"other.io/memory": "1Gi"}), "UnknownCapacity", "no device has it"),
        (asking("mig.gpuslice.io", cores="10"), "UnknownCapacity", "MIG devices have"),
        (asking("mig.gpuslice.io", memory="10Gi"), "MemoryExceedsGpu", "largest MIG device"),
        (asking("mig.gpuslice.io", multiprocessors="0"), "MultiprocessorsOutOfRange", "1 or more"),
        (a_spec("1Gi", count=33), "TooManyDevices", "a claim holds 1..32 devices"),
    ],
)
def test_impossible(spec: dict[str, Any], code: str, text: str) -> None:
    """What no device can give is refused with the path, the limit and, if near, what was meant."""
    (refusal,) = said(spec)
    assert refusal.startswith(f"{code}: spec.devices.requests[0].exactly.")
    assert text in refusal


def test_alternatives_and_templates() -> None:
    """Each alternative is looked at, and the path is that of the object."""
    alternatives = [
        {"name": "a", "deviceClassName": "share.gpuslice.io"},
        {
            "name": "b",
            "deviceClassName": "share.gpuslice.io",
            "capacity": {"requests": {"memory": "0"}},
        },
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}
    (refusal,) = said(spec, field="spec.spec")
    where = "spec.spec.devices.requests[0].firstAvailable[1].capacity.requests[memory]"
    assert refusal.startswith(f"MemoryOutOfRange: {where}: `0`")


def test_nothing_published() -> None:
    """As long as no GPU is known, no size is too large."""
    spec = asking(memory="900Gi", shares="500")
    assert said(spec, facts=ClusterFacts()) == []
    assert len(said(spec)) == 2


def test_many_requests() -> None:
    """Requests that are fine alone can be too many together; of alternatives the least counts."""
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "share.gpuslice.io", "count": 30}},
        {
            "name": "b",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "share.gpuslice.io", "count": 8},
                {"name": "y", "deviceClassName": "share.gpuslice.io", "count": 2},
            ],
        },
    ]
    assert said({"devices": {"requests": requests}}) == []
    requests.append({"name": "c", "exactly": {"deviceClassName": "gpu.gpuslice.io"}})
    (refusal,) = said({"devices": {"requests": requests}})
    assert refusal.startswith("TooManyDevices: spec.devices.requests: `33`")


def test_mig_beside_a_share() -> None:
    """No container can use both, so no claim can hold both."""
    mig = {"name": "mig", "exactly": {"deviceClassName": "mig.gpuslice.io"}}
    share, whole = a_spec("1Gi")["devices"]["requests"], a_spec()["devices"]["requests"]
    (refusal,) = said({"devices": {"requests": [*share, mig]}})
    assert refusal.startswith("MigBesideShare")
    assert said({"devices": {"requests": [*whole, mig]}}) == []


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"priority": 2}, "ShareConfigInvalid", "parameters.priority: `2`; 0 or 1"),
        ({"corepolicy": "force"}, "ShareConfigInvalid", "`corePolicy` (did you mean it?)"),
        ({"enforcement": "none"}, "ShareConfigNotAllowed", "gpuslice.io/uncontrolled: allowed"),
        ({"corePolicy": "disable"}, "ShareConfigNotAllowed", "parameters.corePolicy"),
    ],
)
def test_configs(fields: dict[str, Any], code: str, text: str) -> None:
    """A config is read as the node reads it, and held to what the namespace may."""
    spec = with_configs(a_spec("1Gi"), {"opaque": {"driver": "x"}}, a_config(**fields))
    (refusal,) = said(spec)
    assert refusal.startswith(f"{code}: spec.devices.config[1].opaque.parameters.")
    assert text in refusal
    allowed = code == "ShareConfigNotAllowed"
    assert (said(spec, GRANTED) == []) is allowed


@pytest.mark.parametrize("parameters", [None, [], "x", {}])
def test_odd_parameters(parameters: Any) -> None:
    """What is no config is refused and not passed over."""
    config = {"opaque": {"driver": "gpuslice.io", "parameters": parameters}}
    assert len(said(with_configs({"devices": {}}, config))) == 1


def test_priority() -> None:
    """Priority 0 is for everybody unless a namespace may not."""
    spec = with_configs(a_spec("1Gi"), a_config(priority=0))
    assert said(spec) == []
    (refusal,) = said(spec, ClaimRules(may_go_first=False))
    assert refusal.startswith("ShareConfigNotAllowed")


def test_config_for_mig() -> None:
    """A config that names a request for MIG devices is refused, one for all is not."""
    spec = asking("mig.gpuslice.io")
    assert said(with_configs(spec, a_config(priority=1))) == []
    (refusal,) = said(with_configs(spec, a_config("gpu", priority=1)))
    assert refusal.startswith("ShareConfigDoesNotFit: spec.devices.config[0].requests: `gpu`")


def test_others() -> None:
    """Requests of other classes and configs of other drivers are not looked at."""
    spec = asking("gpu.example.com", memory="0", xyz="1")
    other = {"opaque": {"driver": "gpu.example.com", "parameters": {"enforcement": "none"}}}
    assert said(with_configs(spec, other, {"requests": ["x"]})) == []


def test_all_at_once() -> None:
    """Everything that is wrong is said."""
    spec = with_configs(a_spec("0", "200", count=40), a_config(enforcement="none"))
    codes = [refusal.split(":")[0] for refusal in said(spec)]
    assert codes == [
        "MemoryOutOfRange",
        "CoresOutOfRange",
        "TooManyDevices",
        "ShareConfigNotAllowed",
    ]


_KEYS = ["devices", "requests", "exactly", "firstAvailable", "capacity", "config", "opaque"]
_WORDS = ["share.gpuslice.io", "mig.gpuslice.io", "gpuslice.io", "1Gi", "memory"]
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(_WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*_KEYS, "deviceClassName", "driver", "count", "memory", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(exactly=ODD, requests=ODD, config=ODD)
def test_odd_specs(exactly: Any, requests: Any, config: Any) -> None:
    """Whatever a spec is, there is an answer."""
    said({"devices": requests})
    said({"devices": {"requests": requests, "config": config}})
    body = exactly if isinstance(exactly, dict) else {"capacity": exactly}
    named = [{"name": "r", "exactly": body | {"deviceClassName": "share.gpuslice.io"}}]
    opaque = {"opaque": {"driver": "gpuslice.io", "parameters": exactly}, "requests": requests}
    said({"devices": {"requests": named, "config": [config, opaque]}})
