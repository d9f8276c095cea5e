"""Handing out: which pod is served, what is written, and what is refused."""

import threading
from typing import ClassVar

import pytest

from gpu.refusal import RefusedError
from hami.plugin.allocating import KubeletGoneError
from hami.plugin.model import Grant, Offer
from kube.events import EventRecorder
from protos import deviceplugin_v1beta1_pb2 as api
from tests.hami.plugin.placed import (
    NODE,
    PHASE,
    TO_ALLOCATE,
    Answers,
    Cluster,
    Parts,
    card,
    given,
    parts_of,
    uuid,
)


def plugin(cluster: Cluster) -> Parts:
    """Return a plugin of the node."""
    return parts_of(cluster.server.client())


def ids(*numbers: int, part: int = 0) -> list[str]:
    """Return kubelet's ids of cards."""
    return [f"{uuid(number)}-{part}" for number in numbers]


def refused(parts: Parts, *asked: list[str]) -> str:
    """Return the code with which a call is refused."""
    with pytest.raises(RefusedError) as caught:
        parts.allocator.allocate(asked)
    return caught.value.refusal.code


def test_a_pod_gets_what_was_decided(cluster: Cluster) -> None:
    """One card, one write on the pod, and the lock is free."""
    uid = cluster.pod("a", f"{given(1)};")
    parts = plugin(cluster)
    answer = parts.allocator.allocate([ids(1)])
    (found,) = answer.container_responses
    assert found.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    (grant,) = parts.answers.grants
    assert (grant.pod_uid, grant.namespace, grant.pod) == (uid, "default", "a")
    assert grant.container == "app-0"
    assert (cluster.left("a"), cluster.phase("a"), cluster.locked_by()) == ([[]], "success", "")
    writes = [each for each in cluster.asked() if each.startswith("patch")]
    assert writes == ["patch /api/v1/namespaces/default/pods/a", "patch /api/v1/nodes/node-1"]


def test_two_containers_as_recorded(cluster: Cluster) -> None:
    """HAMi's own example: each has its own limits; the pod is done after the second."""
    decided = f"{uuid(0)},NVIDIA,3000,50:;{uuid(1)},NVIDIA,4000,60:;"
    cluster.pod("a", decided, counts=(1, 1))
    parts = plugin(cluster)
    (first,) = parts.allocator.allocate([ids(0)]).container_responses
    assert first.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert first.envs["CUDA_DEVICE_SM_LIMIT_0"] == "50"
    assert (cluster.left("a"), cluster.phase("a")) == ([[], [uuid(1)]], "allocating")
    assert cluster.locked_by() == "a"
    (second,) = parts.allocator.allocate([ids(1)]).container_responses
    assert second.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4000m"
    assert second.envs["CUDA_DEVICE_SM_LIMIT_0"] == "60"
    assert [each.container for each in parts.answers.grants] == ["app-0", "app-1"]
    assert (cluster.phase("a"), cluster.locked_by()) == ("success", "")


def test_two_containers_in_one_call_are_one_write(cluster: Cluster) -> None:
    """Each request has its position in the answer."""
    cluster.pod("a", f"{given(0, 1000)};{given(1, 2000)};", counts=(1, 1))
    parts = plugin(cluster)
    found = parts.allocator.allocate([ids(0), ids(1)]).container_responses
    assert [each.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] for each in found] == ["1000m", "2000m"]
    pod_writes = [each for each in cluster.asked() if each.startswith("patch") and "/pods/" in each]
    assert len(pod_writes) == 1


def test_the_number_of_devices_must_be_that_decided(cluster: Cluster) -> None:
    """Two ids for one device: the pod has failed, and the next one may be bound."""
    cluster.pod("a", f"{given(0)};", counts=(2,))
    with pytest.raises(RefusedError, match="device number not matched"):
        plugin(cluster).allocator.allocate([ids(0, 1)])
    assert (cluster.phase("a"), cluster.locked_by()) == ("failed", "")
    assert cluster.left("a") == [[uuid(0)]]


def test_only_containers_that_ask_are_served(cluster: Cluster) -> None:
    """The place in the list is the container's, with and without places for the others."""
    for name, decided in (("a", f";{given(2)};"), ("b", f"{given(2)};"), ("c", f"{given(2)};;;")):
        cluster.pod(name, decided, counts=(1,), inits=(0,))
        parts = plugin(cluster)
        parts.allocator.allocate([ids(2)])
        assert [each.container for each in parts.answers.grants] == ["app-0"]
        assert cluster.phase(name) == "success"


def test_cards_are_in_the_order_of_their_bus_ids(cluster: Cluster) -> None:
    """CUDA numbers them so, whatever the order in which they were decided."""
    cluster.pod("a", f"{given(3, 3000)}{given(1, 1000)};", counts=(2,))
    parts = plugin(cluster)
    parts.allocator.allocate([ids(3, 1)])
    (grant,) = parts.answers.grants
    assert [each.memory_mib for each in grant.devices] == [1000, 3000]


def test_what_the_container_says_of_itself_is_in_the_grant(cluster: Cluster) -> None:
    """Whether it asks for no limits, and its priority."""
    env = [
        {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
        {"name": "CUDA_TASK_PRIORITY", "value": "1"},
    ]
    cluster.pod("a", f"{given(0)};", env=env)
    parts = plugin(cluster)
    parts.allocator.allocate([ids(0)])
    (grant,) = parts.answers.grants
    assert (grant.disables_control, grant.priority) == (True, 1)


def test_a_pod_without_a_lock_is_found_by_the_list_rule(cluster: Cluster) -> None:
    """As one of which only init containers have devices."""
    cluster.pod("a", f"{given(0)};;", counts=(0,), inits=(1,), lock=False)
    parts = plugin(cluster)
    parts.allocator.allocate([ids(0)])
    assert [each.container for each in parts.answers.grants] == ["init-0"]


def test_pods_that_cannot_be_told_apart_are_refused(cluster: Cluster) -> None:
    """Neither is touched, so whichever was not meant can still be served."""
    cluster.pod("a", f"{given(0, 1024)};", lock=False)
    cluster.pod("b", f"{given(1, 2048)};", lock=False)
    parts = plugin(cluster)
    assert refused(parts, ids(1)) == "PodAmbiguous"
    assert (cluster.phase("a"), cluster.phase("b")) == ("allocating", "allocating")
    cluster.set_status("b", {"phase": "Failed"})
    parts.allocator.allocate([ids(0)])
    assert [each.pod for each in parts.answers.grants] == ["a"]


def test_the_lock_does_not_vouch_for_a_pod_where_another_may_be_meant(cluster: Cluster) -> None:
    """One that was bound without a lock may be the caller as well."""
    cluster.pod("init-only", f"{given(0)};;", counts=(0,), inits=(1,), lock=False)
    cluster.pod("locked", f"{given(0, 9000)};")
    parts = plugin(cluster)
    assert refused(parts, ids(0)) == "PodAmbiguous"
    assert parts.answers.grants == []


def test_numbers_of_devices_tell_pods_apart(cluster: Cluster) -> None:
    """Kubelet knows them from the pod itself."""
    cluster.pod("one", f"{given(0)};", lock=False)
    cluster.pod("two", f"{given(1)}{given(2)};", counts=(2,))
    parts = plugin(cluster)
    parts.allocator.allocate([ids(0)])
    parts.allocator.allocate([ids(1, 2)])
    assert [each.pod for each in parts.answers.grants] == ["one", "two"]


def test_after_an_ambiguous_call_the_other_pod_is_served(cluster: Cluster) -> None:
    """The second call waits until kubelet has written that it refused the first pod."""
    cluster.pod("a", f"{given(0)};", lock=False)
    cluster.pod("b", f"{given(1)};", lock=False)
    parts = plugin(cluster)
    assert refused(parts, ids(0)) == "PodAmbiguous"
    timer = threading.Timer(0.5, cluster.set_status, ("a", {"phase": "Failed"}))
    timer.start()
    parts.allocator.allocate([ids(1)])
    timer.join()
    assert [each.pod for each in parts.answers.grants] == ["b"]


def test_a_pod_about_which_nobody_decided_takes_nothing(cluster: Cluster) -> None:
    """Neither alone nor beside a pod whose devices it could take."""
    cluster.create({"name": "stray"})
    parts = plugin(cluster)
    assert refused(parts, ids(0)) == "PodUndecided"
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    assert refused(parts, ids(0)) == "PodAmbiguous"
    cluster.set_status("stray", {"phase": "Failed"})
    parts.allocator.allocate([ids(0)])
    assert [each.pod for each in parts.answers.grants] == ["a"]


@pytest.mark.parametrize(
    ("marks", "status"),
    [
        ({"hami.io/vgpu-node": "node-2"}, {}),
        ({"hami.io/bind-phase": "failed"}, {}),
        ({TO_ALLOCATE: ";"}, {}),
        ({TO_ALLOCATE: "GPU-a,NVIDIA,many,0:;"}, {}),
        ({}, {"phase": "Running"}),
        ({}, {"startTime": "2026-01-01T00:00:00Z"}),
    ],
)
def test_only_pods_with_devices_to_come_are_served(
    cluster: Cluster, marks: dict[str, str], status: dict[str, str]
) -> None:
    """The lock alone makes no pod the one that is meant."""
    cluster.pod("a", f"{given(0)};", annotations=marks)
    if status:
        cluster.set_status("a", status)
    parts = plugin(cluster)
    assert refused(parts, ids(0)) in {"NoBindingPod", "PodUndecided"}
    assert parts.answers.grants == []


def test_other_vendors_devices_keep_the_lock(cluster: Cluster) -> None:
    """A pod is done when nothing is to come of anybody, and the other's plugin sees to that."""
    mlu = {"hami.io/cambricon-mlu-devices-to-allocate": "mlu-0,MLU,16384,100:;"}
    cluster.pod("a", f"{given(0)};", annotations=mlu)
    plugin(cluster).allocator.allocate([ids(0)])
    assert (cluster.left("a"), cluster.phase("a")) == ([[]], "allocating")
    assert cluster.locked_by() == "a"


def test_a_card_of_kubelets_that_was_not_decided_is_refused(cluster: Cluster) -> None:
    """Without an extender to ask; the pod says so, and the lock is free."""
    cluster.pod("a", f"{given(0)};")
    assert refused(plugin(cluster), ids(1)) == "DevicesNotMatched"
    assert (cluster.phase("a"), cluster.locked_by()) == ("failed", "")


def test_one_card_twice_is_not_two_cards(cluster: Cluster) -> None:
    """Ids are alike to kubelet, cards are not."""
    cluster.pod("a", f"{given(0)}{given(1)};", counts=(2,))
    assert refused(plugin(cluster), [f"{uuid(0)}-0", f"{uuid(0)}-1"]) == "DevicesNotMatched"


def test_a_card_that_is_not_offered_any_more_is_refused(cluster: Cluster) -> None:
    """It is filtered, ill or gone by now."""
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    parts.offering.offer = Offer(cards=(card(0, healthy=False), card(1)))
    assert refused(parts, ids(0)) == "DevicesNotMatched"


def test_ids_of_an_init_container_may_stand_for_any_card(cluster: Cluster) -> None:
    """Kubelet gives them to the next container without asking which."""
    cluster.pod("a", f"{given(0)};{given(1)};", counts=(1,), inits=(1,))
    parts = plugin(cluster)
    parts.allocator.allocate([ids(0)])
    parts.allocator.allocate([ids(0)])
    grants = [(each.container, each.devices[0].uuid) for each in parts.answers.grants]
    assert grants == [("init-0", uuid(0)), ("app-0", uuid(1))]


def test_another_kubelet_gets_the_same_answer_to_the_same_ids(cluster: Cluster) -> None:
    """It did not note what the one before it was told; another pod never gets that."""
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    first = parts.allocator.allocate([ids(0)])
    assert refused(parts, ids(0)) == "NoBindingPod"
    parts.allocator.kubelet_changed()
    assert refused(parts, ids(0, part=1)) == "NoBindingPod"
    assert parts.allocator.allocate([ids(0)]) == first
    cluster.set_status("a", {"startTime": "2026-01-01T00:00:00Z"})
    assert refused(parts, ids(0)) == "NoBindingPod"


def test_another_kubelet_is_not_given_the_next_containers_devices(cluster: Cluster) -> None:
    """Whether it asks again, or for the next container with the same ids, cannot be told."""
    cluster.pod("a", f"{given(0)};{given(0, 9000)};", counts=(1,), inits=(1,))
    parts = plugin(cluster)
    parts.allocator.allocate([ids(0)])
    parts.allocator.kubelet_changed()
    assert refused(parts, ids(0)) == "PodAmbiguous"


def test_nothing_is_taken_from_a_pod_for_whom_nobody_waits(cluster: Cluster) -> None:
    """A kubelet that is gone asks again when it is back."""
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    with pytest.raises(KubeletGoneError):
        parts.allocator.allocate([ids(0)], wanted=lambda: False)
    assert (cluster.phase("a"), cluster.left("a")) == ("allocating", [[uuid(0)]])
    parts.allocator.allocate([ids(0)])
    assert (cluster.phase("a"), cluster.locked_by()) == ("success", "")


def test_partitions_that_nobody_decided_about_pass_through(cluster: Cluster) -> None:
    """Their ids are their UUIDs, and say it all."""
    parts = plugin(cluster)
    parts.offering.offer = Offer(cards=(card(0, uuid="MIG-0", count=1, memory_mib=4864),))
    cluster.create({"name": "stray"})
    parts.allocator.allocate([["MIG-0"]])
    (grant,) = parts.answers.grants
    assert [(each.uuid, each.memory_mib) for each in grant.devices] == [("MIG-0", 4864)]
    assert refused(parts, ["MIG-1"]) == "DeviceUnknown"


def test_cards_divided_on_demand_need_somebody_who_divides(cluster: Cluster) -> None:
    """It is refused with that reason."""
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    parts.offering.offer = Offer(cards=(card(0, mode="mig"),))
    assert refused(parts, ids(0)) == "PartitionsNotMade"
    assert (cluster.phase("a"), cluster.locked_by()) == ("failed", "")


class Verbose(Answers):
    """Answers with more than a container can start with."""

    def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
        """Answer."""
        found = super().respond(grant)
        found.envs["LONG"] = "x" * 4096
        return found


def test_a_call_for_nothing_is_answered_with_nothing(cluster: Cluster) -> None:
    """It touches no pod that waits."""
    cluster.pod("a", f"{given(0)};")
    parts = plugin(cluster)
    assert parts.allocator.allocate([]) == api.AllocateResponse()
    assert len(parts.allocator.allocate([[]]).container_responses) == 1
    assert cluster.left("a") == [[uuid(0)]]


def test_an_environment_that_is_too_big_is_refused(cluster: Cluster) -> None:
    """Before anything is written as handed out."""
    cluster.pod("a", f"{given(0)};")
    parts = parts_of(cluster.server.client(), responder=Verbose())
    assert refused(parts, ids(0)) == "AnswerTooBig"
    assert (cluster.left("a"), cluster.phase("a")) == ([[uuid(0)]], "failed")


def test_an_unexpected_error_leaves_no_lock(cluster: Cluster) -> None:
    """Whatever the responder does."""

    class Broken(Answers):
        def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
            raise ZeroDivisionError(grant.pod)

    cluster.pod("a", f"{given(0)};")
    parts = parts_of(cluster.server.client(), responder=Broken())
    with pytest.raises(ZeroDivisionError):
        parts.allocator.allocate([ids(0)])
    assert (cluster.phase("a"), cluster.locked_by()) == ("failed", "")


def test_a_pod_that_gets_nothing_is_told_why(cluster: Cluster) -> None:
    """By an event, which `kubectl describe` shows."""
    client = cluster.server.client()
    events = EventRecorder(client, "gpuslice", NODE)
    uid = cluster.pod("a", f"{given(0)};")
    assert refused(parts_of(client, events=events), ids(1)) == "DevicesNotMatched"
    events.close(10)
    (found,) = cluster.events()
    assert (found["type"], found["reason"]) == ("Warning", "DevicesNotHandedOut")
    assert found["involvedObject"]["uid"] == uid
    assert found["message"].startswith("DevicesNotMatched: pod default/a: `app-0`")


def test_a_pod_that_changed_meanwhile_is_read_again(cluster: Cluster) -> None:
    """A foreign change is kept; one of the devices themselves is a refusal."""

    class Meddling(Answers):
        changes: ClassVar = {"note": "x"}

        def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
            cluster.annotate("pods", grant.pod, self.changes)
            return super().respond(grant)

    cluster.pod("a", f"{given(0)};")
    parts = parts_of(cluster.server.client(), responder=Meddling())
    parts.allocator.allocate([ids(0)])
    marks = cluster.get("a")["metadata"]["annotations"]
    assert (marks["note"], marks[PHASE]) == ("x", "success")
    cluster.pod("b", f"{given(0)};")
    Meddling.changes = {TO_ALLOCATE: f"{given(2)};"}
    assert refused(parts, ids(0)) == "PodChanged"
    assert (cluster.phase("b"), cluster.locked_by()) == ("failed", "")
