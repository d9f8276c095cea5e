"""What users of such schedulers have reported, each played against the extender over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any, Final

import pytest

from kube.paths import resource
from tests.extender.playing import ALLOCATED, TO_ALLOCATE, Play
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.ports import free_port

_QUOTAS: Final = resource("v1", "resourcequotas", namespace="default")


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[tuple[Play, ServerThread]]:
    with serving("1.34") as host:
        play = Play(host, node_lock_retry_timeout_s=1.0)
        yield play, host
        play.close()


@pytest.fixture(name="play")
def _play(shared: tuple[Play, ServerThread]) -> Iterator[Play]:
    play, _ = shared
    yield play
    play.clear()
    for item in json.loads(play.client.get(_QUOTAS))["items"]:
        play.client.delete(f"{_QUOTAS}/{item['metadata']['name']}")


@pytest.fixture(name="host")
def _host(shared: tuple[Play, ServerThread]) -> ServerThread:
    return shared[1]


def _bound_quota(play: Play, **hard: str) -> None:
    said = {f"limits.nvidia.com/{key}": text for key, text in hard.items()}
    play.client.create(_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": said}})


def _tokens(play: Play, name: str, *nodes: str) -> str:
    found = play.filter(name, *nodes)
    return "" if isinstance(found, str) else json.dumps(found)


def test_quota_counts_each_device(play: Play) -> None:
    """Two GPUs of 2048 MiB and 20 cores are 4096 and 40; the second such pod is one too many."""
    play.add_node("n", "GPU-a", "GPU-b")
    _bound_quota(play, gpumem="4096", gpucores="50")
    for name in ("p", "q"):
        play.add_pod(name, gpu=2, gpumem=2048, gpucores=20)
    assert play.schedule("p", "n") == "n"
    play.hand_out("p")
    assert "ResourceQuotaNotFit" in _tokens(play, "q", "n")
    play.say("p", "Succeeded")
    eventually(lambda: play.fits("q", "n"))


def test_quota_of_nothing_allows_nothing(play: Play) -> None:
    """Zero is a bound; no bound is none."""
    play.add_node("n", "GPU-a")
    play.add_pod("p", gpu=1, gpumem=1000)
    assert play.fits("p", "n")
    _bound_quota(play, gpumem="0")
    assert eventually(lambda: not play.fits("p", "n"))
    play.client.delete(f"{_QUOTAS}/q")
    assert eventually(lambda: play.fits("p", "n"))


def test_quota_is_not_used_by_what_is_not_written(play: Play, host: ServerThread) -> None:
    """However often writing fails; it is used once when it succeeds."""
    play.add_node("n", "GPU-a")
    _bound_quota(play, gpumem="1000")
    play.add_pod("p", gpu=1, gpumem=1000)
    for number in range(20):
        status = 409 if number % 2 else 403
        host.call(host.server.fail_next, 3, status, verb="patch", path_part="/pods/p")
        assert play.schedule("p", "n") != "n"
        host.call(host.server.clear_faults)
        assert not play.annotations("p")
    assert play.schedule("p", "n") == "n"
    play.hand_out("p")
    play.add_pod("q", gpu=1, gpumem=1)
    assert "ResourceQuotaNotFit" in _tokens(play, "q", "n")
    play.drop_pod("p")
    eventually(lambda: play.fits("q", "n"))


@pytest.mark.parametrize("key", ["pods", "requests.cpu", "count/pods", ""])
def test_other_keys_of_quotas_bound_nothing(play: Play, key: str) -> None:
    """However short they are, and also when they go."""
    play.add_node("n", "GPU-a")
    hard = {key: "0"} if key else {}
    play.client.create(_QUOTAS, {"metadata": {"name": "odd"}, "spec": {"hard": hard}})
    _bound_quota(play, gpumem="1000")
    play.add_pod("p", gpu=1, gpumem=1000)
    play.add_pod("q", gpu=1, gpumem=1001)
    eventually(lambda: not play.fits("q", "n"))
    assert play.fits("p", "n")
    play.client.delete(f"{_QUOTAS}/odd")
    for _ in range(5):
        assert play.fits("p", "n")
        assert not play.fits("q", "n")


def test_nothing_is_decided_before_everything_is_read() -> None:
    """While the pods cannot be listed the answer is an error; the first after it is right."""
    with serving("1.34") as host:
        first = Play(host)
        first.add_node("n", "GPU-a")
        first.add_pod("p", gpu=1, gpumem=16384)
        assert first.schedule("p", "n") == "n"
        first.hand_out("p")
        first.add_pod("q", gpu=1, gpumem=16384)
        question = {"Pod": first.pod("q"), "NodeNames": ["n"]}
        first.close()
        host.call(host.server.fail_next, 6, 503, verb="list", path_part="/api/v1/pods")
        port, told = free_port(), []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                told.extend(_asked(port, question))

        asking = threading.Thread(target=ask)
        asking.start()
        second = Play(host, port=port, wait_ready_s=0.01)
        eventually(lambda: any(not each["Error"] for each in told))
        ended.set()
        asking.join(30)
        second.close()
        assert any(" read" in each["Error"] for each in told)
        assert not any(each["NodeNames"] for each in told)


def _asked(port: int, question: Any) -> list[dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/filter", json.dumps(question).encode())
        return [json.loads(connection.getresponse().read())]
    except OSError:
        return []
    finally:
        connection.close()


def test_device_without_memory_is_no_outage(play: Play) -> None:
    """It takes nothing, nothing is divided by it, and the next pod is placed."""
    play.add_node("empty", "GPU-0", devmem=0, count=0, devcore=0)
    play.add_node("n", "GPU-a")
    play.add_pod("p", gpu=1, gpumem=1000)
    play.add_pod("many", gpu=40)
    assert _tokens(play, "many", "empty", "n")
    assert "empty" in _tokens(play, "p", "empty")
    assert play.schedule("p", "empty", "n") == "n"
    assert "NaN" not in play.extender.metrics()


def test_pod_that_is_deleted_after_its_binding_delays_nobody(play: Play) -> None:
    """Its lock is taken over at once, by all that follow."""
    play.add_node("n", "GPU-a")
    for number in range(5):
        play.add_pod(f"p{number}", gpu=1, gpumem=1000)
        assert play.schedule(f"p{number}", "n") == "n"
        play.drop_pod(f"p{number}")


def test_lock_of_one_node_delays_no_other(play: Play) -> None:
    """A binding waits on one node while one after the other is made on the next."""
    play.add_node("n", "GPU-a")
    play.add_node("m", "GPU-b")
    for name in ("owner", "waits", "goes"):
        play.add_pod(name, gpu=1, gpumem=1000)
    assert play.schedule("owner", "n") == "n"
    assert play.filter("waits", "n") == "n"
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(play.bind("waits", "n")))
    waiting.start()
    assert play.schedule("goes", "m") == "m"
    assert waiting.is_alive()
    waiting.join(30)
    assert "node lock contention" in said[0]


def test_answer_is_among_what_was_asked(play: Play) -> None:
    """Nodes that the scheduler has ruled out, for memory or CPUs, are not considered."""
    for name in ("n1", "n2", "n3"):
        play.add_node(name, f"GPU-{name}")
    play.add_pod("p", gpu=1, gpumem=1000)
    for names in (("n1",), ("n2", "n3"), ("n3", "unknown"), ()):
        found = play.filter("p", *names)
        if isinstance(found, str):
            assert found in names
        else:
            told = {**(found["FailedNodes"] or {}), **(found["FailedAndUnresolvableNodes"] or {})}
            assert told.keys() <= set(names)


def test_pending_pod_carries_nothing_of_ours(play: Play) -> None:
    """Whether it was never bound, or its binding failed: nothing on it can go stale."""
    play.add_node("n", "GPU-a")
    play.add_pod("p", gpu=1, gpumem=1000)
    assert play.filter("p", "n") == "n"
    assert not play.annotations("p")
    play.add_pod("owner", gpu=1, gpumem=1000)
    assert play.schedule("owner", "n") == "n"
    assert play.filter("p", "n") == "n"
    assert "node lock contention" in play.bind("p", "n")
    assert not play.annotations("p").keys() & {ALLOCATED, TO_ALLOCATE}
