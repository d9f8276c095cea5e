"""Keeps this node's labels and annotations, and changes annotations.

They are watched and never asked for, so at rest nothing is read. The watch tells of a change a
moment after it was made; until then the answer to a change of our own is what is known, so that
nothing is written twice. Versions of one object are ordered as numbers (kubernetes: KEP-5504).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.objects import JsonObject, ObjectKey
from kube.reflector import Pace, Reflector

_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCopy:
    """What is known of a Node."""

    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def version(self) -> int:
        """Return the version as a number; below all others where it is none."""
        return int(self.resource_version) if self.resource_version.isdecimal() else _NONE


class OwnNode:
    """A watch of one Node; `start` it, then `stop` it."""

    def __init__(self, *, client: Client, node_name: str, pace: Pace | None = None) -> None:
        self._client, self._name = client, node_name
        self._key = ObjectKey("", node_name)
        self._listeners: list[Callable[[], None]] = []
        self._answered: NodeCopy | None = None
        self._reflector: Reflector[NodeCopy] = Reflector(
            client,
            paths.nodes(),
            params={"fieldSelector": f"metadata.name={node_name}"},
            decode=_copy,
            on_change=lambda _change: self._tell(),
            pace=pace,
        )

    def listen(self, listener: Callable[[], None]) -> None:
        """Have *listener* called after each change, in the watch's own thread; before `start`."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to read."""
        self._reflector.start()

    def stop(self) -> None:
        """End within a second."""
        self._reflector.stop()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait until the Node has been read, or is known to be gone, and say whether it was."""
        return self._reflector.wait_synced(timeout_s)

    def copy(self) -> NodeCopy | None:
        """Return the newest that is known; `None` where there is no Node."""
        seen = self._reflector.items().get(self._key)
        answered = self._answered
        if seen is None or answered is None or answered.uid != seen.uid:
            return seen
        return answered if answered.version > seen.version else seen

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        """Write annotations, or take those away that are `None`; raises `KubeError`."""
        body = {"metadata": {"annotations": dict(changes)}}
        answer = self._client.patch(paths.nodes(self._name), body, content_type=MERGE_PATCH)
        self._answered = _copy(json.loads(answer))

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def _copy(node: JsonObject) -> NodeCopy:
    metadata = node["metadata"]
    return NodeCopy(
        uid=str(metadata.get("uid", "")),
        resource_version=str(metadata.get("resourceVersion", "")),
        labels=_texts(metadata.get("labels")),
        annotations=_texts(metadata.get("annotations")),
    )


def _texts(found: Any) -> Mapping[str, str]:
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}
