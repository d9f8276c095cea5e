"""A node in one loop for kubelet's tests: registry, runtime and kubelet, no scheduler."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sim.apiserver import versions
from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError
from sim.apiserver.registry import Registry
from sim.apiserver.storage import Store
from sim.kubelet.kubelet import Kubelet, KubeletConfig
from sim.kubelet.release import release
from sim.kubelet.timing import Timing
from sim.runtime.container import ContainerView
from sim.runtime.runtime import Runtime
from tests.sim.kubelet.plugin_server import DRIVER, PluginServer

JsonObject = dict[str, Any]

NODE = "node-a"
QUICK = Timing(
    poll_s=0.02,
    registration_backoff_s=0.1,
    wipe_after_s=0.4,
    wipe_backoff_s=0.1,
    reconcile_s=0.2,
    sync_backoff_s=0.05,
    sync_backoff_max_s=0.2,
    health_retry_s=0.1,
)
DEADLINE_S = 20
PREPARE_FAILED = "FailedPrepareDynamicResources"


class Scene:
    """One node and the objects that concern it."""

    def __init__(self, directory: Path, *, version: str, timing: Timing) -> None:
        self.root = directory
        self.kubelet_root = directory / "k"
        registry = Registry(Store(1000), versions.version("1.37"), lambda _: None)
        self.api = Api(registry)
        self.runtime = Runtime(root=directory, containers_dir=directory / "containers")
        config = KubeletConfig(
            node=NODE, root=self.kubelet_root, release=release(version), timing=timing, seed=1
        )
        self.kubelet = Kubelet(self.api, self.runtime, config)
        self.plugins: list[PluginServer] = []

    def plugin(self, **settings: Any) -> PluginServer:
        """Start a plugin; it is stopped with the scene."""
        server = PluginServer(self.kubelet_root, **settings).start()
        self.plugins.append(server)
        return server

    async def registered(self, plugin: PluginServer) -> PluginServer:
        """Wait until kubelet uses *plugin* and its connection is up."""
        await until(lambda: self._connected(plugin))
        await until(lambda: (True, "") in plugin.statuses)
        return plugin

    def _connected(self, plugin: PluginServer) -> bool:
        process = self.kubelet._process
        known = process.plugins.instances(plugin.driver) if process else []
        return any(one.connected and one.info.endpoint == str(plugin.socket) for one in known)

    def endpoints(self, driver: str = DRIVER) -> list[str]:
        """Return the endpoints that kubelet uses for *driver*."""
        return self.kubelet.registered_drivers().get(driver, [])

    async def claim(self, name: str, *drivers: str, owner: JsonObject | None = None) -> JsonObject:
        """Create an allocated claim with one device of each driver, `gpu.example.com` if none."""
        meta: JsonObject = {"name": name, "namespace": "default"}
        if owner is not None:
            meta["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
        body = {"metadata": meta, "spec": {"devices": {"requests": requests}}}
        stored = await self.api.create("resourceclaims", body)
        results = [
            {"request": "gpu", "driver": driver, "pool": "pool", "device": f"dev-{name}"}
            for driver in drivers or (DRIVER,)
        ]
        stored["status"] = {"allocation": {"devices": {"results": results}}}
        return await self.api.update("resourceclaims", stored, subresource="status")

    async def ready_claim(self, name: str, *drivers: str) -> str:
        """Create an allocated claim whose CDI device exists, and return its UID."""
        stored = await self.claim(name, *drivers)
        uid = str(stored["metadata"]["uid"])
        self.spec_file(uid)
        return uid

    async def pod(
        self, name: str, *claims: str, uses: dict[str, str] | None = None, **spec: Any
    ) -> JsonObject:
        """Create a pod whose container uses *claims*, reserve these for it and bind it."""
        use = [{"name": claim, **_request(uses, claim)} for claim in claims]
        container = {"name": "app", "image": "image", "resources": {"claims": use}}
        annotations = spec.pop("annotations", {})
        body: JsonObject = {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {
                "containers": [container],
                "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
                **spec,
            },
        }
        stored = await self.api.create("pods", body)
        for claim in claims:
            await self.reserve(claim, stored)
        await self.api.bind(name, "default", node=NODE)
        return stored

    async def running_pod(self, name: str = "pod") -> tuple[PluginServer, str, JsonObject]:
        """Run a pod with the claim `claim`; return the plugin, the claim's UID and the pod."""
        plugin = await self.registered(self.plugin())
        uid = await self.ready_claim("claim")
        pod = await self.pod(name, "claim")
        await self.reaches(name, "Running")
        return plugin, uid, pod

    async def reserve(self, claim: str, pod: JsonObject) -> None:
        """Add *pod* to the users of *claim*."""
        stored = await self.api.get("resourceclaims", claim, "default")
        meta = pod["metadata"]
        user = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        stored["status"].setdefault("reservedFor", []).append(user)
        await self.api.update("resourceclaims", stored, subresource="status")

    def spec_file(self, uid: str) -> None:
        """Write a CDI spec for the device that a plugin names after a claim."""
        edits = {"env": [f"CLAIM={uid}"]}
        document = {
            "cdiVersion": "0.5.0",
            "kind": "example.com/gpu",
            "devices": [{"name": uid, "containerEdits": edits}],
        }
        path = self.root / "var/run/cdi" / f"{uid}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")

    async def phase(self, pod: str) -> str | None:
        """Return a pod's phase; `None` when there is no such pod."""
        try:
            stored = await self.api.get("pods", pod, "default")
        except StatusError:
            return None
        return str(stored["status"].get("phase"))

    async def reaches(self, pod: str, phase: str | None) -> None:
        """Wait until *pod* is in *phase*; `None` waits for its end."""
        async with asyncio.timeout(DEADLINE_S):
            while await self.phase(pod) != phase:  # noqa: ASYNC110 - the server is polled
                await asyncio.sleep(0.01)

    async def events(self, reason: str) -> list[str]:
        """Return the messages of all events of *reason*."""
        events, _ = await self.api.list("events")
        return [event["message"] for event in events if event["reason"] == reason]

    async def told(self, reason: str, part: str) -> str:
        """Wait for an event of *reason* with *part* in its message and return that."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for message in await self.events(reason):
                    if part in message:
                        return message
                await asyncio.sleep(0.01)

    def container(self, pod: JsonObject, name: str = "app") -> ContainerView | None:
        """Return a container of *pod*."""
        return self.runtime.find(pod["metadata"]["uid"], name)

    def checkpoint(self) -> list[JsonObject]:
        """Return the claims in kubelet's checkpoint."""
        path = self.kubelet_root / "dra_manager_state"
        claims: list[JsonObject] = json.loads(path.read_bytes())["claims"]
        return claims


def _request(uses: dict[str, str] | None, claim: str) -> dict[str, str]:
    return {"request": uses[claim]} if uses and claim in uses else {}


@asynccontextmanager
async def scene(*, version: str = "1.37", timing: Timing = QUICK) -> AsyncIterator[Scene]:
    """Run a node; its directory has a short path, as unix sockets demand."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    made = Scene(directory, version=version, timing=timing)
    namespace = {"metadata": {"name": "default"}}
    try:
        await made.api.create("namespaces", namespace)
        await made.kubelet.start()
        yield made
    finally:
        await made.kubelet.stop()
        for plugin in made.plugins:
            await asyncio.to_thread(plugin.stop)
        shutil.rmtree(directory)


async def until(predicate: Callable[[], object]) -> None:
    """Wait until *predicate* holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not predicate():  # noqa: ASYNC110 - threads change what is looked at
            await asyncio.sleep(0.01)
