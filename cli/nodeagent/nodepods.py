"""Follows the pods of this node, for all who ask whether a container is there or runs."""

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from hami.monitor.pods import NodePod, read_node_pod
from kube import paths
from kube.client import Client
from kube.reflector import Reflector
from kube.store import Change

_REMEMBERED: Final = 1000
"""Deleted pods, of which a node has some tens between two looks."""


class NodePods:
    """A watch of the node's pods; `start` it, then `stop` it."""

    def __init__(
        self, client: Client, node_name: str, on_change: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare; *on_change* is called after every change."""
        self._pods: Reflector[NodePod] = Reflector(
            client,
            paths.pods(),
            params={"fieldSelector": f"spec.nodeName={node_name}"},
            decode=read_node_pod,
            on_change=self._note,
        )
        self._on_change = on_change
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED)

    def start(self) -> None:
        """Begin to read."""
        self._pods.start()

    def stop(self) -> None:
        """End within a second."""
        self._pods.stop()

    def known(self) -> Collection[NodePod] | None:
        """Return the pods; `None` as long as they were not read."""
        return self._pods.items().values() if self._pods.wait_synced(0) else None

    def alive(self) -> frozenset[str] | None:
        """Return the UIDs of pods that have not ended; `None` as long as they were not read."""
        pods = self.known()
        return None if pods is None else frozenset(pod.uid for pod in pods if not pod.has_ended)

    def deleted(self) -> frozenset[str]:
        """Return the UIDs of the last pods that were seen to go; none of them comes back."""
        return frozenset(self._deleted.copy())

    def containers(self) -> frozenset[tuple[str, str]] | None:
        """Return pod UID and name of each container; `None` as long as they were not read."""
        pods = self.known()
        if pods is None:
            return None
        return frozenset((pod.uid, each.name) for pod in pods for each in pod.containers)

    def _note(self, change: Change[NodePod]) -> None:
        # One of the same name may have taken its place.
        if change.old is not None and (change.new is None or change.new.uid != change.old.uid):
            self._deleted.append(change.old.uid)
        self._on_change()
