"""Events on pods, repeated ones counted instead of written anew, as client-go does it."""

import time
from datetime import UTC, datetime

import structlog

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError

log = structlog.get_logger(__name__)


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PodEvents:
    """Write events about pods; a failure to write one is only logged."""

    def __init__(self, api: Api, node: str) -> None:
        self._api = api
        self._node = node
        self._known: dict[tuple[str, str, str], tuple[str, int]] = {}

    async def warn(self, pod: JsonObject, reason: str, message: str) -> None:
        """Say *message* as a warning on *pod*."""
        meta = pod["metadata"]
        key = (meta["uid"], reason, message)
        try:
            if key in self._known:
                name, count = self._known[key]
                patch: JsonObject = {"count": count + 1, "lastTimestamp": now()}
                await self._api.patch("events", name, patch, namespace=meta["namespace"])
                self._known[key] = (name, count + 1)
                return
            name = await self._create(meta, reason, message)
            self._known[key] = (name, 1)
        except StatusError as error:
            self._known.pop(key, None)
            log.warning("event not written", pod_uid=meta["uid"], error=str(error))

    async def _create(self, meta: JsonObject, reason: str, message: str) -> str:
        written = now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{time.time_ns():x}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": written,
            "lastTimestamp": written,
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
        }
        stored = await self._api.create("events", event, meta["namespace"])
        return str(stored["metadata"]["name"])
