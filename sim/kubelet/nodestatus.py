"""Say in the node's status what its device plugins offer, and again when that changes.

Resources that have no plugin any more stay there as zero (kubelet: `pkg/kubelet/nodestatus`).
"""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError
from sim.kubelet.devicestock import NodeResources
from sim.kubelet.timing import Timing

log = structlog.get_logger(__name__)


class NodeStatus:
    """Write capacity and allocatable of one node's extended resources."""

    def __init__(
        self, api: Api, node: str, resources: Callable[[], NodeResources], timing: Timing
    ) -> None:
        self._api = api
        self._node = node
        self._resources = resources
        self._timing = timing
        self._written: JsonObject = {"capacity": {}, "allocatable": {}}

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            try:
                await self._write()
            except StatusError as error:
                log.warning("node status not written", node=self._node, error=str(error))
            await asyncio.sleep(self._timing.node_status_s)

    async def reset(self) -> None:
        """Take all extended resources of an existing node for gone: its kubelet is a new one."""
        status = (await self._api.get("nodes", self._node)).get("status", {})
        known = {name: "0" for name in status.get("capacity", {}) if "/" in name}
        if known:
            await self._patch({"capacity": known, "allocatable": known})

    async def _write(self) -> None:
        found = self._resources()
        gone = dict.fromkeys(found.removed, "0")
        wanted = {
            "capacity": {**self._written["capacity"], **_texts(found.capacity), **gone},
            "allocatable": {**self._written["allocatable"], **_texts(found.allocatable), **gone},
        }
        if wanted != self._written:
            await self._patch(wanted)
            self._written = wanted

    async def _patch(self, status: JsonObject) -> None:
        await self._api.patch("nodes", self._node, {"status": status}, subresource="status")


def _texts(numbers: Mapping[str, int]) -> dict[str, str]:
    return {name: str(number) for name, number in numbers.items()}
