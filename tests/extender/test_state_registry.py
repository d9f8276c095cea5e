"""A node's devices count as long as somebody is alive behind them."""

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from extender.parts import Unfit
from hami.containers import JsonObject
from tests.extender.statemachine import World, container, gpu, node, pod

_DCU = "hami.io/node-handshake-dcu"


def _dcu(handshake: str, *, allocatable: int = 0) -> JsonObject:
    found = node("d")
    found["metadata"]["annotations"] = {
        "hami.io/node-dcu-register": "DCU-1,4,16384,100,DCU,0,true,0,hami-core:",
        _DCU: handshake,
    }
    found["status"]["allocatable"] = {"hygon.com/dcunum": str(allocatable)}
    return found


def _words(world: World, name: str) -> list[str]:
    return list(world.usage(name).devices)


def test_gpus_are_gone_once_kubelet_offers_none_any_more() -> None:
    """A node whose allocatable GPUs fall to nothing is left out at once, and says why."""
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a")]))
    world.put_nodes(node("n", [gpu("GPU-a")], allocatable=0))
    answer = world.filter(pod("p", container(gpu=1)), "n")
    assert isinstance(answer, Unfit)
    assert answer.failed == {"n": "no sign of life of the device plugin for NVIDIA"}
    world.put_nodes(node("n", [gpu("GPU-a")]))
    assert _words(world, "n") == ["NVIDIA"]


def test_new_node_has_a_minute_until_gpus_are_allocatable() -> None:
    """A node that registers before kubelet offers anything is used, but not for ever."""
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a")], allocatable=0))
    world.pass_time(59)
    assert _words(world, "n") == ["NVIDIA"]
    world.pass_time(1)
    assert _words(world, "n") == []


def test_node_made_again_has_a_minute_of_its_own() -> None:
    """A node of the same name is another one after it was deleted."""
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a")], allocatable=0))
    world.pass_time(61)
    world.cluster.drop_node("n")
    world.put_nodes(node("n", [gpu("GPU-a")], allocatable=0))
    assert _words(world, "n") == ["NVIDIA"]


@pytest.mark.parametrize("text", ["Deleted_2026-05-01 10:00:00", "Requesting", "anything", ""])
def test_handshake_alone_never_removes_a_node(text: str) -> None:
    """Whatever the handshake says, a node that offers devices is used."""
    world = World()
    world.put_nodes(_dcu(text, allocatable=4))
    assert _words(world, "d") == ["DCU"]
    assert world.cluster.nodes.questions() == {}


def test_silent_plugin_is_asked_and_given_a_minute() -> None:
    """Where nothing is allocatable the plugin is asked, and is dead when it has not answered."""
    world = World()
    world.put_nodes(_dcu("Reported 2026-05-01 00:00:00"))
    asked = world.cluster.nodes.questions()["d"][_DCU]
    assert asked.startswith("Requesting_")
    world.put_nodes(_dcu(asked))
    assert world.cluster.nodes.questions() == {}
    assert _words(world, "d") == ["DCU"]
    for _ in range(4):
        world.pass_time(timedelta(seconds=15).total_seconds())
    assert _words(world, "d") == []
    world.put_nodes(_dcu("Reported 2026-05-01 00:30:00"))
    assert _words(world, "d") == ["DCU"]


def test_pods_of_a_dead_vendor_do_not_close_the_node() -> None:
    """Devices that are gone with their plugin leave the other vendors' devices usable."""
    world = World()
    both = node("n", [gpu("GPU-a")])
    both["metadata"]["annotations"]["hami.io/node-amd-register"] = json.dumps([gpu("AMD-1")])
    both["status"]["capacity"] = {"amd.com/gpu": "1"}
    world.put_nodes(both)
    running = pod("p", container(gpu=1))
    running["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,100,1:;",
    }
    running["spec"]["nodeName"] = "n"
    world.put_pods(running)
    both["status"]["allocatable"] = {}
    world.put_nodes(both)
    assert _words(world, "n") == ["AMD"]
    assert world.usage("n").blocked is None


def test_devices_follow_from_capacity_where_nobody_registers() -> None:
    """A node of Moore Threads has what its capacity says, live."""
    world = World()
    world.put_nodes(_mthreads({"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}))
    assert len(world.usage("m").devices["Mthreads"]) == 2
    world.put_nodes(_mthreads({}))
    assert _words(world, "m") == []


def _mthreads(capacity: Mapping[str, str]) -> JsonObject:
    found = node("m")
    found["status"] = {"capacity": dict(capacity), "allocatable": dict(capacity)}
    return found


@pytest.mark.parametrize("allocatable", ["1.5", "many", "-3"])
def test_odd_amounts_are_no_sign_of_life(allocatable: str) -> None:
    """An amount that is no number, or below nothing, raises nothing."""
    world = World()
    odd = node("n", [gpu("GPU-a")])
    odd["status"]["allocatable"]["nvidia.com/gpu"] = allocatable
    world.put_nodes(odd)
    assert _words(world, "n") == ["NVIDIA"]
