"""Forged allocations are refused, and those who really write them are not disturbed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hami.keys import SCHEDULER_OWNED
from webhook.access import Access
from webhook.guard import guard
from webhook.review import Review, UserInfo

ALICE = UserInfo(username="alice")
KUBELET = UserInfo(username="system:node:a", groups=("system:nodes",))
SCHEDULER = UserInfo(username="system:serviceaccount:kube-system:hami-scheduler")

NODE = "hami.io/vgpu-node"
DEVICES = "hami.io/vgpu-devices-allocated"


class Writers:
    """Lets the scheduler and kubelets write, and counts the questions."""

    def __init__(self, *, is_certain: bool = True) -> None:
        self.asked = 0
        self.is_certain = is_certain

    async def __call__(self, user: UserInfo) -> Access:
        """Answer."""
        self.asked += 1
        reason = "the API server could not be asked"
        allowed = self.is_certain and user != ALICE
        return Access(allowed=allowed, reason=reason, is_certain=self.is_certain)


def pod(
    annotations: dict[str, Any] | None = None, labels: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Build a pod with these."""
    metadata = {"name": "p", "annotations": annotations, "labels": labels}
    return {"metadata": {key: value for key, value in metadata.items() if value is not None}}


def review(item: Any, old: Any = None, **changes: Any) -> Review:
    """Build a question of Alice's: a creation, or an update where there is something *old*."""
    asked = Review(
        api_version="admission.k8s.io/v1",
        uid="1",
        operation="CREATE" if old is None else "UPDATE",
        group="",
        resource="pods",
        subresource="",
        namespace="team",
        name="p",
        user=ALICE,
        item=item,
        old_item=old,
        dry_run=False,
    )
    return replace(asked, **changes)


def refusals(asked: Review, writers: Writers | None = None) -> list[str]:
    """Return what is said against *asked*."""
    return [str(each) for each in asyncio.run(guard(asked, writers or Writers()))]


def test_forged_pod() -> None:
    """A pod that brings its own allocation is refused by the name of each key."""
    forged = pod(
        {
            NODE: "node-b",
            "hami.io/bind-phase": "success",
            DEVICES: "GPU-bbbbbbbb-0000-4000-8000-000000000007,NVIDIA,1,0:;",
            "hami.io/gpu-scheduler-policy": "binpack",
        },
        {"hami.io/webhook": "ignore"},
    )
    said = refusals(review(forged))
    assert len(said) == 3
    assert said[0] == (
        f"SchedulerOwnedKey: metadata.annotations[{NODE}]: `node-b`; annotation {NODE} is "
        "written by the scheduler and cannot be set when creating a pod"
    )


@pytest.mark.parametrize("key", sorted(SCHEDULER_OWNED))
def test_every_key(key: str) -> None:
    """The keys of every vendor are guarded at a creation, an update and a binding."""
    marked = pod({key: "x"})
    assert len(refusals(review(marked))) == 1
    assert len(refusals(review(marked, pod()))) == 1
    assert len(refusals(review(pod(), marked))) == 1
    assert len(refusals(review(marked, subresource="binding"))) == 1


def test_label() -> None:
    """The label by which the monitor finds pods is guarded, too."""
    said = refusals(review(pod(labels={NODE: "n", "app": "x"})))
    assert len(said) == 1
    assert f"label {NODE} is written by the scheduler" in said[0]


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {NODE: "b"}),
        ({}, {NODE: ""}),
        ({NODE: "a"}, {NODE: "b"}),
        ({NODE: "a"}, None),
        ({NODE: "a", "x": "y"}, {"x": "y"}),
    ],
)
def test_update(
    subresource: str, before: dict[str, str] | None, after: dict[str, str] | None
) -> None:
    """To add, change or remove a key is for those who may patch nodes, through status as well."""
    asked = review(pod(after), pod(before), subresource=subresource)
    (said,) = refusals(asked)
    assert "only who may patch nodes can change it" in said
    assert refusals(replace(asked, user=SCHEDULER)) == []


@pytest.mark.parametrize(
    ("resource", "subresource"), [("pods", "binding"), ("bindings", ""), ("pods", "status")]
)
def test_other_ways(resource: str, subresource: str) -> None:
    """Neither form of a Binding can carry keys, nor can a pod's status."""
    old = pod() if subresource == "status" else None
    asked = review(pod({DEVICES: "x"}), old, resource=resource, subresource=subresource)
    assert len(refusals(asked)) == 1
    assert refusals(replace(asked, user=SCHEDULER)) == []


def test_own_record() -> None:
    """What a pod asked for is written at its creation and not changed afterwards."""
    ours = {"gpuslice.io/requests": "{}"}
    label = {"gpuslice.io/translated": "true"}
    assert refusals(review(pod(ours, label))) == []
    assert refusals(review(pod(ours, label), pod(ours, label))) == []
    said = refusals(review(pod({"gpuslice.io/requests": "[]"}), pod(ours, label)))
    assert len(said) == 2
    assert "is written by this webhook" in said[0]
    assert "removed" in said[1]
    assert len(refusals(review(pod(ours), resource="bindings"))) == 1


@pytest.mark.parametrize(
    "asked",
    [
        review(pod()),
        review(pod({"team": "x"}), pod({NODE: "n"} | {"team": "y"}) | {"metadata": {}}),
        review(pod({NODE: "n", "x": "2"}), pod({NODE: "n", "x": "1"})),
        review(pod({NODE: "n"}), pod({NODE: "n"}), subresource="status", user=KUBELET),
        review(pod({NODE: "n"}), pod(), subresource="ephemeralcontainers"),
        review(pod({NODE: "n"}), pod(), subresource="resize"),
        review(pod({NODE: "n"}), subresource="eviction"),
        review(pod({NODE: "n"}), resource="configmaps"),
        review(pod({NODE: "n"}), group="apps", resource="pods"),
        review(None, pod({NODE: "n"}), operation="DELETE"),
        review(pod(), resource="bindings"),
    ],
)
def test_nothing_touched(asked: Review) -> None:
    """Whoever touches no key is not even asked about."""
    writers = Writers()
    assert refusals(asked, writers) == []
    assert writers.asked == 0


@pytest.mark.parametrize("metadata", [None, [], {"annotations": 3, "labels": "x"}, {"labels": []}])
def test_odd_metadata(metadata: Any) -> None:
    """What is no metadata has no keys."""
    assert refusals(review({"metadata": metadata})) == []
    assert refusals(review({"metadata": metadata}, {"metadata": metadata})) == []


@pytest.mark.parametrize(
    "key", ["hami.io/Ascend950-devices-to-allocate", "hami.io/BI-V300-devices-allocated"]
)
def test_chips_without_a_name(key: str) -> None:
    """A list of devices of a chip that an administrator added is known by its form."""
    assert key not in SCHEDULER_OWNED
    assert len(refusals(review(pod({key: "x"})))) == 1


def test_configured_keys() -> None:
    """More keys can be guarded."""
    asked = review(pod({"huawei.com/Ascend950": "[]"}))
    assert refusals(asked) == []
    more = frozenset({"huawei.com/Ascend950"})
    assert len(asyncio.run(guard(asked, Writers(), more=more))) == 1


def test_asked_once() -> None:
    """Many keys are one question, and none where a pod is created."""
    writers = Writers()
    forged = pod({NODE: "n", DEVICES: "x" * 500})
    assert len(refusals(review(forged, pod()), writers)) == 2
    assert writers.asked == 1
    assert len(refusals(replace(review(forged), user=SCHEDULER), writers)) == 2
    assert writers.asked == 1


def test_not_known() -> None:
    """Where it cannot be asked who may write, nobody may, and it is said."""
    asked = review(pod({NODE: "n"}), pod(), user=SCHEDULER)
    (said,) = refusals(asked, Writers(is_certain=False))
    assert said.endswith("the API server could not be asked")
