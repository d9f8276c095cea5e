"""Lists and watch streams, as a server or a proxy before it may send them."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from urllib3.response import HTTPResponse

from kube.client import Client
from kube.config import ClientConfig
from kube.errors import KubeError
from kube.objects import JsonObject, ObjectKey
from kube.reflector import _WAITED_OUT, Reflector
from kube.watch import Watch
from tests.fuzz.mutation import spoiled_bytes, spoiled_text
from tests.fuzz.running import expect


def _object(name: str, version: str) -> JsonObject:
    metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}", "resourceVersion": version}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "node-1"}}


_LIST: Final[JsonObject] = {
    "kind": "PodList",
    "metadata": {"resourceVersion": "10"},
    "items": [_object("one", "8"), _object("two", "9")],
}
_EVENTS: Final[tuple[JsonObject, ...]] = (
    {"type": "ADDED", "object": _object("three", "11")},
    {"type": "MODIFIED", "object": _object("two", "12")},
    {"type": "DELETED", "object": _object("one", "13")},
    {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "14"}}},
    {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
    },
)
_GOOD: Final = json.dumps(_LIST).encode()
_GOOD_LINES: Final = b"".join(json.dumps(each).encode() + b"\n" for each in _EVENTS[:4])
_AFTER: Final = {ObjectKey("a", "two"): "12", ObjectKey("a", "three"): "11"}


class StreamClient(Client):
    """Answers lists and watches with bytes from memory."""

    def __init__(self, answer: bytes, stream: bytes) -> None:
        """Prepare the one *answer* and the one *stream*."""
        super().__init__(ClientConfig(host="http://127.0.0.1:1"), user_agent="fuzz")
        self.answer, self.stream = answer, stream

    def get(self, _path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return the answer, without a next page for ever."""
        if params and "continue" in params:
            return b'{"metadata": {"resourceVersion": "10"}}'
        return self.answer

    def watch(self, path: str, _params: Mapping[str, str], *, timeout_s: float) -> Watch:  # noqa: ARG002
        """Return the stream."""
        return Watch(HTTPResponse(body=io.BytesIO(self.stream), preload_content=False), path)


def _version_of(item: JsonObject) -> str:
    return str(item["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class WatchLines:
    """Lists and streams near those of a server."""

    expected: tuple[type[Exception], ...] = field(default=_WAITED_OUT)
    name: str = "watch-lines"
    weight: int = 6

    def make(self, rng: Random) -> dict[str, bytes]:
        """Return a list and a stream."""
        answer, lines = _GOOD, []
        if rng.random() < 0.4:
            answer = spoiled_text(rng, _LIST, donor=_EVENTS[0])
        for _ in range(rng.randint(0, 4)):
            event = rng.choice(_EVENTS)
            good = json.dumps(event).encode()
            lines.append(good if rng.random() < 0.4 else spoiled_text(rng, event, donor=_LIST))
        stream = b"\n".join([*lines, b""])
        if stream and rng.random() < 0.1:
            stream = spoiled_bytes(rng, stream)
        return {"list": answer, "stream": stream}

    def check(self, sample: dict[str, bytes]) -> bool:
        """Follow the stream, or fail by an error that is waited out; then follow a good one."""
        client = StreamClient(sample.get("list", b""), sample.get("stream", b""))
        reflector = Reflector(client, "/pods", params={}, decode=_version_of)
        taken = True
        try:
            reflector._list_and_watch()
        except self.expected as error:
            taken = False
            if isinstance(error, KubeError):
                str(error).encode(errors="backslashreplace")
        for key, item in reflector.items().items():
            expect(type(key.name) is type(item) is str, f"an odd object: {key}")
        client.answer, client.stream = _GOOD, _GOOD_LINES
        reflector._version = None
        reflector._list_and_watch()
        expect(reflector.items() == _AFTER, f"other objects: {reflector.items()}")
        return taken

    def close(self) -> None:
        """Do nothing: nothing is held."""
