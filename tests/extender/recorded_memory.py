"""An extender without program and API server: routes, decisions and state in memory."""

import asyncio
from itertools import count
from typing import Final

from extender.choosing import NodeChooser
from extender.gate import Gate
from extender.leading import AlwaysLeading
from extender.metrics import Metrics
from extender.model import Policies
from extender.routes.filtering import Filtering
from extender.state.cluster import Cluster
from extender.state.reading import read_node, read_pod, read_quota
from extender.state.view import ClusterView
from hami import keys
from hami.deviceconfig import DeviceConfig
from hami.vendors import from_sections
from tests.extender.recorded import Amounts, Json

_CONFIG: Final = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))
_READY_S: Final = 10.0


class MemoryDriver:
    """Tells the state at once what changes; `close` it."""

    prefix = ""
    patience_s = 0.0

    def __init__(self) -> None:
        self._uids = count(1)
        self._runner = asyncio.Runner()
        self._cluster = Cluster(_CONFIG)
        self._view = ClusterView(self._cluster, not_synced=lambda: None)
        self._routes = self._runner.run(self._made())

    def close(self) -> None:
        """End its loop."""
        self._runner.close()

    def put_node(self, node: Json) -> None:
        """Make or replace a node."""
        self._cluster.put_node(read_node(node))

    def put_quota(self, quota: Json) -> None:
        """Make a ResourceQuota."""
        self._cluster.put_quota(read_quota(quota))

    def put_pod(self, pod: Json) -> Json:
        """Make or replace a pod with its status, and return it as stored, with a UID."""
        uid = pod["metadata"].get("uid") or f"uid-{next(self._uids)}"
        stored = {**pod, "metadata": {**pod["metadata"], "uid": uid}}
        self._cluster.put_pod(read_pod(stored))
        return stored

    def drop_pod(self, pod: Json) -> None:
        """Delete a pod."""
        self._cluster.drop_pod(read_pod(pod))

    def filter(self, body: bytes) -> bytes:
        """Return the answer to a question."""
        return self._runner.run(self._routes.filter(body))

    def bind(self, pod: Json, node: str) -> Json:
        """Bind and return the pod's metadata as written; `AssertionError` where that fails."""
        metadata = pod["metadata"]
        reservation = self._view.reservation(metadata["uid"])
        assert reservation is not None
        assert reservation.placement.node == node
        annotations = {**metadata["annotations"], **reservation.annotations, keys.NODE: node}
        metadata["annotations"], metadata["labels"] = annotations, {keys.NODE: node}
        pod["spec"]["nodeName"] = node
        self.put_pod(pod)
        found: Json = metadata
        return found

    def used(self, node: str) -> Amounts:
        """Return what is taken of the devices of a node."""
        return {
            usage.device.uuid: (usage.used_slots, usage.used_mib, usage.used_cores)
            for each in self._view.usage()
            if each.name == node
            for usages in each.devices.values()
            for usage in usages
        }

    async def _made(self) -> Filtering:
        metrics = Metrics()

        async def at_once() -> None:
            return

        gate = Gate(AlwaysLeading(), self._view, metrics, catch_up=at_once)
        chooser = NodeChooser(self._cluster, Policies())
        return Filtering(chooser, gate, metrics, wait_ready_s=_READY_S)
