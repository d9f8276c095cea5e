"""What is booked follows from pods and promises, in whatever order these are heard of."""

from typing import Any

import pytest

from extender.model import Ask, Placement
from extender.parts import Chosen, Unfit
from extender.state.places import LOST_DEVICES
from extender.state.view import ClusterView
from hami.containers import JsonObject
from hami.devices import PodDevice
from hami.vendors import Lock
from tests.extender.statemachine import REGISTER, World, container, gpu, node, pod, written

ALLOCATED = "hami.io/vgpu-devices-allocated"


def _world(*gpus: str) -> World:
    world = World()
    world.put_nodes(node("n", [gpu(each) for each in gpus or ("GPU-a",)]))
    return world


def _given(name: str, text: str, *, where: str = "n", **more: Any) -> JsonObject:
    """Return a pod that runs on *where* and was given *text*."""
    found = pod(name, container(gpu=1), **more)
    found["metadata"]["annotations"] |= {"hami.io/vgpu-node": where, ALLOCATED: text}
    found["spec"]["nodeName"] = where
    found["status"]["phase"] = "Running"
    return found


def test_pod_counts_by_its_annotations() -> None:
    """A running pod takes what its annotations say."""
    world = _world()
    world.put_pods(_given("p", "GPU-a,NVIDIA,3000,30:;"))
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}


def test_pod_that_is_told_again_counts_once() -> None:
    """The same pod, told twice and then with other devices, counts as last told."""
    world = _world()
    world.put_pods(*[_given("p", "GPU-a,NVIDIA,3000,30:;")] * 2)
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}
    world.put_pods(_given("p", "GPU-a,NVIDIA,5000,50:;"))
    assert world.used("n") == {"GPU-a": (1, 5000, 50)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_frees_its_devices(phase: str) -> None:
    """A terminal phase frees, whatever the annotations say."""
    world = _world()
    running = _given("p", "GPU-a,NVIDIA,3000,30:;")
    world.put_pods(running, running | {"status": {"phase": phase}})
    assert world.used("n") == {}


def test_pod_that_is_deleted_holds_until_it_is_gone() -> None:
    """A deletionTimestamp keeps devices, the deletion frees them."""
    world = _world()
    running = _given("p", "GPU-a,NVIDIA,3000,30:;")
    running["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    world.put_pods(running)
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}
    world.drop_pod(running)
    assert world.used("n") == {}


def test_pod_of_a_name_anew_frees_what_the_old_one_had() -> None:
    """Another UID under a name is another pod; a late deletion of the old one is harmless."""
    world = _world()
    old = _given("p", "GPU-a,NVIDIA,3000,30:;")
    new = _given("p", "GPU-a,NVIDIA,1000,10:;", uid="uid-new")
    world.put_pods(old, new)
    world.drop_pod(old)
    assert world.used("n") == {"GPU-a": (1, 1000, 10)}
    found = world.cluster.pod("team", "p")
    assert found is not None
    assert found.uid == "uid-new"


def test_init_containers_end_and_leave_what_stays() -> None:
    """The larger of init and app counts until init containers have ended well; sidecars stay."""
    world = _world()
    text = "GPU-a,NVIDIA,9000,90:;GPU-a,NVIDIA,500,5:;GPU-a,NVIDIA,1000,10:;"
    inits = (container("first", gpu=1), container("side", gpu=1) | {"restartPolicy": "Always"})
    running = _given("p", text, inits=inits)
    world.put_pods(running)
    assert world.used("n") == {"GPU-a": (2, 9000, 90)}
    ended = {"name": "first", "state": {"terminated": {"exitCode": 0}}}
    side = {"name": "side", "state": {"running": {}}}
    done = running | {"status": {"phase": "Running", "initContainerStatuses": [ended, side]}}
    world.put_pods(done)
    assert world.used("n") == {"GPU-a": (2, 1500, 15)}
    failed = {"name": "first", "state": {"terminated": {"exitCode": 1}}}
    again = running | {"status": {"phase": "Running", "initContainerStatuses": [failed, side]}}
    world.put_pods(again)
    assert world.used("n") == {"GPU-a": (2, 9000, 90)}


def test_places_that_were_left_out_count_together() -> None:
    """An annotation with fewer places than containers, as HAMi v2.10 writes, counts all of them."""
    world = _world()
    inits = (container("first"),)
    running = _given("p", "GPU-a,NVIDIA,3000,30:;", inits=inits)
    ended = {"name": "first", "state": {"terminated": {"exitCode": 0}}}
    running["status"]["initContainerStatuses"] = [ended]
    world.put_pods(running)
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}


@pytest.mark.parametrize("text", ["GPU-a,NVIDIA:;", "GPU-a,NVIDIA,x,1:;", ";;;GPU-a,NVIDIA,1,1:;"])
def test_allocation_that_cannot_be_read_closes_its_node(text: str) -> None:
    """The node says which pod it is and opens once it is gone; two bad pods must both be."""
    world = _world()
    world.put_nodes(node("other", [gpu("GPU-b")]))
    bad = [_given(name, text) for name in ("p", "q")]
    world.put_pods(*bad)
    blocked = world.usage("n").blocked
    assert blocked is not None
    assert "pod team/p: cannot read its allocation" in blocked
    assert world.usage("other").blocked is None
    world.drop_pod(bad[0])
    assert "team/q" in (world.usage("n").blocked or "")
    world.put_pods(_given("q", "GPU-a,NVIDIA,1000,10:;"))
    assert world.usage("n").blocked is None


def test_unknown_device_closes_the_node_until_it_is_declared_lost() -> None:
    """A pod on a GPU that the node does not register closes it; an administrator may open it."""
    world = _world()
    world.put_pods(_given("p", "GPU-gone,NVIDIA,1000,10:;"))
    assert world.usage("n").blocked == "pod team/p uses unknown GPU-gone"
    lost = node("n", [gpu("GPU-a")])
    lost["metadata"]["annotations"][LOST_DEVICES] = "GPU-gone"
    world.put_nodes(lost)
    assert world.usage("n").blocked is None
    world.put_nodes(node("n", [gpu("GPU-a")]))
    assert world.usage("n").blocked == "pod team/p uses unknown GPU-gone"
    world.put_nodes(node("n", [gpu("GPU-a"), gpu("GPU-gone")]))
    assert world.usage("n").blocked is None
    assert world.used("n") == {"GPU-gone": (1, 1000, 10)}


def test_allocation_for_another_node_closes_the_one_that_runs_the_pod() -> None:
    """A pod that runs elsewhere than it was placed has devices that nobody knows."""
    world = _world()
    world.put_nodes(node("other", [gpu("GPU-b")]))
    stray = _given("p", "GPU-b,NVIDIA,1000,10:;", where="other")
    stray["spec"]["nodeName"] = "n"
    world.put_pods(stray)
    assert "its allocation is for other" in (world.usage("n").blocked or "")
    assert world.used("other") == {}


def test_node_that_comes_late_has_its_pods() -> None:
    """Pods that were heard of before their node are booked when it appears, and after each gap."""
    world = World()
    world.put_pods(_given("p", "GPU-a,NVIDIA,3000,30:;"))
    fresh = node("n", [gpu("GPU-a")])
    world.put_nodes(fresh)
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}
    world.cluster.drop_node("n")
    assert isinstance(world.filter(pod("q", container(gpu=1)), "n"), Unfit)
    world.put_nodes(fresh)
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}


def test_node_that_is_gone_leaves_nothing_behind() -> None:
    """A node made again with other GPUs has these alone, and nothing is kept of what is gone."""
    world = _world("GPU-old")
    world.cluster.drop_node("n")
    assert len(world.cluster.places) == 0
    world.put_nodes(node("n", [gpu("GPU-new")]))
    assert [each.device.uuid for each in world.usage("n").devices["NVIDIA"]] == ["GPU-new"]


def test_devices_that_are_registered_anew_keep_their_use() -> None:
    """A changed register is taken with the pods that are on it."""
    world = _world("GPU-a", "GPU-b")
    world.put_pods(_given("p", "GPU-b,NVIDIA,3000,30:;"))
    world.put_nodes(node("n", [gpu("GPU-b", devmem=8000), gpu("GPU-c")]))
    assert world.used("n") == {"GPU-b": (1, 3000, 30)}
    assert isinstance(world.filter(pod("q", container(gpu=1, gpumem=9000)), "n"), Chosen)


def test_cordon_is_seen_at_once() -> None:
    """A GPU that is cordoned while nothing else changes takes nothing new."""
    world = _world()
    world.put_nodes(node("n", [gpu("GPU-a")], hami_io__device_cordon=""))
    cordoned = node("n", [gpu("GPU-a")])
    cordoned["metadata"]["annotations"]["hami.io/device-cordon"] = " GPU-a ,"
    world.put_nodes(cordoned)
    answer = world.filter(pod("p", container(gpu=1)), "n")
    assert isinstance(answer, Unfit)
    assert answer.failed == {"n": "1/1 CardCordoned"}


def test_register_that_cannot_be_read_is_a_reason() -> None:
    """A broken register leaves the node out and says why; others are not affected."""
    world = _world()
    broken = node("b")
    broken["metadata"]["annotations"][REGISTER] = '[{"id":"GPU-x","count":"ten"}]'
    world.put_nodes(broken)
    answer = world.filter(pod("p", container(gpu=1)), "b")
    assert isinstance(answer, Unfit)
    assert "cannot read what it registers" in answer.failed["b"]
    assert "ten" in answer.failed["b"]
    assert isinstance(world.filter(pod("p", container(gpu=1)), "b", "n"), Chosen)


def test_promise_ends_when_its_time_is_up() -> None:
    """A pod that is filtered, deleted unseen and never bound holds nothing after 30 s."""
    world = _world()
    world.place(pod("p", container(gpu=1, gpumem=3000)))
    assert world.used("n") == {"GPU-a": (1, 3000, 0)}
    world.pass_time(29)
    assert world.cluster.promise("uid-p") is not None
    world.pass_time(1)
    assert world.cluster.promise("uid-p") is None
    assert world.used("n") == {}
    assert not list(world.cluster.holders())


def test_promise_is_confirmed_by_the_watch_and_never_counts_twice() -> None:
    """What was promised and is then seen written counts once, and the deadline does not matter."""
    world = _world()
    asking = pod("p", container(gpu=1, gpumem=3000))
    world.put_pods(asking)
    reservation = world.place(asking)
    world.put_pods(written(asking, reservation))
    assert world.used("n") == {"GPU-a": (1, 3000, 0)}
    assert world.cluster.promise("uid-p") is None
    world.put_pods(written(asking, reservation, node="n"))
    world.pass_time(1000)
    assert world.used("n") == {"GPU-a": (1, 3000, 0)}


def test_promise_is_written_with_all_keys() -> None:
    """The annotations to write have every place, for plugin and scheduler, and the lock's name."""
    world = _world()
    reservation = world.place(pod("p", container("a"), container("b", gpu=1, gpumem=3000)))
    text = ";GPU-a,NVIDIA,3000,0:;"
    assert reservation.annotations == {
        "hami.io/vgpu-devices-to-allocate": text,
        ALLOCATED: text,
    }
    assert reservation.locks == {Lock.SHARED}


def test_neighbours_see_the_annotations_of_promised_and_of_running_pods() -> None:
    """What decides who gets along with a pod is known from the promise on."""
    world = _world()
    note = {"metax-tech.com/sgpu-qos-policy": "best-effort"}
    asking = pod("p", container(gpu=1, gpumem=100), annotations=note | {"other": "x"})
    reservation = world.place(asking)
    (usage,) = world.usage("n").devices["NVIDIA"]
    assert list(usage.pods.values()) == [note]
    world.put_pods(written(asking, reservation, node="n"))
    assert usage.pods == {"uid-p": note}


def test_second_filter_drops_the_first_promise() -> None:
    """A pod that is filtered again does not stand in its own way, nor keep what it had."""
    world = _world()
    big = pod("p", container(gpu=1, gpumem=16000))
    world.place(big)
    world.place(big)
    assert world.used("n") == {"GPU-a": (1, 16000, 0)}
    assert isinstance(world.filter(big, "nowhere"), Unfit)
    assert world.used("n") == {}


def test_binding_that_failed_counts_until_the_pod_asks_again() -> None:
    """Annotations of a pod that was not bound fade 30 s after its scheduler asks anew."""
    world = _world()
    asking = pod("p", container(gpu=1, gpumem=9000))
    stale = written(asking, world.place(asking))
    world.put_pods(stale)
    world.pass_time(200)
    assert world.used("n") == {"GPU-a": (1, 9000, 0)}
    assert isinstance(world.filter(stale, "nowhere"), Unfit)
    world.pass_time(29)
    assert world.used("n") == {"GPU-a": (1, 9000, 0)}
    world.pass_time(1)
    assert world.used("n") == {}
    world.put_pods(written(stale, world.place(stale), node="n"))
    assert world.used("n") == {"GPU-a": (1, 9000, 0)}


def test_old_annotations_do_not_confirm_the_same_promise_made_anew() -> None:
    """A pod that is to go where it failed to go before is not taken for bound there."""
    world = _world()
    asking = pod("p", container(gpu=1, gpumem=9000))
    stale = written(asking, world.place(asking))
    world.put_pods(stale)
    world.place(stale)
    world.put_pods(stale | {"status": {"phase": "Pending", "message": "still"}})
    assert world.cluster.promise("uid-p") is not None
    world.pass_time(29)
    assert world.cluster.promise("uid-p") is not None


def test_binding_of_another_leader_wins() -> None:
    """A pod that is seen bound elsewhere than promised holds what is written on it."""
    world = _world()
    world.put_nodes(node("other", [gpu("GPU-b")]))
    asking = pod("p", container(gpu=1, gpumem=3000))
    world.place(asking, "n")
    world.put_pods(_given("p", "GPU-b,NVIDIA,3000,0:;", where="other"))
    assert world.used("n") == {}
    assert world.used("other") == {"GPU-b": (1, 3000, 0)}


def test_lost_lead_drops_promises_but_those_that_are_bound() -> None:
    """Whoever loses the lead forgets what it promised and did not bind."""
    world = _world("GPU-a", "GPU-b")
    world.place(pod("bound", container(gpu=1, gpumem=1000)))
    world.place(pod("waiting", container(gpu=1, gpumem=2000)))
    world.cluster.written("uid-bound")
    world.cluster.drop_promises()
    assert [each.uid for each in world.cluster.promises()] == ["uid-bound"]
    assert sum(mib for _, mib, _ in world.used("n").values()) == 1000
    world.pass_time(299)
    assert world.cluster.promise("uid-bound") is not None
    world.pass_time(1)
    assert world.used("n") == {}


def test_held_promise_lives_longer() -> None:
    """A binding that waits for a lock keeps its devices meanwhile."""
    world = _world()
    world.place(pod("p", container(gpu=1)))
    world.cluster.hold("uid-p", 60)
    world.cluster.hold("uid-p", 5)
    world.pass_time(59)
    assert world.cluster.promise("uid-p") is not None
    world.pass_time(1)
    assert world.cluster.promise("uid-p") is None


def test_move_on_a_node_counts_beside_the_old_devices_until_it_is_written() -> None:
    """Other devices for a pod that runs are kept whatever else happens to it meanwhile."""
    world = _world("GPU-a", "GPU-b")
    asking = pod("p", container(gpu=1, gpumem=3000))
    running = written(asking, world.place(asking, "n"), node="n")
    world.put_pods(running)
    (had,) = world.used("n")
    ask = world.chooser.read(asking)
    assert isinstance(ask, Ask)
    other = ({"GPU-a", "GPU-b"} - {had}).pop()
    device = PodDevice(uuid=other, type="NVIDIA", memory_mib=3000, cores=0)
    placement = Placement(node="n", score=0.0, slots={"NVIDIA": ((device,),)})
    moved = world.cluster.reserve(ask, placement)
    world.put_pods(running | {"status": {"phase": "Running"}})
    assert world.used("n") == {had: (1, 3000, 0), other: (1, 3000, 0)}
    world.put_pods(written(running, moved, node="n"))
    assert world.used("n") == {other: (1, 3000, 0)}
    assert world.cluster.promise("uid-p") is None


def test_view_tells_of_pods_nodes_quotas_and_holdings() -> None:
    """Routes see the same state as decisions."""
    world = _world()
    world.put_quota("team", gpumem="10000")
    running = _given("p", "GPU-a,NVIDIA,3000,30:;")
    running["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "crowd"}
    running["metadata"]["annotations"]["hami.io/bind-phase"] = "allocating"
    world.put_pods(running)
    seen: list[str] = []
    view = ClusterView(world.cluster, not_synced=lambda: None)
    view.on_node(seen.append)
    locked = node("n", [gpu("GPU-a")])
    locked["metadata"]["annotations"]["hami.io/mutex.lock"] = "held"
    locked["metadata"]["resourceVersion"] = "7"
    world.put_nodes(locked)
    facts, place = view.pod("team", "p"), view.node("n")
    assert facts is not None
    assert place is not None
    assert (facts.node, facts.group, facts.bind_phase) == ("n", "crowd", "allocating")
    assert (place.resource_version, place.locks[Lock.SHARED]) == ("7", "held")
    assert seen == ["n"]
    assert {(each.name, each.used, each.limit) for each in view.quotas()} == {
        ("nvidia.com/gpumem", 3000, 10000),
        ("nvidia.com/gpucores", 30, None),
    }
    (holding,) = view.holdings()
    assert (holding.name, holding.device.memory_mib, holding.device.cores) == ("p", 3000, 30)
    assert [each.name for each in view.usage()] == ["n"]
    assert view.pod("team", "nobody") is None
    assert view.node("nowhere") is None
