"""No container undoes its own limits by its variables."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.requests import Absent, Invalid, Valid
from tests.webhook.claims_known import Known, a_spec
from webhook.environment import (
    EnvironmentRules,
    Findings,
    check_environment,
    control_disabled,
    promoted,
    released,
    share_containers,
)

SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
WHOLE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100"}
BARE = {"nvidia.com/gpu": "1"}
HALF_THE_CORES = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "50"}


KNOWN = Known(
    claims={"mine": a_spec("3000Mi")},
    templates={"share": a_spec("3000Mi"), "whole": a_spec()},
)


def a_pod(
    limits: dict[str, str] | None, *env: dict[str, Any], mode: str = "", **spec: Any
) -> dict[str, Any]:
    """Build a pod with one container of these limits and variables."""
    container: dict[str, Any] = {"name": "main", "image": "example.com/app", "env": list(env)}
    if limits is not None:
        container["resources"] = {"limits": limits}
    if "claims" in spec:
        container.setdefault("resources", {})["claims"] = spec.pop("claims")
    metadata = {"annotations": {"nvidia.com/vgpu-mode": mode}} if mode else {}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def var(name: str, value: str = "x") -> dict[str, Any]:
    """Build a variable."""
    return {"name": name, "value": value}


def read(pod: dict[str, Any]) -> Absent | Valid:
    """Return what *pod* asks for."""
    found = resources.read(pod, DeviceConfig())
    assert not isinstance(found, Invalid)
    return found


def check(pod: dict[str, Any], **rules: Any) -> Findings:
    """Return what is said about *pod*."""
    return check_environment(pod, read(pod), EnvironmentRules(**rules), KNOWN)


UNDOING = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_MEMORY_LIMIT_15",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DEVICE_SM_LIMIT_3",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY",
    "CUDA_REDIRECT",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
]


@pytest.mark.parametrize("name", UNDOING)
def test_undoing(name: str) -> None:
    """Each variable that carries a limit, a cache, a policy or a library is refused by name."""
    (said,) = check(a_pod(SHARE, var("PATH"), var(name))).reasons
    assert said.field == f"spec.containers[0].env[{name}]"
    assert f"cannot set {name}" in said.limit


@pytest.mark.parametrize("name", UNDOING)
def test_undoing_as_warning(name: str) -> None:
    """A setting makes a warning of it."""
    found = check(a_pod(SHARE, var(name)), warn_only=True)
    assert found.reasons == ()
    assert [each.code for each in found.warnings] == ["LimitVariable"]


@pytest.mark.parametrize("name", UNDOING)
@pytest.mark.parametrize("limits", [WHOLE, BARE, None, {"cpu": "1"}])
def test_no_share(name: str, limits: dict[str, str] | None) -> None:
    """Who has a GPU of his own, or none, may set what he likes."""
    assert check(a_pod(limits, var(name))) == Findings()


def test_a_part_of_the_cores_is_a_share() -> None:
    """All of the memory with a core limit has a limit to undo."""
    pod = a_pod(HALF_THE_CORES, var("LD_PRELOAD"))
    assert share_containers(read(pod)) == {"main"}
    assert len(check(pod).reasons) == 1


def test_mig_is_no_share() -> None:
    """A MIG device is limited by hardware; where it may become a share, it counts as one."""
    assert check(a_pod(SHARE, var("LD_PRELOAD"), mode="mig")) == Findings()
    assert len(check(a_pod(SHARE, var("LD_PRELOAD"), mode="hami-core,mig")).reasons) == 1


@pytest.mark.parametrize(
    "env",
    [
        var("PATH"),
        var("LD_LIBRARY_PATH"),
        var("LIBCUDA_LOG_LEVEL", "0"),
        var("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        var("cuda_visible_devices"),
        var("CUDA_DEVICE_MEMORY"),
        {"name": 3, "value": "LD_PRELOAD"},
    ],
)
def test_harmless(env: dict[str, Any]) -> None:
    """Other variables, and the order that the driver sets itself, are fine."""
    assert check(a_pod(SHARE, env)) == Findings()


def test_priority_as_asked() -> None:
    """What another webhook made of the priority is what was asked for; another value is not."""
    limits = SHARE | {"nvidia.com/priority": "1"}
    assert check(a_pod(limits, var("CUDA_TASK_PRIORITY", "1"))).reasons == ()
    assert len(check(a_pod(limits, var("CUDA_TASK_PRIORITY", "0"))).reasons) == 1


@pytest.mark.parametrize(
    ("value", "site", "is_known"),
    [("force", "force", True), ("disable", "force", False), ("default", "default", False)],
)
def test_policy_of_the_site(value: str, site: str, *, is_known: bool) -> None:
    """What stands in every container by the site's will is no attempt on the limits."""
    pod = a_pod(SHARE, var("GPU_CORE_UTILIZATION_POLICY", value))
    assert (check(pod, core_policy=site) == Findings()) is is_known


def test_value_from_elsewhere() -> None:
    """A value that is not known yet is refused like any other."""
    env = {"name": "LD_PRELOAD", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    (said,) = check(a_pod(SHARE, env)).reasons
    assert said.value == "from elsewhere"


def test_every_container_and_variable() -> None:
    """All are named in one answer, each variable once, in init containers and sidecars too."""
    limits = {"resources": {"limits": SHARE}}
    init = {"name": "i", "env": [var("LD_PRELOAD"), var("LD_PRELOAD", "y")]} | limits
    sidecar = {"name": "s", "restartPolicy": "Always", "env": [var("CUDA_REDIRECT")]} | limits
    pod = a_pod(SHARE, var("LD_PRELOAD"), var("CUDA_VISIBLE_DEVICES", "0"))
    pod["spec"]["initContainers"] = [init, sidecar]
    pod["spec"]["containers"].append({"name": "none", "env": [var("LD_PRELOAD")]})
    assert [each.field for each in check(pod).reasons] == [
        "spec.initContainers[0].env[LD_PRELOAD]",
        "spec.initContainers[1].env[CUDA_REDIRECT]",
        "spec.containers[0].env[LD_PRELOAD]",
        "spec.containers[0].env[CUDA_VISIBLE_DEVICES]",
    ]


@pytest.mark.parametrize("value", ["true", "1", "True", "TRUE", "t"])
def test_opting_out(value: str) -> None:
    """Control goes off only for a whole GPU, and no warning replaces that."""
    env = var("CUDA_DISABLE_CONTROL", value)
    for rules in ({}, {"warn_only": True}):
        (said,) = check(a_pod(SHARE, env), **rules).reasons
        assert said.limit == "opting out of limits requires a whole GPU (gpumem-percentage: 100)"
    for limits in (WHOLE, BARE, None):
        assert check(a_pod(limits, env)) == Findings()
    assert control_disabled({"env": [env]})


@pytest.mark.parametrize("value", ["false", "0", "no", "", "False", "FALSE"])
def test_staying_in(value: str) -> None:
    """A false value is what holds anyway."""
    env = var("CUDA_DISABLE_CONTROL", value)
    assert check(a_pod(SHARE, env)) == Findings()
    assert not control_disabled({"env": [env]})


@pytest.mark.parametrize("value", ["yes", "2", "on", " true"])
def test_unclear(value: str) -> None:
    """Any other value leaves control on, and says so."""
    env = var("CUDA_DISABLE_CONTROL", value)
    found = check(a_pod(SHARE, env))
    assert found.reasons == ()
    assert [each.limit for each in found.warnings] == [
        "is neither true nor false: control stays on"
    ]
    assert not control_disabled({"env": [env]})


def test_control_from_elsewhere() -> None:
    """A value from elsewhere is not read by HAMi either."""
    env = {"name": "CUDA_DISABLE_CONTROL", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}
    assert [each.code for each in check(a_pod(SHARE, env)).warnings] == ["ControlUnclear"]
    assert not control_disabled({"env": [env]})


def test_granted_namespace() -> None:
    """Where it is granted, a share without limits has none to undo; one with limits still has."""
    control, preload = var("CUDA_DISABLE_CONTROL", "true"), var("LD_PRELOAD")
    assert check(a_pod(SHARE, control, preload), may_be_unlimited=True) == Findings()
    assert len(check(a_pod(SHARE, preload), may_be_unlimited=True).reasons) == 1


def test_promoted() -> None:
    """A share that opts out can be made a whole GPU; others stay as they are."""
    pod = a_pod(SHARE, var("CUDA_DISABLE_CONTROL", "1"))
    pod["spec"]["containers"].append({"name": "b", "resources": {"limits": SHARE}})
    before = read(pod)
    assert isinstance(before, Valid)
    after = promoted(before)
    opted, plain = (each.nvidia for each in after.requests)
    assert opted is not None
    assert (opted.count, opted.memory_mib, opted.memory_percent, opted.cores) == (1, None, 100, 100)
    assert plain == before.requests[1].nvidia
    assert share_containers(after) == {"b"}
    assert check_environment(pod, after, EnvironmentRules()).reasons == ()
    assert promoted(after) == after


def test_released() -> None:
    """A share that opts out keeps its sizes and loses its limits; others stay as they are."""
    pod = a_pod(SHARE, var("CUDA_DISABLE_CONTROL", "1"), var("LD_PRELOAD"))
    pod["spec"]["containers"].append({"name": "b", "resources": {"limits": SHARE}})
    before = read(pod)
    assert isinstance(before, Valid)
    after = released(before)
    opted, plain = (each.nvidia for each in after.requests)
    (asked, _) = (each.nvidia for each in before.requests)
    assert asked is not None
    assert opted == replace(asked, is_limited=False)
    assert plain == before.requests[1].nvidia
    assert share_containers(after) == {"b"}
    rules = EnvironmentRules(may_be_unlimited=True)
    assert check_environment(pod, after, rules) == Findings()
    assert released(after) == after


def test_a_claim_of_ones_own_beside_a_share_without_limits() -> None:
    """What undoes its limits is refused all the same."""
    pod = a_pod(
        SHARE,
        var("CUDA_DISABLE_CONTROL", "1"),
        var("LD_PRELOAD"),
        claims=[{"name": "gpu"}],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}],
    )
    before = read(pod)
    assert isinstance(before, Valid)
    rules = EnvironmentRules(may_be_unlimited=True)
    found = check_environment(pod, released(before), rules, KNOWN)
    assert [each.code for each in found.reasons] == ["LimitVariable"]


@pytest.mark.parametrize(
    "entry", [{"resourceClaimName": "mine"}, {"resourceClaimTemplateName": "share"}]
)
def test_claims_of_users(entry: dict[str, str]) -> None:
    """A container on a claim for a share, written by a user, is held to the same."""
    pod = a_pod(
        None,
        var("LD_PRELOAD"),
        var("CUDA_DISABLE_CONTROL", "true"),
        claims=[{"name": "gpu"}],
        resourceClaims=[{"name": "gpu", **entry}],
    )
    found = check(pod)
    assert [each.code for each in found.reasons] == ["LimitVariable"]
    assert [each.code for each in found.warnings] == ["ControlWithoutEffect"]


@pytest.mark.parametrize(
    "entry",
    [
        {"resourceClaimTemplateName": "whole"},
        {"resourceClaimTemplateName": "not-there"},
        {"resourceClaimName": "not-there"},
        {},
    ],
)
def test_claims_without_limits(entry: dict[str, str]) -> None:
    """Claims for whole GPUs, and those that are not known, say nothing."""
    pod = a_pod(
        None,
        var("LD_PRELOAD"),
        claims=[{"name": "gpu"}],
        resourceClaims=[{"name": "gpu", **entry}],
    )
    assert check(pod) == Findings()


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "value", "valueFrom", "env", "claims", "resources"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(env=ODD, claims=ODD, resource_claims=ODD)
def test_odd_pods(env: Any, claims: Any, resource_claims: Any) -> None:
    """Whatever a pod is, there is an answer."""
    container = {"name": "main", "env": env, "resources": {"limits": SHARE, "claims": claims}}
    pod = {"spec": {"containers": [container], "resourceClaims": resource_claims}}
    found = resources.read(pod, DeviceConfig())
    if not isinstance(found, Invalid):
        check_environment(pod, found, EnvironmentRules(), KNOWN)
    control_disabled(container)
