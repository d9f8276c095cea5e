"""The API server of a large cluster: `python -m tests.bench.extender.api_server PORT N K [RATE]`.

Lists are made page by page from the numbers of `tests.bench.extender.cluster`, so nothing is held
and little is computed; watches tell of what is written and of what a benchmark orders. It answers
writes as the real one does as far as an extender looks, and counts them.

Orders come under `/bench/`: `pods` makes the pod in the body known, `churn?rate=N` tells of N pod
events a second (0 ends it), `counts` returns the requests by verb and kind since it was asked last.
HAMi's lock of a node is taken away as soon as its pod is bound, as a device plugin does.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from tests.bench.extender import cluster
from tests.bench.extender.cluster import Size
from tests.bench.extender.serving import length_of, whole

Json = dict[str, Any]

_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_IN_NAMESPACE: Final = "/api/v1/namespaces/"
_LOCK: Final = "hami.io/mutex.lock"
_END: Final = b"\r\n\r\n"
_OPEN: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_PLUGIN_S: Final = 0.002
"""How long a device plugin takes; a real one takes longer."""
_BURSTS_PER_S: Final = 50


class Store:
    """What is known besides the numbers: written pods and nodes, and who watches."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.version = 10_000_000
        self.pods: dict[str, Json] = {}
        """Pods that a benchmark made, by namespace and name."""
        self.nodes: dict[str, Json] = {}
        """Nodes that were written to."""
        self.counts: Counter[str] = Counter()
        self.watchers: dict[str, list[asyncio.Transport]] = {"nodes": [], "pods": []}
        self._numbers = {cluster.node_name(each): each for each in range(size.nodes)}
        self._churning: asyncio.Task[None] | None = None

    def tell(self, kind: str, event: str, item: bytes) -> None:
        """Send an event to all who watch."""
        line = b'{"type":"%b","object":%b}\n' % (event.encode(), item)
        chunk = b"%x\r\n%b\r\n" % (len(line), line)
        watchers = [each for each in self.watchers[kind] if not each.is_closing()]
        self.watchers[kind] = watchers
        for each in watchers:
            each.write(chunk)

    def items(self, kind: str, start: int, count: int) -> Iterator[bytes]:
        """Yield objects by number."""
        size = self.size
        end = min(start + count, size.nodes if kind == "nodes" else size.pods)
        for number in range(start, end):
            yield cluster.node(number) if kind == "nodes" else cluster.bound_pod(number, size)

    def node(self, name: str) -> Json | None:
        """Return a node as it is now."""
        if name not in self.nodes:
            number = self._numbers.get(name)
            if number is None:
                return None
            self.nodes[name] = json.loads(cluster.node(number))
        return self.nodes[name]

    def put_pod(self, pod: Json, event: str) -> bytes:
        """Keep a pod and tell of it."""
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.pods[_key(pod["metadata"]["namespace"], pod["metadata"]["name"])] = pod
        body = json.dumps(pod).encode()
        self.tell("pods", event, body)
        return body

    def put_node(self, node: Json) -> bytes:
        """Keep a node and tell of it."""
        self.version += 1
        node["metadata"]["resourceVersion"] = str(self.version)
        body = json.dumps(node).encode()
        self.tell("nodes", "MODIFIED", body)
        return body

    def churn(self, rate: float) -> None:
        """Tell of pods that come and go."""
        if self._churning is not None:
            self._churning.cancel()
            self._churning = None
        if rate:
            self._churning = asyncio.get_running_loop().create_task(self._churn(rate))

    async def _churn(self, rate: float) -> None:
        loop = asyncio.get_running_loop()
        began_s, told = loop.time(), 0
        while True:
            due = int((loop.time() - began_s) * rate)
            while told < due:
                self._come_or_go(told)
                told += 1
            await asyncio.sleep(1 / _BURSTS_PER_S)

    def _come_or_go(self, told: int) -> None:
        turn, going = divmod(told, 2)
        node = turn * 7919 % self.size.nodes
        self.version += 1
        pod = cluster.running_pod(
            name=f"comes-{turn}",
            uid=f"{turn:08x}-0000-4000-8000-00000000beef",
            version=self.version,
            node_of=cluster.node_name(node),
            devices=f"{cluster.uuid(node, turn % cluster.GPUS)},NVIDIA,1000,0:;",
        )
        self.tell("pods", "DELETED" if going else "ADDED", pod)


class Connection(asyncio.Protocol):
    """One connection of whoever asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begun = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._begun += data
        while (end := self._begun.find(_END)) >= 0:
            head = bytes(self._begun[:end])
            until = end + len(_END) + length_of(head)
            if len(self._begun) < until:
                return
            body = bytes(self._begun[end + len(_END) : until])
            del self._begun[:until]
            method, target, _ = head.decode().split(" ", 2)
            self._transport.write(self._answer(method, target, body))

    def _answer(self, method: str, target: str, body: bytes) -> bytes:
        said = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(said.query).items()}
        if said.path.startswith("/bench/"):
            return self._order(said.path.removeprefix("/bench/"), query, body)
        self._store.counts[f"{method} {_kind(said.path)}"] += 1
        if method == "GET":
            return self._read(said.path, query)
        return self._write(method, said.path, json.loads(body) if body else {})

    def _order(self, word: str, query: dict[str, str], body: bytes) -> bytes:
        store = self._store
        match word:
            case "pods":
                store.put_pod(json.loads(body), "ADDED")
            case "churn":
                store.churn(float(query["rate"]))
            case "counts":
                counts, store.counts = store.counts, Counter()
                return whole(200, json.dumps(counts).encode())
            case _:
                return whole(404, b"{}")
        return whole(200, b"{}")

    def _read(self, path: str, query: dict[str, str]) -> bytes:
        store, kind = self._store, {_NODES: "nodes", _PODS: "pods"}.get(path)
        if query.get("watch") in {"true", "1"}:
            if kind:
                store.watchers[kind].append(self._transport)
            return _OPEN
        if kind:
            return self._page(kind, query)
        if path == "/version":
            return whole(200, b'{"gitVersion":"v1.33.4","major":"1","minor":"33"}')
        found = self._found(path)
        if found is not None:
            return whole(200, json.dumps(found).encode())
        if path.count("/") in {3, 4, 5} and not path.startswith(f"{_NODES}/"):
            return whole(200, b'{"metadata":{"resourceVersion":"1"},"items":[]}')
        return whole(404, b'{"kind":"Status","code":404,"reason":"NotFound","message":"none"}')

    def _page(self, kind: str, query: dict[str, str]) -> bytes:
        start = int(query.get("continue") or 0)
        total = self._store.size.nodes if kind == "nodes" else self._store.size.pods
        count = int(query.get("limit") or total)
        listed = b",".join(self._store.items(kind, start, count))
        more = f',"continue":"{start + count}"' if start + count < total else ""
        head = f'{{"metadata":{{"resourceVersion":"9999999"{more}}},"items":['
        return whole(200, head.encode() + listed + b"]}")

    def _found(self, path: str) -> Json | None:
        if path.startswith(f"{_NODES}/"):
            return self._store.node(path.removeprefix(f"{_NODES}/"))
        if path.startswith(_IN_NAMESPACE) and "/pods/" in path:
            namespace, _, name = path.removeprefix(_IN_NAMESPACE).split("/")[:3]
            return self._store.pods.get(_key(namespace, name))
        return None

    def _write(self, method: str, path: str, body: Json) -> bytes:
        store = self._store
        if path.endswith("/binding"):
            return self._bind(path.removesuffix("/binding"), body)
        found = self._found(path)
        if found is None:
            status = 201 if method == "POST" else 404
            return whole(status, json.dumps(body).encode())
        _merge(found["metadata"], body.get("metadata") or {})
        if path.startswith(f"{_NODES}/"):
            return whole(200, store.put_node(found))
        return whole(200, store.put_pod(found, "MODIFIED"))

    def _bind(self, path: str, binding: Json) -> bytes:
        pod = self._found(path)
        if pod is None:
            return whole(404, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        node = binding["target"]["name"]
        pod["spec"]["nodeName"] = node
        self._store.put_pod(pod, "MODIFIED")
        asyncio.get_running_loop().call_later(_PLUGIN_S, self._unlock, node)
        return whole(201, b'{"kind":"Status","status":"Success"}')

    def _unlock(self, name: str) -> None:
        node = self._store.node(name)
        if node is not None and node["metadata"]["annotations"].pop(_LOCK, None):
            self._store.put_node(node)


def _merge(metadata: Json, patch: Json) -> None:
    for key in ("annotations", "labels"):
        kept = metadata.setdefault(key, {})
        for name, value in (patch.get(key) or {}).items():
            if value is None:
                kept.pop(name, None)
            else:
                kept[name] = value


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _kind(path: str) -> str:
    parts = path.strip("/").split("/")
    if parts[-1] == "binding":
        return "binding"
    known = ("nodes", "pods", "events", "leases", "resourcequotas")
    return next((part for part in reversed(parts) if part in known), parts[-1])


async def serve(port: int, size: Size, rate: float) -> None:
    """Answer until the process is ended."""
    store = Store(size)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(store), "127.0.0.1", port, backlog=128)
    store.churn(rate)
    sys.stdout.write(f"serving {size}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    _port, _nodes, _pods = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    _rate = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    asyncio.run(serve(_port, Size(nodes=_nodes, pods_per_gpu=_pods), _rate))
