"""Annotations that users have written, or taken away, on pods of their own."""

from collections.abc import Mapping
from typing import Any

import pytest

from extender.moving import Mover
from extender.parts import Chosen, RefitAsk, Refitted, Unfit
from extender.state.audit import facts, recompute
from extender.state.reading import pod_reader
from hami.containers import JsonObject
from kube.store import UnwantedError
from tests.extender.statemachine import REGISTER, World, container, gpu, node, pod, written

_NODE = "hami.io/vgpu-node"
_ALLOCATED = "hami.io/vgpu-devices-allocated"
_TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
_READ = pod_reader({"nvidia.com/gpu", "nvidia.com/gpumem"}, {"nvidia.com/gpu"})


def _world() -> World:
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a"), gpu("GPU-b")]), node("other", [gpu("GPU-c")]))
    return world


def _put(world: World, item: JsonObject) -> None:
    """Tell of a pod as the watch does."""
    try:
        world.cluster.put_pod(_READ(item))
    except UnwantedError:
        return


def _pod(
    text: str | None,
    *,
    where: str = "n",
    runs: bool = True,
    more: Mapping[str, str] | None = None,
) -> JsonObject:
    """Return a pod that says that it was given *text*."""
    found = pod("p", container(gpu=1, gpumem=4000))
    lists = {} if text is None else {_NODE: where, _ALLOCATED: text}
    found["metadata"]["annotations"] |= lists | dict(more or {})
    if runs:
        found["spec"]["nodeName"] = "n"
        found["status"]["phase"] = "Running"
    return found


_GIVEN = "GPU-a,NVIDIA,4000,20:;"


def _is_reckoned_alike(world: World) -> None:
    """Assert that an audit finds nothing to do."""
    for name, usage in recompute(world.cluster).items():
        assert facts(usage) == facts(world.usage(name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {"GPU-a": (1, 4000, 20)}),
        (";", {"GPU-a": (1, 4000, 20)}),
        ("GPU-a,NVIDIA,1,0:;", {"GPU-a": (1, 4000, 20)}),
        ("GPU-a,NVIDIA,9000,0:;", {"GPU-a": (1, 9000, 20)}),
        ("GPU-b,NVIDIA,4000,20:;", {"GPU-a": (1, 4000, 20), "GPU-b": (1, 4000, 20)}),
    ],
)
def test_what_was_written_on_a_bound_pod_counts_until_it_ends(
    text: str | None, expected: dict[str, tuple[int, int, int]]
) -> None:
    """Less frees nothing, more and others are counted too; the end frees all of it."""
    world = _world()
    _put(world, _pod(_GIVEN))
    _put(world, _pod(text))
    assert world.used("n") == expected
    _is_reckoned_alike(world)
    _put(world, _pod(_GIVEN))
    assert world.used("n")["GPU-a"][1] >= 4000
    _put(world, _pod(text) | {"status": {"phase": "Succeeded"}})
    assert world.used("n") == {}
    _put(world, _pod(text) | {"status": {"phase": "Succeeded"}})
    _is_reckoned_alike(world)


@pytest.mark.parametrize(
    "changed",
    [
        _pod("GPU-a,NVIDIA:;"),
        _pod(_GIVEN, where="other"),
        _pod("GPU-zzz,NVIDIA,4000,20:;"),
        _pod(_GIVEN, more={_TO_ALLOCATE: "GPU-b,NVIDIA,16000,100:;"}),
    ],
    ids=["unreadable", "of another node", "of no device", "and to be handed out another"],
)
def test_what_cannot_be_true_closes_the_node_and_frees_nothing(changed: JsonObject) -> None:
    """Nobody can tell what the plugin was told; when it is as before the node is open again."""
    world = _world()
    _put(world, _pod(_GIVEN))
    _put(world, changed)
    answer = world.filter(pod("q", container(gpu=1)), "n")
    assert isinstance(answer, Unfit)
    assert "team/p" in answer.failed["n"]
    assert world.used("n")["GPU-a"] == (1, 4000, 20)
    assert world.used("other") == {}
    _is_reckoned_alike(world)
    _put(world, _pod(_GIVEN))
    assert (
        world.usage("n").blocked is None
        or "GPU-zzz" in changed["metadata"]["annotations"][_ALLOCATED]
    )
    world.drop_pod(_pod(_GIVEN))
    assert world.usage("n").blocked is None
    assert world.used("n") == {}


def test_what_a_plugin_writes_is_no_forgery() -> None:
    """Phases, and places that are emptied when they were handed out, change nothing."""
    world = _world()
    _put(world, _pod(_GIVEN, more={_TO_ALLOCATE: _GIVEN, "hami.io/bind-phase": "allocating"}))
    _put(world, _pod(_GIVEN, more={_TO_ALLOCATE: ";;", "hami.io/bind-phase": "success"}))
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}
    assert world.usage("n").blocked is None
    assert not world.cluster._trust.forget_all()


def test_a_move_of_our_own_frees_what_the_pod_had() -> None:
    """Whereas the same written by anybody else frees nothing."""
    world = _world()
    asking = pod("p", container(gpu=1, gpumem=4000))
    bound = written(asking, world.place(asking, "n"), node="n")
    _put(world, bound)
    (had,) = world.used("n")
    other = {"GPU-a": "GPU-b", "GPU-b": "GPU-a"}[had]
    mover = Mover(world.cluster, world.chooser, world.policies)
    ask = RefitAsk(
        uid="uid-p",
        namespace="team",
        name="p",
        node="n",
        container_index=0,
        container_name="main",
        word="NVIDIA",
        allowed=frozenset({other}),
    )
    found = mover.refit(ask, bound)
    assert isinstance(found, Refitted)
    mover.keep(ask)
    moved: dict[str, Any] = bound | {"metadata": bound["metadata"] | {}}
    moved["metadata"]["annotations"] = bound["metadata"]["annotations"] | dict(found.annotations)
    _put(world, moved)
    assert set(world.used("n")) == {other}
    _is_reckoned_alike(world)


def test_a_new_leader_believes_what_is_written() -> None:
    """As a new process does: neither has seen anything else."""
    world = _world()
    _put(world, _pod(_GIVEN))
    _put(world, _pod("GPU-b,NVIDIA,4000,20:;"))
    world.cluster.drop_promises()
    assert world.used("n") == {"GPU-b": (1, 4000, 20)}
    _is_reckoned_alike(world)


def test_a_pod_that_runs_with_devices_says_which() -> None:
    """Or its node is closed until it ends: it went past the scheduler, or they were erased."""
    world = _world()
    _put(world, _pod(None))
    assert "of which nothing is written" in (world.usage("n").blocked or "")
    waiting = _pod(None)
    waiting["status"]["phase"] = "Pending"
    _put(world, waiting)
    assert world.usage("n").blocked is None
    lists_alone = _pod(None)
    lists_alone["metadata"]["annotations"] = {_ALLOCATED: _GIVEN}
    _put(world, lists_alone)
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}


@pytest.mark.parametrize("text", ["GPU-a,NVIDIA:;", "GPU-zzz,NVIDIA,1,1:;", "x"])
def test_nonsense_on_a_pod_that_is_not_bound_closes_nothing(text: str) -> None:
    """It was written by nobody who binds pods."""
    world = _world()
    _put(world, _pod(text, runs=False))
    assert world.usage("n").blocked is None
    assert world.used("n") == {}


def test_a_pod_that_is_not_bound_holds_nothing_for_long() -> None:
    """A binding takes seconds; one that wants devices for ever has to be bound."""
    world = _world()
    _put(world, _pod(_GIVEN, runs=False))
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}
    world.pass_time(299)
    _put(world, _pod(_GIVEN, runs=False) | {"status": {"phase": "Pending", "reason": "x"}})
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}
    world.pass_time(2)
    assert world.used("n") == {}
    _is_reckoned_alike(world)
    _put(world, _pod(_GIVEN))
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}
    world.pass_time(1000)
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}


def test_a_pod_that_wants_no_device_has_none() -> None:
    """Whatever is written on it, and wherever it runs."""
    world = _world()
    for runs in (False, True):
        forged = _pod(_GIVEN, runs=runs)
        forged["spec"]["containers"] = [container()]
        _put(world, forged)
        assert world.used("n") == {}
    assert isinstance(world.filter(pod("q", container(gpu=2, gpumem=16384)), "n"), Chosen)


@pytest.mark.parametrize(
    "said",
    [
        {"devmem": 10**12},
        {"devmem": -1},
        {"count": -5},
        {"count": 10**12},
        {"devcore": -100},
        {"devmem": "16384"},
        {"id": "GPU-b"},
        {"id": ""},
        {"id": "GPU-a;GPU-x"},
        {"type": 7},
    ],
    ids=str,
)
def test_a_node_that_registers_nonsense_is_left_out(said: dict[str, Any]) -> None:
    """With the reason; what runs there still counts when it registers sense again."""
    world = _world()
    _put(world, _pod(_GIVEN))
    world.put_nodes(node("n", [gpu("GPU-a") | said, gpu("GPU-b")]))
    answer = world.filter(pod("q", container(gpu=1)))
    assert isinstance(answer, Chosen)
    assert answer.node == "other"
    answer = world.filter(pod("q", container(gpu=1)), "n")
    assert isinstance(answer, Unfit)
    told = {**answer.failed, **answer.unresolvable}["n"]
    assert "cannot read what it registers" in told
    world.put_nodes(node("n", [gpu("GPU-a"), gpu("GPU-b")]))
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}


def test_two_nodes_that_register_one_device_are_counted_apart() -> None:
    """Neither takes anything from the other, so a node that lies harms itself alone."""
    world = _world()
    world.put_nodes(node("other", [gpu("GPU-a")]))
    _put(world, _pod(_GIVEN))
    assert world.used("n") == {"GPU-a": (1, 4000, 20)}
    assert world.used("other") == {}


def test_long_texts_take_no_time() -> None:
    """A megabyte of devices, of separators or of nonsense is read in one go."""
    world = _world()
    for text in ("GPU-a,NVIDIA,1,1:" * 60_000, ";" * 1_000_000, ":" * 1_000_000, "[" * 1_000_000):
        long = node("long")
        long["metadata"]["annotations"][REGISTER] = text
        world.put_nodes(long)
        _put(world, _pod(text, more={_TO_ALLOCATE: text}))
        world.drop_pod(_pod(text))
    assert world.used("n") == {}
