"""Watches of a real API server fill the state, and what goes wrong on the way is put right."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from extender.state.cluster import Cluster
from extender.state.feeding import Feed, StateMetrics
from extender.state.inbox import Inbox
from hami.containers import JsonObject
from hami.deviceconfig import DeviceConfig
from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.reflector import Pace
from tests.extender.statemachine import container, gpu, node, pod
from tests.fakes.api_server import ServerThread, serving

PACE = Pace(first_wait_s=0.02, max_wait_s=0.1)
_DEADLINE_S = 20.0


async def _until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _DEADLINE_S
    while not true():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.01)


async def _settled(feed: Feed) -> None:
    await _until(lambda: feed.not_synced() is None)


def _with_feed(
    work: Callable[[Client, Cluster, Feed], Awaitable[None]],
    *objects: tuple[str, JsonObject],
) -> None:
    """Run *work* beside a feed from a server that has *objects* already."""

    async def run(server: ServerThread) -> None:
        client, cluster = server.client(), Cluster(DeviceConfig())
        for path, body in objects:
            await asyncio.to_thread(client.create, path, body)
        feed = Feed(cluster, client, StateMetrics(CollectorRegistry()), pace=PACE)
        assert feed.not_synced() == "nodes, pods, resourcequotas not read yet"
        feed.start()
        try:
            await work(client, cluster, feed)
        finally:
            await asyncio.to_thread(feed.stop)

    with serving() as server:
        asyncio.run(run(server))


def _running(name: str, text: str) -> JsonObject:
    found = pod(name, container(gpu=1), namespace="default")
    found["spec"]["containers"][0]["image"] = "app"
    found["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-devices-allocated": text,
    }
    found["spec"]["nodeName"] = "n"
    del found["metadata"]["uid"], found["status"]
    return found


def _node() -> JsonObject:
    found = node("n", [gpu("GPU-a")])
    del found["metadata"]["uid"]
    return found


def _used_mib(cluster: Cluster) -> int:
    place = cluster.places.get("n")
    if place is None or place.usage is None:
        return -1
    return sum(each.used_mib for each in place.usage.devices.get("NVIDIA", ()))


def test_state_follows_nodes_pods_and_quotas() -> None:
    """What was there before the start and what changes afterwards is known."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "5k"}},
    }

    async def work(client: Client, cluster: Cluster, feed: Feed) -> None:
        await _settled(feed)
        assert _used_mib(cluster) == 3000
        assert cluster.room("default").left("NVIDIA") == (2000, None)
        second = _running("second", "GPU-a,NVIDIA,1000,0:;")
        await asyncio.to_thread(client.create, paths.pods("default"), second)
        await _until(lambda: _used_mib(cluster) == 4000)
        ended = {"status": {"phase": "Succeeded"}}
        path = paths.pods("default", "first", "status")
        await asyncio.to_thread(partial(client.patch, path, ended, content_type=MERGE_PATCH))
        await _until(lambda: _used_mib(cluster) == 1000)
        note = {"metadata": {"annotations": {"hami.io/device-cordon": "GPU-a"}}}
        patch = partial(client.patch, paths.nodes("n"), note, content_type=MERGE_PATCH)
        await asyncio.to_thread(patch)
        await _until(lambda: _cordoned(cluster))
        await asyncio.to_thread(client.delete, paths.nodes("n"))
        await _until(lambda: _used_mib(cluster) == -1)

    _with_feed(
        work,
        (paths.nodes(), _node()),
        (paths.resource("v1", "resourcequotas", namespace="default"), quota),
        (paths.pods("default"), _running("first", "GPU-a,NVIDIA,3000,0:;")),
    )


def _cordoned(cluster: Cluster) -> bool:
    place = cluster.places.get("n")
    return bool(place and place.node and place.node.annotations.get("hami.io/device-cordon"))


def test_pods_without_devices_are_not_kept() -> None:
    """Pods that neither ask for devices nor have any are nobody's business."""
    plain = _running("plain", "")
    plain["metadata"]["annotations"] = {}
    plain["spec"]["containers"] = [{"name": "c", "image": "app"}]

    async def work(client: Client, cluster: Cluster, feed: Feed) -> None:
        del client
        await _settled(feed)
        assert not list(cluster.holders())

    _with_feed(work, (paths.pods("default"), plain))


def test_catching_up_takes_in_what_was_written_before() -> None:
    """After catching up a pod that another leader wrote just before is known."""

    async def work(client: Client, cluster: Cluster, feed: Feed) -> None:
        await _settled(feed)
        fresh = _running("fresh", "GPU-a,NVIDIA,1000,0:;")
        await asyncio.to_thread(client.create, paths.pods("default"), fresh)
        await feed.catch_up()
        assert _used_mib(cluster) == 1000

    _with_feed(work, (paths.nodes(), _node()))


def test_audit_finds_and_replaces_what_is_wrong() -> None:
    """Use that was lost, and a pod whose deletion was, are put right and counted."""

    async def work(client: Client, cluster: Cluster, feed: Feed) -> None:
        del client
        await _settled(feed)
        place = cluster.places.get("n")
        assert place is not None
        assert place.usage is not None
        place.usage.devices["NVIDIA"][0].used_mib = 1
        cluster.bounds.replace_used("default", {})
        await feed.audit_once()
        assert _used_mib(cluster) == 3000
        assert cluster.bounds.used() == {"default": {"NVIDIA": (3000, 0)}}
        ghost = next(holder.pod for _, holder in cluster.holders() if holder.pod)
        cluster.drop_pod(ghost)
        cluster.put_pod(replace(ghost, uid="ghost"))
        await feed.audit_once()
        assert _used_mib(cluster) == 3000
        await feed.audit_once()
        assert _used_mib(cluster) == 0
        metrics = feed._metrics
        assert metrics.wrong.labels("node")._value.get() == 1
        assert metrics.wrong.labels("namespace")._value.get() == 1
        assert metrics.orphans._value.get() == 1

    _with_feed(
        work,
        (paths.nodes(), _node()),
        (paths.pods("default"), _running("first", "GPU-a,NVIDIA,3000,0:;")),
    )


def test_inbox_keeps_the_order_and_gives_others_a_turn() -> None:
    """Steps of threads run in their order, and long queues let other work in between."""

    async def run() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        seen: list[int] = []
        turns: list[int] = []

        def step(number: int) -> None:
            seen.append(number)
            time.sleep(0.0002)

        def fill() -> None:
            for number in range(100):
                inbox.put(partial(step, number))

        thread = threading.Thread(target=fill)
        thread.start()
        while len(seen) < 100:
            await asyncio.sleep(0)
            turns.append(len(seen))
        thread.join()
        assert seen == list(range(100))
        assert len({turn for turn in turns if 0 < turn < 100}) > 3

    asyncio.run(run())


def test_step_that_raises_does_not_stop_the_others() -> None:
    """A change that cannot be taken is left out."""

    async def run() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        done = asyncio.Event()

        def fails() -> None:
            raise ValueError

        inbox.put(fails)
        inbox.put(done.set)
        await asyncio.wait_for(done.wait(), _DEADLINE_S)
        assert not len(inbox)

    asyncio.run(run())


def test_inbox_of_an_ended_loop_takes_nothing() -> None:
    """A thread that outlives the loop is not disturbed."""
    loop = asyncio.new_event_loop()
    inbox = Inbox(loop)
    loop.close()
    inbox.put(pytest.fail)
