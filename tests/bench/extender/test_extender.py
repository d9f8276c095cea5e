"""G1-G5, G9, G11-G13: what a scheduler's question takes, beside a plain one that recomputes all.

Every question is about a pod of its own, with names in another order. Extender, API server and
client are processes on the same CPUs; the client waits for each answer before it asks again, as
kube-scheduler does. 42 % of the names are what kube-scheduler sends of 1,000 nodes, 10 % of 5,000.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.bench.extender.asking import Connection, Took, decoded, filter_all, node_of
from tests.bench.extender.cluster import (
    NAMESPACE,
    Size,
    names,
    new_pod,
    question_with_nodes,
    questions,
)
from tests.bench.extender.programs import Api, Asked, api_server, extender, peer, reference
from tests.bench.extender.scraping import scrape
from tests.bench.figures import Goal, median, show
from tests.bench.processes import Process, running

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

ROUNDS: Final = 5
QUESTIONS: Final = 60
_WARM: Final = 20
_PERCENTS: Final = (10, 42, 100)
_SIZES: Final = [
    Size(nodes=nodes, pods_per_gpu=pods) for nodes in (100, 1000, 5000) for pods in (0, 1, 4)
]
_FILTER: Final = {
    (1000, 42): Goal(goal=0.6, floor=1.5),
    (1000, 100): Goal(goal=0.6, floor=1.5),
    (5000, 10): Goal(goal=0.6, floor=2),
    (5000, 100): Goal(goal=1, floor=4),
}
_BINDINGS: Final = 100
_p50_ms: dict[tuple[int, float, int], float] = {}


@pytest.mark.parametrize("size", _SIZES, ids=str)
def test_filter(size: Size, tmp_path: Path) -> None:
    """Print times, CPU, log and memory, and the ratio to the reference."""
    with ExitStack() as stack:
        api = stack.enter_context(api_server(tmp_path, size))
        ours = stack.enter_context(extender(api, size))
        plain = stack.enter_context(reference(size))
        _show_start(ours, size)
        for percent in _PERCENTS:
            took = _filter(ours, size, percent)
            _p50_ms[size.nodes, size.pods_per_gpu, percent] = took
            slow = _filter(plain, size, percent, rounds=1, count=5)
            show("G1", f"{size}_{percent}pc_reference_by_ours", slow / took)
        _show_flatness(size)
        _unfit(ours, size)
        _whole_nodes(ours, size)
        _show_log(ours, size)
        _show_memory(ours, size)


def test_hundred_thousand_pods(tmp_path: Path) -> None:
    """Print the same of 5,000 nodes with 100,000 pods, before and after scrapes."""
    size = Size(nodes=5000, pods_per_gpu=2.5)
    assert size.pods == 100_000
    with api_server(tmp_path, size) as api, extender(api, size) as ours:
        _show_start(ours, size)
        for percent in _PERCENTS:
            _filter(ours, size, percent)
        _unfit(ours, size)
        _show_memory(ours, size)
        assert ours.process is not None
        for _ in range(3):
            scrape(ours.metrics_url)
        show("G13", f"{size}_scraped_rss_mb", ours.process.rss_mb(), note="after three scrapes")


@pytest.mark.parametrize("size", [_SIZES[4], _SIZES[7]], ids=str)
def test_filter_while_pods_come_and_go(size: Size, tmp_path: Path) -> None:
    """Print the worst times under 200 pod events a second and a scrape each second."""
    with api_server(tmp_path, size) as api, extender(api, size) as ours:
        took = _paced(ours, size, seed=1)
        show("G4", f"{size}_calm_p99_ms", took.percentile(99), note="what the machine makes of it")
        with _churning(api):
            took = _paced(ours, size, seed=2)
            show("G4", f"{size}_churn_alone_p99_ms", took.percentile(99), note="without scrapes")
            cpu_s, began_s = ours.cpu_s(), time.monotonic()
            with _scraping(ours) as scrapes_ms:
                took = _paced(ours, size, seed=3)
                busy = (ours.cpu_s() - cpu_s) / (time.monotonic() - began_s)
        goal = Goal(goal=5, floor=10)
        note = "400 questions, 42 % of the names, 200 pod events/s, a scrape/s"
        show("G4", f"{size}_churn_p50_ms", took.percentile(50))
        show("G4", f"{size}_churn_p99_ms", took.percentile(99), goal, note)
        show("G4", f"{size}_scrape_ms", median(scrapes_ms), note=f"{len(scrapes_ms)} scrapes")
        show("G4", f"{size}_churn_cpu_percent", 100 * busy, note="of one CPU, of the extender")


def _paced(asked: Asked, size: Size, *, seed: int) -> Took:
    """Ask now and then for some seconds."""
    connection = Connection(asked.url)
    filter_all(connection, questions(size, 42, _WARM, seed=50 + seed))
    took = Took()
    for body in questions(size, 42, 400, seed=seed):
        took.ms += filter_all(connection, [body]).ms
        time.sleep(0.005)
    connection.close()
    return took


@pytest.mark.parametrize("node_lock", [False, True], ids=["unlocked", "locked"])
def test_bindings(tmp_path: Path, *, node_lock: bool) -> None:
    """Print pods a second through `/filter` and `/bind`, and what they cost the API server."""
    size = Size(nodes=1000, pods_per_gpu=1)
    word = "locked" if node_lock else "unlocked"
    with api_server(tmp_path, size) as api, extender(api, size, node_lock=node_lock) as ours:
        api.order("counts")
        failures, took_s = _bind_all(ours, api, size)
        counts: dict[str, int] = json.loads(api.order("counts"))
    calls = {key: each for key, each in counts.items() if not key.endswith((" events", " leases"))}
    per_pod = sum(calls.values()) / _BINDINGS
    note = ", ".join(f"{key}: {count}" for key, count in sorted(counts.items()))
    goal = Goal(goal=3, floor=4) if node_lock else Goal(goal=2, floor=4)
    show("G9", f"{word}_calls_per_pod", per_pod, goal, note)
    show("G9", f"{word}_failed_binds", failures, Goal(goal=0, floor=0))
    show("G9", f"{word}_pods_per_s", _BINDINGS / took_s, note="no kube-scheduler, 8 binds at once")


def test_peer() -> None:
    """Print the same figures of somebody else's extender, if there is one."""
    found = peer()
    if found is None:
        pytest.skip("no peer is named")
    theirs, size = found
    for percent in _PERCENTS:
        _filter(theirs, size, percent, rounds=1, count=10)


def _filter(
    asked: Asked, size: Size, percent: int, *, rounds: int = ROUNDS, count: int = QUESTIONS
) -> float:
    connection = Connection(asked.url)
    filter_all(connection, questions(size, percent, min(_WARM, count), seed=99))
    p50s, p99s, cpus, chosen = [], [], [], 0
    for number in range(rounds):
        bodies = tuple(questions(size, percent, count, seed=100 * percent + number))
        began_s = asked.cpu_s()
        took = filter_all(connection, bodies)
        cpus.append((asked.cpu_s() - began_s) / count * 1000)
        p50s.append(took.percentile(50))
        p99s.append(took.percentile(99))
        chosen += took.chosen
    connection.close()
    goal = _FILTER.get((size.nodes, percent)) if asked.name == "extender" else None
    group = "G2" if size.nodes == 5000 else "G1"
    name = f"{size}_{percent}pc_{asked.name}"
    note = f"{rounds} x {count}, {chosen} chosen"
    show(group, f"{name}_p50_ms", median(p50s), goal, note)
    show(group, f"{name}_p99_ms", median(p99s))
    if asked.process:
        show(group, f"{name}_cpu_ms", median(cpus))
    return median(p50s)


def _unfit(asked: Asked, size: Size) -> None:
    connection = Connection(asked.url)
    filter_all(connection, questions(size, 100, _WARM, memory="100k", seed=4))
    took = filter_all(connection, questions(size, 100, QUESTIONS, memory="100k", seed=5))
    connection.close()
    assert not took.chosen
    goal = Goal(goal=4, floor=10) if size.nodes == 5000 else None
    note = f"all names, {took.bytes_out} bytes of reasons"
    show("G5", f"{size}_nofit_p50_ms", took.percentile(50), goal, note)
    show("G5", f"{size}_nofit_p99_ms", took.percentile(99))


def _whole_nodes(asked: Asked, size: Size) -> None:
    connection = Connection(asked.url)
    percent = 10
    bodies = [question_with_nodes(size, percent, seed=each) for each in range(5)]
    took = filter_all(connection, bodies)
    connection.close()
    note = f"{percent} % of the nodes, {len(bodies[0]) / 2**20:.1f} MiB"
    show("G1", f"{size}_nodes_form_p50_ms", took.percentile(50), note=note)


def _show_start(asked: Asked, size: Size) -> None:
    goal = Goal(goal=2, floor=5) if (size.nodes, size.pods_per_gpu) == (1000, 1) else None
    show("G12", f"{size}_first_answer_s", asked.first_answer_s, goal, "from the process's start")
    show("G12", f"{size}_first_answer_cpu_s", asked.first_answer_cpu_s)


def _show_memory(asked: Asked, size: Size) -> None:
    goal = Goal(goal=100, floor=200) if (size.nodes, size.pods_per_gpu) == (5000, 1) else None
    rss_mb = asked.process.rss_mb() if asked.process else 0.0
    show("G13", f"{size}_rss_mb", rss_mb, goal, f"{size.pods} pods, after all questions")


def _show_log(asked: Asked, size: Size) -> None:
    before, count = asked.log_bytes(), 50
    connection = Connection(asked.url)
    filter_all(connection, questions(size, 42, count, seed=6))
    connection.close()
    time.sleep(0.3)
    per_decision = (asked.log_bytes() - before) / count
    show("G11", f"{size}_log_bytes", per_decision, Goal(goal=300, floor=1024), "a decision")


def _show_flatness(size: Size) -> None:
    for percent in _PERCENTS:
        empty = _p50_ms.get((size.nodes, 0, percent))
        if size.pods_per_gpu and empty:
            ratio = _p50_ms[size.nodes, size.pods_per_gpu, percent] / empty
            known = (size.nodes, size.pods_per_gpu) == (5000, 1)
            goal = Goal(goal=1.1, floor=1.3) if known else None
            show("G3", f"{size}_{percent}pc_by_none", ratio, goal, "p50 with pods by p50 without")


@contextmanager
def _churning(api: Api) -> Iterator[None]:
    api.order("churn?rate=200")
    try:
        yield
    finally:
        api.order("churn?rate=0")


@contextmanager
def _scraping(asked: Asked) -> Iterator[list[float]]:
    """Scrape each second; the list is filled at the end, with milliseconds."""
    took_ms = list[float]()
    words = ["tests.bench.extender.scraping", asked.metrics_url]
    with running(Process(words, {})) as scraper:
        scraper.wait_line(lambda line: line.startswith("scraped"))
        yield took_ms
        took_ms += [
            float(line.split()[1]) for _, line in scraper.lines if line.startswith("scraped")
        ]


def _bind_all(asked: Asked, api: Api, size: Size) -> tuple[int, float]:
    """Filter pods one after another and bind them eight at once, as a scheduler does."""
    chance = random.Random(7)  # noqa: S311 - the same each time
    pods = [
        new_pod(f"binds-{each}", f"{each:08x}-0000-4000-8000-00000000b19d", "4k", "5")
        for each in range(_BINDINGS)
    ]
    for pod in pods:
        api.order("pods", json.dumps(pod).encode())
    time.sleep(1.0)
    room, failures, threads = threading.Semaphore(8), [0], []
    connection = Connection(asked.url)
    began = time.perf_counter()
    for pod in pods:
        said = {"Pod": pod, "Nodes": None, "NodeNames": names(size, 42, chance)}
        node = node_of(decoded(connection.ask("filter", json.dumps(said).encode())))
        assert node is not None
        room.acquire()
        thread = threading.Thread(target=_bind, args=(asked, pod, node, room, failures))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    connection.close()
    return failures[0], time.perf_counter() - began


def _bind(
    asked: Asked,
    pod: dict[str, dict[str, str]],
    node: str,
    room: threading.Semaphore,
    failures: list[int],
) -> None:
    metadata = pod["metadata"]
    said = {
        "PodName": metadata["name"],
        "PodNamespace": NAMESPACE,
        "PodUID": metadata["uid"],
        "Node": node,
    }
    connection = Connection(asked.url)
    try:
        answer = json.loads(connection.ask("bind", json.dumps(said).encode()))
        if answer["Error"]:
            failures[0] += 1
    finally:
        connection.close()
        room.release()
