"""Keeps the Node object of this node: what else it offers stands in its status.

Kubelet lists up to 50 images in there and the server who wrote which field; both are of no use
here and would be most of what is kept.
"""

from collections.abc import Callable

from kube import paths
from kube.client import Client
from kube.objects import JsonObject, ObjectKey
from kube.reflector import Pace, Reflector


class NodeWatch:
    """A watch of one Node; `start` it, then `stop` it."""

    def __init__(
        self,
        *,
        client: Client,
        node_name: str,
        on_change: Callable[[], None],
        on_connected: Callable[[], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Prepare; both are called in the watch's own thread, as a `Reflector` does."""
        self._key = ObjectKey("", node_name)
        self._reflector: Reflector[JsonObject] = Reflector(
            client,
            paths.nodes(),
            params={"fieldSelector": f"metadata.name={node_name}"},
            decode=_without_bulk,
            on_change=lambda _change: on_change(),
            on_connected=on_connected,
            pace=pace,
        )

    def start(self) -> None:
        """Begin to read."""
        self._reflector.start()

    def stop(self) -> None:
        """End within a second."""
        self._reflector.stop()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait until the Node has been read, or is known to be gone, and say whether it was."""
        return self._reflector.wait_synced(timeout_s)

    def node(self) -> JsonObject | None:
        """Return the Node as last seen, without its images; `None` when there is none."""
        return self._reflector.items().get(self._key)


def _without_bulk(node: JsonObject) -> JsonObject:
    status, metadata = node.get("status"), node.get("metadata")
    slim = dict(node)
    if isinstance(status, dict):
        slim["status"] = {key: value for key, value in status.items() if key != "images"}
    if isinstance(metadata, dict):
        slim["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    return slim
