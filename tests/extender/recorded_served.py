"""The extender's program, asked over a socket, beside a simulated API server."""

import json
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from itertools import count
from typing import Any, Final, Protocol

from extender.choosing_parts import state_parts
from extender.parts import Parts, Surroundings
from extender.program import Program
from extender.settings import ExtenderSettings
from hami.deviceconfig import DeviceConfig
from hami.vendors import from_sections
from kube.client import MERGE_PATCH, Client
from kube.config import ClientConfig
from kube.errors import NotFoundError
from kube.paths import namespaces, nodes, pods, resource
from sim.apiserver.server import ApiServer
from sim.loopthread import LoopThread
from tests.extender.recorded import Amounts, Json
from tests.fakes.api_server import serving
from tests.patience import eventually

_HOST: Final = "127.0.0.1"
_CONFIG: Final = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))
_UNSEEN: Final = "not found"
"""What a binding says of a pod that the watch has not told of yet."""
_GAUGE: Final = re.compile(r"^(hami_gpu_\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_SLOTS: Final = "hami_gpu_shared_count"
_BYTES: Final = "hami_gpu_memory_allocated_bytes"
_CORES: Final = "hami_gpu_core_allocated_ratio"
_MIB: Final = 2**20


class Host(Protocol):
    """A simulated API server in a thread of its own, alone or in a cluster."""

    server: ApiServer

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call *function* in its loop."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run *work* in its loop."""


def client_of(host: Host, user: str) -> Client:
    """Return a client of *user*."""
    return Client(identity_of(host, user), user_agent="test")


def identity_of(host: Host, user: str) -> ClientConfig:
    """Return what makes a client one of *user*."""
    token: str = host.call(host.server.token_for, user)
    return ClientConfig(host=host.server.url, token=lambda: token)


class Served:
    """A program that serves in a thread of its own, and its API server."""

    def __init__(self, server: Host, *, way: str = "", **options: Any) -> None:
        """Serve with *options*; only watches reach the API server itself where there is a *way*."""
        self.server, self._way = server, way
        self.client = client_of(server, "admin")
        self._numbers = count()
        self._identity = identity_of(server, "extender")
        asked: dict[str, Any] = {"port": 0, "leader_elect": False, **options}
        self._settings = ExtenderSettings(
            address=_HOST, metrics_address=_HOST, metrics_port=0, **asked
        )
        self._loop = LoopThread("extender")
        self._loop.start()
        self._program = self._loop.run(self._made())
        self.port, self.metrics_port = self._program.port, self._program.metrics_port
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()
        eventually(self._is_ready)

    def driver(self) -> "ServedDriver":
        """Return a driver for the next scenario."""
        return ServedDriver(self, next(self._numbers))

    def close(self) -> None:
        """End the program."""
        self.client.close()
        self._loop.call(self._program.stop)
        self._serving.join(30)
        self._loop.stop()

    async def _made(self) -> Program:
        identity, make = self._identity, state_parts(_CONFIG)

        def made(surroundings: Surroundings) -> Parts:
            return make(replace(surroundings, client=self.client))

        if not self._way:
            return Program(self._settings, make, identity=identity)
        by_the_way = ClientConfig(host=self._way, token=identity.token)
        return Program(self._settings, made, identity=by_the_way)

    def _serve(self) -> None:
        self._loop.run(self._program.run())

    def ask(self, path: str, body: bytes) -> bytes:
        """Return the answer to a question."""
        connection = HTTPConnection(_HOST, self.port, timeout=60)
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, text
        return text

    def metrics(self) -> str:
        """Return what it counts."""
        connection = HTTPConnection(_HOST, self.metrics_port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def _is_ready(self) -> bool:
        connection = HTTPConnection(_HOST, self.metrics_port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class ServedDriver:
    """One scenario on a program that many share: it has nodes and a namespace of its own."""

    patience_s = 20.0

    def __init__(self, served: Served, number: int) -> None:
        self.prefix = f"s{number:03d}-"
        self._served, self._client = served, served.client
        self._client.create(namespaces(), {"metadata": {"name": f"{self.prefix}team"}})

    def put_node(self, node: Json) -> None:
        """Make or replace a node."""
        name = node["metadata"]["name"]
        try:
            found = json.loads(self._client.get(nodes(name)))
        except NotFoundError:
            self._client.create(nodes(), node)
            return
        found["metadata"]["annotations"] = node["metadata"]["annotations"]
        self._client.replace(nodes(name), found)

    def put_quota(self, quota: Json) -> None:
        """Make a ResourceQuota."""
        namespace = quota["metadata"]["namespace"]
        self._client.create(resource("v1", "resourcequotas", namespace=namespace), quota)

    def put_pod(self, pod: Json) -> Json:
        """Make or replace a pod with its status, and return it as stored, with a UID."""
        metadata = pod["metadata"]
        path = pods(metadata["namespace"])
        if "uid" not in metadata:
            made: Json = json.loads(self._client.create(path, pod))
            if "status" not in pod:
                return made
        patched = self._client.patch(
            f"{path}/{metadata['name']}/status",
            {"status": pod["status"]},
            content_type=MERGE_PATCH,
        )
        found: Json = json.loads(patched)
        return found

    def drop_pod(self, pod: Json) -> None:
        """Delete a pod."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        server = self._served.server
        server.run(server.server.api.delete("pods", name, namespace, grace_period_s=0))

    def filter(self, body: bytes) -> bytes:
        """Return the answer to a question."""
        return self._served.ask("/filter", body)

    def bind(self, pod: Json, node: str) -> Json:
        """Bind and return the pod's metadata as written; `AssertionError` where that fails."""
        metadata = pod["metadata"]
        said = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        body = json.dumps(said).encode()

        def answered() -> str:
            error: str = json.loads(self._served.ask("/bind", body))["Error"]
            return "" if _UNSEEN in error else f"answered: {error}"

        assert eventually(answered, self.patience_s) == "answered: "
        path = f"{pods(metadata['namespace'])}/{metadata['name']}"
        found: Json = json.loads(self._client.get(path))
        assert found["spec"]["nodeName"] == node
        written: Json = found["metadata"]
        return written

    def used(self, node: str) -> Amounts:
        """Return what is taken of the devices of a node, by the metrics."""
        found: dict[str, dict[str, float]] = {}
        for name, labels, value in _GAUGE.findall(self._served.metrics()):
            said = dict(_LABEL.findall(labels))
            if said.get("node") == node:
                found.setdefault(said["device_uuid"], {})[name] = float(value)
        return {
            uuid: (int(gauges[_SLOTS]), int(gauges[_BYTES]) // _MIB, int(gauges[_CORES]))
            for uuid, gauges in found.items()
        }


@contextmanager
def served(**options: Any) -> Iterator[Served]:
    """Run a program with *options*."""
    with serving("1.34") as server:
        running = Served(server, **options)
        try:
            yield running
        finally:
            running.close()
