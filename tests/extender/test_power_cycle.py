"""Nodes that go away and come back, with an extender and a simulated API server, over HTTP.

Whatever happens, nothing is given twice and nothing stays closed, locked or waiting for ever.
"""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kube.client import MERGE_PATCH
from kube.paths import nodes
from tests.extender.playing import ALLOCATED, LOCK, NODE, Play, playing
from tests.patience import eventually

_GPUS: Final = ("GPU-a", "GPU-b")
_WHOLE: Final[dict[str, Any]] = {"gpu": 1, "gpumem": 16384, "gpucores": 100}


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[Play]:
    with playing(node_lock_retry_timeout_s=1.0) as play:
        yield play


@pytest.fixture(name="play")
def _play(shared: Play) -> Iterator[Play]:
    shared.add_node("n", *_GPUS)
    yield shared
    shared.clear()


def _run(play: Play, name: str) -> str:
    """Have a pod run on a whole GPU of the node, and return which."""
    play.add_pod(name, **_WHOLE)
    assert play.schedule(name, "n") == "n"
    play.hand_out(name)
    return play.annotations(name)[ALLOCATED].partition(",")[0]


def _reason(play: Play, name: str, node: str = "n") -> str:
    """Return why a pod cannot go to a node, empty where it can."""
    found = play.filter(name, node)
    if isinstance(found, str):
        play.filter(name, "no-such-node")
        return ""
    told = {**(found["FailedNodes"] or {}), **(found["FailedAndUnresolvableNodes"] or {})}
    return str(told[node])


def test_node_without_kubelet_keeps_what_it_has(play: Play) -> None:
    """No device is allocatable, then all are again: pods keep theirs, and new ones get the rest."""
    _run(play, "p")
    play.add_pod("q", **_WHOLE)
    play.offer("n", 0)
    assert "no sign of life" in eventually(lambda: _reason(play, "q"))
    play.offer("n", 20)
    eventually(lambda: not _reason(play, "q"))
    assert _run(play, "r") != play.annotations("p")[ALLOCATED].partition(",")[0]
    assert _reason(play, "q")


@pytest.mark.parametrize("stamp", ["Deleted_2026-05-01 10:00:00", "Requesting_2026-05-01 10:00:00"])
def test_stale_handshake_is_no_end(play: Play, stamp: str) -> None:
    """A node that offers devices is used, whatever another scheduler wrote while it was away."""
    play.add_pod("q", **_WHOLE)
    body = {"metadata": {"annotations": {"hami.io/node-handshake": stamp}}}
    play.client.patch(nodes("n"), body, content_type=MERGE_PATCH)
    play.offer("n", 0)
    assert eventually(lambda: _reason(play, "q"))
    play.offer("n", 20)
    eventually(lambda: not _reason(play, "q"))


def test_gpus_come_back_in_another_order(play: Play) -> None:
    """What is taken is taken by UUID."""
    taken = _run(play, "p")
    play.register("n", tuple(reversed(_GPUS)))
    assert {taken, _run(play, "q")} == set(_GPUS)
    play.add_pod("r", gpu=1, gpumem=1000)
    assert "CardInsufficientMemory" in _reason(play, "r") or "Exhausted" in _reason(play, "r")


def test_gpu_of_a_running_pod_does_not_come_back(play: Play) -> None:
    """The node takes no pods until that one has ended, or the GPU is declared lost."""
    taken = _run(play, "p")
    (left,) = set(_GPUS) - {taken}
    play.register("n", (left,))
    play.add_pod("q", **_WHOLE)
    assert eventually(lambda: _reason(play, "q")) == f"pod default/p uses unknown {taken}"
    play.drop_pod("p")
    eventually(lambda: not _reason(play, "q"))
    assert _run(play, "r") == left


@pytest.mark.parametrize("evicted", [False, True], ids=["pods still bound", "pods evicted"])
def test_node_object_is_made_anew(play: Play, *, evicted: bool) -> None:
    """With the same name: what still runs there counts, and what was evicted does not."""
    first, second = _run(play, "p"), _run(play, "q")
    assert {first, second} == set(_GPUS)
    play.drop_node("n")
    play.add_pod("r", gpu=2, gpumem=16384, gpucores=100)
    eventually(lambda: _reason(play, "r") == "node unregistered")
    if evicted:
        play.drop_pod("p")
        play.drop_pod("q")
    play.add_node("n", *_GPUS)
    for _ in range(10):
        assert bool(_reason(play, "r")) is not evicted
    play.drop_pod("p")
    play.drop_pod("q")
    eventually(lambda: not _reason(play, "r"))
    assert play.schedule("r", "n") == "n"


def test_node_is_made_anew_with_other_gpus_between_filter_and_binding(play: Play) -> None:
    """The pod is not bound to devices that are gone, and goes where there are some."""
    play.add_pod("p", **_WHOLE)
    assert play.filter("p", "n") == "n"
    play.drop_node("n")
    play.add_pod("probe", gpu=1)
    eventually(lambda: _reason(play, "probe") == "node unregistered")
    play.add_node("n", "GPU-new")
    eventually(lambda: not _reason(play, "probe"))
    assert "is not there any more" in play.bind("p", "n")
    assert ALLOCATED not in play.annotations("p")
    assert not play.lock("n")
    assert play.schedule("p", "n") == "n"
    assert play.annotations("p")[ALLOCATED].startswith("GPU-new,")


def test_node_goes_while_a_binding_waits_for_its_lock(play: Play) -> None:
    """The binding fails at once, and the pod can go elsewhere."""
    play.add_pod("owner", **_WHOLE)
    assert play.schedule("owner", "n") == "n"
    play.add_pod("p", **_WHOLE)
    assert play.filter("p", "n") == "n"
    said: list[str] = []
    binding = threading.Thread(target=lambda: said.append(play.bind("p", "n")))
    binding.start()
    time.sleep(0.2)
    play.drop_node("n")
    binding.join(30)
    assert said == ["node unregistered"]
    play.add_node("m", "GPU-m")
    assert play.schedule("p", "n", "m") == "m"


def test_power_fails_before_the_plugin_hands_out(play: Play) -> None:
    """The lock stands for a pod that may start again, and is free as soon as that is evicted."""
    play.add_pod("p", **_WHOLE)
    assert play.schedule("p", "n") == "n"
    lock = play.lock("n")
    play.offer("n", 0)
    play.offer("n", 20)
    play.add_pod("q", **_WHOLE)
    eventually(lambda: not _reason(play, "q"))
    assert "node lock contention" in play.schedule("q", "n")
    assert play.lock("n") == lock
    play.drop_pod("p")
    assert play.schedule("q", "n") == "n"
    assert play.lock("n").endswith(",default,q")


def test_pod_starts_again_after_the_power_cycle(play: Play) -> None:
    """The plugin finds it by the lock that it had, and the next one follows."""
    play.add_pod("p", **_WHOLE)
    assert play.schedule("p", "n") == "n"
    play.restart()
    play.offer("n", 0)
    play.offer("n", 20)
    play.hand_out("p")
    assert play.lock("n") == ""
    assert _run(play, "q") != play.annotations("p")[ALLOCATED].partition(",")[0]


def test_lock_of_a_pod_that_never_starts_ends(play: Play) -> None:
    """After the time that is set, here by a stamp of ten minutes ago."""
    play.add_pod("p", **_WHOLE)
    assert play.schedule("p", "n") == "n"
    old = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
    play.change_node("n", lock=f"{old},default,p")
    play.add_pod("q", **_WHOLE)
    assert play.schedule("q", "n") == "n"
    assert play.lock("n").endswith(",default,q")


def test_pods_of_a_power_cycle_are_placed_again(play: Play) -> None:
    """Their controller makes them anew under their names; what the old ones had is free."""
    for _ in range(3):
        taken = {_run(play, name) for name in ("web-0", "web-1")}
        assert taken == set(_GPUS)
        play.offer("n", 0)
        for name in ("web-0", "web-1"):
            play.drop_pod(name)
        play.offer("n", 20)
        play.add_pod("probe", gpu=2, gpumem=16384)
        eventually(lambda: not _reason(play, "probe"))
        play.drop_pod("probe")


def test_nothing_is_left_of_nodes_and_pods_that_are_gone(play: Play) -> None:
    """Neither in the figures nor in what the extender keeps."""
    _run(play, "p")
    play.clear()
    text = play.extender.metrics()
    assert 'node="n"' not in text
    assert "GPU-a" not in text
    play.add_node("n", "GPU-z")
    play.add_pod("q", **_WHOLE)
    assert play.schedule("q", "n") == "n"
    metadata: dict[str, Any] = play.pod("q")["metadata"]
    assert metadata["annotations"][NODE] == "n"
    assert LOCK in json.loads(play.client.get(nodes("n")))["metadata"]["annotations"]
