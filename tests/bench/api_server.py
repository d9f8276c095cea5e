"""An API server that has all its answers ready: `python -m tests.bench.api_server`.

It runs in a process of its own, speaks TLS, wants a bearer token and keeps connections open, so
that the agent does all of its work; its own is a look-up, for it shares the machine with what is
measured. Slices that are written are given back as they came. Watches stay silent.

Its first line on stdout is its port; after it come a line for each write.
"""

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import Any, cast

from tests.bench.claims import NAMESPACE, NODE

_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/"
_END = b"\r\n\r\n"
_OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_UID = "6f0c1f3a-8f4e-4d5b-9a59-0a52c3e3c1a7"


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    """Return the answer that carries *body*."""
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


class Answers:
    """What to say to each request line."""

    def __init__(self, token: str, claims: dict[str, str]) -> None:
        self.authorization = b"Bearer " + token.encode()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": _UID}}
        self.ready = {
            f"{_CLAIMS}{name}".encode(): whole(body.encode()) for name, body in claims.items()
        }
        self.ready[f"/api/v1/nodes/{NODE}".encode()] = whole(json.dumps(node).encode())
        group = {"kind": "APIGroup", "versions": [{"version": "v1"}]}
        self.ready[b"/apis/resource.k8s.io"] = whole(json.dumps(group).encode())
        self.ready[b"/version"] = whole(b'{"gitVersion":"v1.36.2"}')
        self._slices: dict[str, Any] = {}

    def of(self, method: bytes, target: bytes, body: bytes) -> bytes:
        """Return the answer; a watch is only begun."""
        if method == b"GET":
            return self.ready.get(target) or self._read(target.decode())
        path, _, query = target.decode().partition("?")
        stored = json.loads(body)
        if path.startswith(_SLICES) and "dryRun" not in query:
            self._store(stored)
        sys.stdout.write(f"{method.decode()} {target.decode()}\n")
        sys.stdout.flush()
        return whole(json.dumps(_named(stored)).encode(), b"201 Created")

    def _read(self, target: str) -> bytes:
        path, _, query = target.partition("?")
        if "watch=true" in query:
            return _OPEN
        items = list(self._slices.values()) if path == _SLICES else []
        listed = {"metadata": {"resourceVersion": "1000"}, "items": items}
        return whole(json.dumps(listed).encode())

    def _store(self, item: dict[str, Any]) -> None:
        named = _named(item)
        self._slices[named["metadata"]["name"]] = named


def _named(item: dict[str, Any]) -> dict[str, Any]:
    metadata = item["metadata"]
    made = {
        "name": metadata.get("name") or f"{metadata.get('generateName', '')}made",
        "uid": _UID,
        "resourceVersion": "1001",
    }
    return {**item, "metadata": metadata | made}


class Connection(asyncio.Protocol):
    """One connection of the agent."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._begun = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._begun += data
        while _END in self._begun:
            head, _, rest = self._begun.partition(_END)
            size = _length(head)
            if len(rest) < size:
                return
            self._begun = rest[size:]
            self._transport.write(self._answer(head, rest[:size]))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if self._answers.authorization not in head:
            return whole(b'{"kind":"Status","code":401}', b"401 Unauthorized")
        method, target, _ = head.split(b" ", 2)
        return self._answers.of(method, target, body)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == b"content-length":
            return int(value)
    return 0


async def serve(settings: dict[str, Any]) -> None:
    """Answer until the process is ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings["certificate"])
    answers = Answers(settings["token"], settings["claims"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(answers), "127.0.0.1", 0, ssl=context, backlog=128
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
