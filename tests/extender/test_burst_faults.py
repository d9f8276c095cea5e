"""A burst of pods while requests fail, get lost and come late, pods go and annotations are spoiled.

The whole extender serves over HTTP; five in a hundred writes conflict, and as many again have other
troubles. Its watches are spared: how these are mended is tested where they are.
"""

import contextlib
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from kube.errors import KubeError
from kube.paths import pods
from tests.extender.forgetful import LATE, LOST, REFUSED, Trouble, Way, forgetful
from tests.extender.playing import ALLOCATED, NODE, Json, Play
from tests.fakes.api_server import serving
from tests.fakes.scripted_server import Request
from tests.patience import eventually

_NODES: Final = ("n1", "n2", "n3")
_GPUS: Final = 2
_EACH: Final = 4
_PODS: Final = len(_NODES) * _GPUS * _EACH
_MIB: Final = 4096
_CHANCES: Final[tuple[tuple[float, Trouble], ...]] = (
    (0.05, 409),
    (0.02, LOST),
    (0.02, REFUSED),
    (0.02, LATE),
    (0.02, 503),
    (0.01, 429),
)
_LATENCY_S: Final = 0.005
_PATIENCE_S: Final = 60.0


class Chance:
    """Decides what becomes of writes, and lets late ones arrive now and then."""

    def __init__(self, way: Way, seed: int) -> None:
        self._way, self._random = way, random.Random(seed)  # noqa: S311
        self._lock = threading.Lock()
        self.troubles = Counter[Trouble]()

    def __call__(self, request: Request) -> Trouble | None:
        """Take a while, and return what happens."""
        time.sleep(_LATENCY_S)
        if "/events" in request.path or request.method == "GET":
            return None
        with self._lock:
            drawn, late = self._random.random(), self._random.random() < 0.2
        if late:
            self._way.deliver()
        for chance, trouble in _CHANCES:
            drawn -= chance
            if drawn < 0:
                self.troubles[trouble] += 1
                return trouble
        return None


class Burst:
    """Everybody who has to do with the pods."""

    def __init__(self, play: Play, seed: int) -> None:
        self._play, self._random = play, random.Random(seed)  # noqa: S311
        self._ended = threading.Event()
        self.plugins = threading.Thread(target=self._hand_out, daemon=True)
        self.plugins.start()

    def close(self) -> None:
        """End the device plugins."""
        self._ended.set()
        self.plugins.join(30)

    def schedule(self, name: str) -> None:
        """Try until a pod is bound, as a scheduler does, and spoil it now and then."""
        play, until_s = self._play, time.monotonic() + _PATIENCE_S
        while not (pod := play.pod(name))["spec"].get("nodeName"):
            assert time.monotonic() < until_s, f"{name} is not bound"
            if self._random.random() < 0.1 and not (pod["metadata"].get("annotations") or {}):
                play.annotate(name, {NODE: "n1", ALLOCATED: "GPU-n1-0,NVIDIA:;"})
            if play.schedule(name, *_NODES) not in _NODES:
                time.sleep(0.05)

    def _hand_out(self) -> None:
        while not self._ended.wait(0.01):
            for node in _NODES:
                _, _, name = self._play.lock(node).partition(",default,")
                with contextlib.suppress(KubeError, AssertionError):
                    if name and self._play.pod(name)["spec"].get("nodeName") == node:
                        self._play.hand_out(name)


def _bound(play: Play) -> list[Json]:
    items = json.loads(play.client.get(pods("default")))["items"]
    return [item for item in items if item["spec"].get("nodeName")]


def _given(play: Play) -> Counter[str]:
    """Return how often each GPU was given; each pod has one, of the node that it runs on."""
    found = Counter[str]()
    for item in _bound(play):
        uuid, kind, mib, _ = item["metadata"]["annotations"][ALLOCATED].rstrip(";:").split(",")
        assert (kind, mib) == ("NVIDIA", str(_MIB))
        assert uuid.startswith(f"GPU-{item['spec']['nodeName']}-")
        found[uuid] += 1
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_burst_fills_all_nodes_exactly(seed: int) -> None:
    """No GPU is given more than it has, none stays taken by what is gone, and all pods run."""
    with serving("1.34") as host, forgetful(host.server.url) as (way, url):
        play = Play(host, way=url)
        for node in _NODES:
            uuids = [f"GPU-{node}-{each}" for each in range(_GPUS)]
            play.add_node(node, *uuids, devmem=_MIB * _EACH)
        way.chance = chance = Chance(way, seed)
        burst = Burst(play, seed)
        try:
            names = [f"p{number:02d}" for number in range(_PODS)]
            for name in names:
                play.add_pod(name, gpu=1, gpumem=_MIB)
            with ThreadPoolExecutor(6) as schedulers:
                list(schedulers.map(burst.schedule, names))
            assert _given(play) == {
                f"GPU-{node}-{each}": _EACH for node in _NODES for each in range(_GPUS)
            }
            play.add_pod("late", gpu=1, gpumem=1)
            assert not play.fits("late", *_NODES)
            for name in names[::2]:
                play.drop_pod(name)
            for number in range(_PODS // 2):
                play.add_pod(f"q{number:02d}", gpu=1, gpumem=_MIB)
                burst.schedule(f"q{number:02d}")
            assert set(_given(play).values()) == {_EACH}
            assert len(chance.troubles) >= len(_CHANCES) // 2
        finally:
            burst.close()
        way.deliver()
        for item in _bound(play):
            play.drop_pod(item["metadata"]["name"])
        play.add_pod("whole", gpu=_GPUS, gpumem=_MIB * _EACH)
        for node in _NODES:
            eventually(lambda node=node: play.fits("whole", node))  # type: ignore[misc]
        play.close()
