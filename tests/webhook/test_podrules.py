"""Rules about a pod as a whole: its scheduler, its node, its privileged containers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.podrules import (
    SchedulerDecision,
    is_mirror,
    scheduler_decision,
    with_devices,
    without_containers,
)

TAKE = SchedulerDecision(take=True)
PRIVILEGED = {"securityContext": {"privileged": True}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod of one app container and *spec*."""
    return {"metadata": {}, "spec": {"containers": [{"name": "c0"}], **spec}}


def container(name: str, **fields: Any) -> dict[str, Any]:
    """Return a container."""
    return {"name": name, **fields}


@pytest.mark.parametrize("chosen", [None, "", "default-scheduler", "hami-scheduler"])
def test_scheduler_is_taken(chosen: str | None) -> None:
    """A pod with no scheduler of its own, or with ours already, is prepared."""
    made = pod() if chosen is None else pod(schedulerName=chosen)
    assert scheduler_decision(made, scheduler_name="hami-scheduler") == TAKE


def test_another_scheduler_is_left() -> None:
    """The user's scheduler stays, and he is told what that means."""
    decision = scheduler_decision(pod(schedulerName="volcano"), scheduler_name="hami-scheduler")
    assert not decision.take
    assert "GPU limits will not be applied by scheduler volcano" in str(decision.warning)


def test_default_scheduler_by_choice() -> None:
    """Without overwriting, the default scheduler is a choice like any other."""
    made = pod(schedulerName="default-scheduler")
    decision = scheduler_decision(made, scheduler_name="hami-scheduler", force_overwrite=False)
    assert not decision.take
    assert "scheduler default-scheduler" in str(decision.warning)
    empty = scheduler_decision(pod(), scheduler_name="hami-scheduler", force_overwrite=False)
    assert empty == TAKE


def test_no_scheduler_of_ours() -> None:
    """Without a scheduler of ours another one is left all the same."""
    assert scheduler_decision(pod(), scheduler_name="") == TAKE
    assert not scheduler_decision(pod(schedulerName="volcano"), scheduler_name="").take


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"containers": [container("c0"), container("c1", **PRIVILEGED)]}, ["c1"]),
        ({"initContainers": [container("i0", **PRIVILEGED)]}, ["i0"]),
        ({"initContainers": [container("s", restartPolicy="Always", **PRIVILEGED)]}, ["s"]),
        (
            {
                "initContainers": [container("i0", **PRIVILEGED)],
                "containers": [container("c0", **PRIVILEGED)],
            },
            ["i0", "c0"],
        ),
    ],
)
def test_privileged(spec: dict[str, Any], named: list[str]) -> None:
    """Each privileged container of any kind is named."""
    found = [str(each) for each in with_devices(pod(**spec))]
    assert len(found) == len(named)
    for text, name in zip(found, named, strict=True):
        assert f"container {name} is privileged" in text


@pytest.mark.parametrize("context", [None, {}, {"privileged": False}, {"runAsUser": 0}])
def test_not_privileged(context: dict[str, Any] | None) -> None:
    """Nothing is said of containers that are not privileged."""
    made = pod(containers=[container("c0", securityContext=context)])
    assert with_devices(made) == ()


def test_node_assigned() -> None:
    """A pod that names its node is told how to say it to the scheduler."""
    (refusal,) = with_devices(pod(nodeName="node-a"))
    assert (
        "spec.nodeName bypasses GPU scheduling; use nodeSelector kubernetes.io/hostname: node-a"
        in str(refusal)
    )
    assert with_devices(pod(nodeName="")) == ()


def test_all_reasons() -> None:
    """A pod with several faults is told all of them."""
    made = pod(nodeName="node-a", containers=[container("c0", **PRIVILEGED)])
    assert [each.code for each in with_devices(made)] == ["PrivilegedContainer", "NodeAssigned"]


def test_mirror() -> None:
    """A static pod's mirror is known by its annotation."""
    made = pod(nodeName="node-a")
    assert not is_mirror(made)
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    assert is_mirror(made)


@pytest.mark.parametrize("spec", [{"containers": []}, {"containers": None}, {}, None])
def test_no_containers(spec: dict[str, Any] | None) -> None:
    """A pod without app containers is none."""
    (refusal,) = without_containers({"spec": spec})
    assert "pod has no containers" in str(refusal)
    assert without_containers(pod()) == ()


@given(JSON, JSON)
def test_any_pod(metadata: Any, spec: Any) -> None:
    """Whatever the pod is, the rules give an answer."""
    for made in ({"metadata": metadata, "spec": spec}, {"spec": {"containers": spec}}):
        scheduler_decision(made, scheduler_name="hami-scheduler")
        with_devices(made)
        without_containers(made)
        is_mirror(made)
