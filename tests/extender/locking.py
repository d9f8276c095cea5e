"""A simulated cluster whose nodes are locked and whose pods are bound."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from extender.binding import Binder, BindPace
from extender.calls import Calls
from extender.locks import NodeLocks, Wanted
from extender.metrics import Metrics
from extender.wire import BindingArgs
from hami import nodelock
from hami.nodelock import Owner
from hami.vendors import Lock
from kube.client import MERGE_PATCH, Client
from kube.config import ClientConfig
from kube.events import EventRecorder
from kube.objects import JsonObject
from kube.paths import nodes, pods
from tests.extender.forgetful import Way, forgetful
from tests.extender.standins import MemoryState, Switch, following, open_gate, reservation
from tests.fakes.api_server import ServerThread, serving

LOCK = "hami.io/mutex.lock"
MLU_LOCK = "cambricon.com/dsmlu.lock"


@dataclass
class Scene:
    """All that a binding touches."""

    server: ServerThread
    client: Client
    state: MemoryState
    metrics: Metrics
    calls: Calls
    locks: NodeLocks
    binder: Binder
    switch: Switch
    way: Way
    """By which bindings reach the API server."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of pods as they were created, by UID."""

    async def create_node(self, name: str, **annotations: str) -> None:
        """Create a node and wait until it is seen."""
        item = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": annotations},
        }
        await asyncio.to_thread(self.client.create, nodes(), item)
        await until(lambda: name in self.state.nodes)

    async def create_pod(self, name: str, **spec: Any) -> str:
        """Create a pod, wait until it is seen, and return its UID."""
        item = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        }
        made = json.loads(await asyncio.to_thread(self.client.create, pods("default"), item))
        await until(lambda: ("default", name) in self.state.pods)
        uid: str = made["metadata"]["uid"]
        self.versions[uid] = made["metadata"]["resourceVersion"]
        return uid

    async def reserved(self, name: str, node: str = "gpu1", **options: Any) -> BindingArgs:
        """Create a pod with a reservation and return what kube-scheduler would ask."""
        uid = await self.create_pod(name)
        version = self.versions[uid]
        self.state.reserve(reservation(name, node, uid=uid, version=version, **options))
        return BindingArgs(pod_name=name, pod_namespace="default", pod_uid=uid, node=node)

    async def lock_of(self, node: str = "gpu1", key: str = LOCK) -> str | None:
        """Return a lock as the API server has it."""
        item = await self.get("nodes", node, None)
        value: str | None = (item["metadata"].get("annotations") or {}).get(key)
        return value

    async def set_lock(self, value: str | None, node: str = "gpu1", key: str = LOCK) -> None:
        """Write or remove a lock as somebody else would, and wait until that is seen."""
        body = {"metadata": {"annotations": {key: value}}}
        await asyncio.to_thread(self.client.patch, nodes(node), body, content_type=MERGE_PATCH)
        await until(lambda: (self.state.nodes[node].locks.get(Lock(key)) or None) == value)

    async def remove_lock(self, node: str = "gpu1") -> None:
        """Remove the lock as a device plugin does."""
        body = {"metadata": {"annotations": {LOCK: None}}}
        await asyncio.to_thread(self.client.patch, nodes(node), body, content_type=MERGE_PATCH)

    async def get(self, plural: str, name: str, namespace: str | None = "default") -> JsonObject:
        """Return an object."""
        found: JsonObject = await asyncio.to_thread(
            self.server.run, self.server.server.api.get(plural, name, namespace)
        )
        return found

    def writes(self) -> list[str]:
        """Return the changing requests so far, without Events and what tests prepare."""
        return [
            f"{each.verb} {each.path}"
            for each in self.server.call(lambda: self.server.server.requests)
            if each.verb not in {"GET", "LIST", "WATCH", "get", "list", "watch"}
            and "/events" not in each.path
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def scene(
    *, lock_wait_s: float = 20.0, settle_s: float = 0.05, tells_success: bool = False
) -> AsyncIterator[Scene]:
    """Run everything."""
    with serving() as server, forgetful(server.server.url) as (way, url):
        client, metrics = server.client("extender"), Metrics()
        token = server.call(server.server.token_for, "extender")
        state, switch = MemoryState(), Switch()
        busy = set[str]()
        calling = Client(ClientConfig(host=url, token=lambda: token), user_agent="test")
        calls = Calls(calling, metrics)
        locks = NodeLocks(calls, state, metrics, expire_s=300, bind_max_s=35, busy=busy)
        events = EventRecorder(client, "hami-scheduler", "host")
        with following(state, client):
            binder = Binder(
                state=state,
                gate=await open_gate(state, metrics, switch),
                calls=calls,
                locks=locks,
                metrics=metrics,
                events=events,
                pace=BindPace(lock_wait_s=lock_wait_s, settle_s=settle_s),
                busy=busy,
                tells_success=tells_success,
            )
            yield Scene(
                server=server,
                client=client,
                state=state,
                metrics=metrics,
                calls=calls,
                locks=locks,
                binder=binder,
                switch=switch,
                way=way,
            )
        events.close()
        calls.close()
        calling.close()
        client.close()


def wanted(
    name: str = "p", uid: str = "u", kinds: frozenset[Lock] = frozenset({Lock.SHARED})
) -> Wanted:
    """Return what a pod of the default namespace wants of gpu1."""
    return Wanted(node="gpu1", uid=uid, owner=Owner("default", name), kinds=kinds)


def lock_value(name: str, age_s: float = 0.0) -> str:
    """Return a lock of a pod of the default namespace that was set so long ago."""
    at = datetime.now(UTC) - timedelta(seconds=age_s)
    return nodelock.encode(nodelock.NodeLock(at=at, owner=Owner("default", name)))


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a test looks
            await asyncio.sleep(0.005)
