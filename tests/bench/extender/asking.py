"""Ask an extender as kube-scheduler does: one question at a time over a connection that stays."""

import json
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.figures import percentile

_TIMEOUT_S: Final = 120.0


class Connection:
    """A connection that stays open, with no more work for the client than necessary."""

    def __init__(self, url: str) -> None:
        said = urlsplit(url)
        self._host = said.netloc
        self._path = said.path.rstrip("/")
        port = said.port or 80
        self._socket = socket.create_connection((said.hostname, port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, verb: str, body: bytes) -> bytes:
        """Send one question and return the answer's body; raises `OSError`."""
        head = (
            f"POST {self._path}/{verb} HTTP/1.1\r\nHost: {self._host}\r\n"
            "User-Agent: Go-http-client/1.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nAccept-Encoding: identity\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        return self._answer()

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _answer(self) -> bytes:
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        head, rest = bytes(received[:end]).lower(), received[end + 4 :]
        if not head.startswith(b"http/1.1 200"):
            raise OSError(head.decode())
        _, _, told = head.partition(b"content-length: ")
        if not told:
            return self._chunks(rest)
        length = int(told.partition(b"\r\n")[0])
        while len(rest) < length:
            rest += self._more()
        return bytes(rest)

    def _chunks(self, rest: bytearray) -> bytes:
        """Read a body of unknown length, which a server in Go sends when it is long."""
        while not rest.endswith(b"0\r\n\r\n"):
            rest += self._more()
        found = bytearray()
        while True:
            size, _, after = bytes(rest).partition(b"\r\n")
            length = int(size, 16)
            if not length:
                return bytes(found)
            found += after[:length]
            rest = bytearray(after[length + 2 :])

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            message = "the server has closed the connection"
            raise OSError(message)
        return data


@dataclass(slots=True)
class Took:
    """How long answers took, in milliseconds."""

    ms: list[float] = field(default_factory=list)
    chosen: int = 0
    """How many of them named a node."""
    bytes_out: int = 0
    """The longest answer."""

    def percentile(self, percent: float) -> float:
        """Return a percentile of the times."""
        return percentile(self.ms, percent)


def filter_all(connection: Connection, bodies: Iterable[bytes]) -> Took:
    """Ask all *bodies*, which are made beforehand, and return what the answers took."""
    took = Took()
    answers = []
    for body in tuple(bodies):
        began = time.perf_counter()
        answer = connection.ask("filter", body)
        took.ms.append((time.perf_counter() - began) * 1000)
        answers.append(answer)
    for answer in answers:
        said = decoded(answer)
        took.chosen += bool(node_of(said))
        took.bytes_out = max(took.bytes_out, len(answer))
    return took


def decoded(answer: bytes) -> dict[str, Any]:
    """Read an answer; one with an error ends the run."""
    said: dict[str, Any] = json.loads(answer)
    if said.get("Error"):
        raise AssertionError(said["Error"])
    return said


def node_of(said: dict[str, Any]) -> str | None:
    """Return the node that was chosen."""
    if said.get("NodeNames"):
        return str(said["NodeNames"][0])
    items = (said.get("Nodes") or {}).get("items") or []
    return str(items[0]["metadata"]["name"]) if items else None
