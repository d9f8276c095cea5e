"""Devices of bound pods are moved on the state by which pods are placed."""

from collections.abc import Iterable
from typing import Any

import pytest

from extender.moving import Mover
from extender.parts import RefitAsk, Refitted
from hami.containers import JsonObject
from tests.extender.statemachine import World, container, gpu, node, pod

_ALLOCATED = "hami.io/vgpu-devices-allocated"
_TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


def _bound(name: str, text: str, *, left: str | None = None, **more: Any) -> JsonObject:
    containers = more.pop("containers", (container(gpu=1, gpumem=3000, gpucores=30),))
    found = pod(name, *containers, **more)
    found["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "n",
        _ALLOCATED: text,
        _TO_ALLOCATE: text if left is None else left,
    }
    found["spec"]["nodeName"] = "n"
    return found


def _scene(*pods: JsonObject, gpus: Iterable[str] = ("GPU-a", "GPU-b")) -> tuple[World, Mover]:
    world = World()
    world.put_nodes(node("n", [gpu(each) for each in gpus]))
    world.put_pods(*pods)
    return world, Mover(world.cluster, world.chooser, world.policies)


def _ask(*allowed: str, name: str = "p", **changed: Any) -> RefitAsk:
    said: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "team",
        "name": name,
        "node": "n",
        "container_index": 0,
        "container_name": "main",
        "word": "NVIDIA",
        "allowed": frozenset(allowed),
    }
    return RefitAsk(**(said | changed))


def test_a_container_gets_one_of_the_allowed_devices() -> None:
    """Both lists change together; old and new are booked until the watch shows the new."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    world, mover = _scene(placed)
    found = mover.refit(_ask("GPU-b"), placed)
    assert isinstance(found, Refitted)
    assert found.annotations == {
        _ALLOCATED: "GPU-b,NVIDIA,3000,30:;",
        _TO_ALLOCATE: "GPU-b,NVIDIA,3000,30:;",
    }
    assert [each.uuid for each in found.devices] == ["GPU-b"]
    assert world.used("n") == {"GPU-a": (1, 3000, 30), "GPU-b": (1, 3000, 30)}
    mover.keep(_ask("GPU-b"))
    world.put_pods(_bound("p", "GPU-b,NVIDIA,3000,30:;"))
    assert world.used("n") == {"GPU-b": (1, 3000, 30)}


def test_what_is_not_written_is_taken_back() -> None:
    """As before the question."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    world, mover = _scene(placed)
    assert isinstance(mover.refit(_ask("GPU-b"), placed), Refitted)
    mover.undo(_ask("GPU-b"))
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}


def test_other_containers_keep_what_they_have() -> None:
    """And the places that the device plugin has emptied stay empty."""
    containers = (container("first", gpu=1, gpumem=1000), container("main", gpu=1, gpumem=2000))
    text = "GPU-a,NVIDIA,1000,0:;GPU-a,NVIDIA,2000,0:;"
    placed = _bound("p", text, left=";GPU-a,NVIDIA,2000,0:;;", containers=containers)
    _, mover = _scene(placed)
    found = mover.refit(_ask("GPU-b", container_index=1), placed)
    assert isinstance(found, Refitted)
    assert found.annotations == {
        _ALLOCATED: "GPU-a,NVIDIA,1000,0:;GPU-b,NVIDIA,2000,0:;",
        _TO_ALLOCATE: ";GPU-b,NVIDIA,2000,0:;",
    }


def test_a_device_that_others_fill_is_not_given() -> None:
    """HAMi's word says why; nothing changes."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    other = _bound("q", "GPU-b,NVIDIA,15000,0:;")
    world, mover = _scene(placed, other)
    before = world.used("n")
    said = mover.refit(_ask("GPU-b"), placed)
    assert said == "1/2 CardInsufficientMemory, 1/2 CardUuidMismatch"
    assert world.used("n") == before


def test_what_the_pod_has_itself_is_no_obstacle() -> None:
    """It may get back the device that it is on, full as that is."""
    placed = _bound("p", "GPU-a,NVIDIA,16384,100:;", containers=(container(gpu=1),))
    _, mover = _scene(placed)
    found = mover.refit(_ask("GPU-a"), placed)
    assert isinstance(found, Refitted)
    assert found.annotations[_ALLOCATED] == "GPU-a,NVIDIA,16384,100:;"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"word": "MLU"}, "only NVIDIA"),
        ({"container_index": 5}, "has 1 containers"),
        ({"container_name": "other"}, "container 0 is main"),
        ({"node": "gone"}, "node gone is not known"),
    ],
)
def test_odd_wishes_are_refused(changed: dict[str, Any], reason: str) -> None:
    """Nothing is promised."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    world, mover = _scene(placed)
    said = mover.refit(_ask("GPU-b", **changed), placed)
    assert isinstance(said, str)
    assert reason in said
    assert world.used("n") == {"GPU-a": (1, 3000, 30)}


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({_ALLOCATED: ""}, "given no devices"),
        ({_ALLOCATED: "GPU-a;"}, "cannot be read"),
        ({_ALLOCATED: "GPU-a,NVIDIA,x,0:;"}, "cannot be read"),
        ({"hami.io/vgpu-mig-allocations": "[]x"}, "MIG"),
    ],
)
def test_pods_that_cannot_be_read_are_left_alone(annotations: dict[str, str], reason: str) -> None:
    """Half a list is no list."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    _, mover = _scene(placed)
    placed["metadata"]["annotations"] |= annotations
    said = mover.refit(_ask("GPU-b"), placed)
    assert isinstance(said, str)
    assert reason in said


def test_a_pod_without_devices_has_none_to_move() -> None:
    """Whatever its annotations say."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;", containers=(container(),))
    _, mover = _scene(placed)
    assert "asks for no devices" in str(mover.refit(_ask("GPU-b"), placed))


def test_policies_hold_among_the_allowed() -> None:
    """Spread prefers the emptier one."""
    placed = _bound("p", "GPU-a,NVIDIA,3000,30:;")
    other = _bound("q", "GPU-b,NVIDIA,5000,10:;")
    _, mover = _scene(placed, other, gpus=("GPU-a", "GPU-b", "GPU-c"))
    found = mover.refit(_ask("GPU-b", "GPU-c"), placed)
    assert isinstance(found, Refitted)
    assert [each.uuid for each in found.devices] == ["GPU-c"]
