"""Bind pods to nodes and write down the devices of their claims.

Every pod that could not be placed is looked at again whenever a claim, slice, class, rule for
taints or node changes or another pod ends. A decision is written in the order of Kubernetes:
finalizer and allocation of each claim, then its reservation for the pod, then the binding; what
fails halfway is found in the claims by the next attempt, which starts from what is written.
"""

import asyncio

import structlog

from kube.objects import JsonObject, ObjectKey, key_of
from sim.apiserver.api import STRATEGIC_PATCH, Api
from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import timestamp
from sim.scheduler.allocator import Allocator
from sim.scheduler.extended import Extended
from sim.scheduler.mirror import Mirror
from sim.scheduler.nodefilter import finished
from sim.scheduler.placement import Placed, View, place
from sim.scheduler.podclaims import WaitingError, reserves
from sim.scheduler.reasons import Pending, pending, waiting_for
from sim.scheduler.verdicts import DeviceVerdict

log = structlog.get_logger(__name__)

NAME = "default-scheduler"
FINALIZER = "resource.kubernetes.io/delete-protection"
_RETRY_S = 0.5


async def run(api: Api, *, profile: str) -> None:
    """Schedule until cancelled, by the rules of release *profile*."""
    await Scheduler(api, Allocator(profile)).run()


class Scheduler:
    """One scheduler of one cluster; call it in the loop of the API server."""

    def __init__(self, api: Api, allocator: Allocator) -> None:
        self._api = api
        self._allocator = allocator
        self._pending: dict[ObjectKey, Pending] = {}
        self._tried: dict[ObjectKey, int] = {}
        """The number of moves in the cluster when a pod was tried last."""
        self._moves = 0
        self._wake = asyncio.Event()
        self._pods = Mirror(api, "pods", self._pod_changed)
        self._claims = Mirror(api, "resourceclaims", self._moved)
        self._slices = Mirror(api, "resourceslices", self._moved)
        self._classes = Mirror(api, "deviceclasses", self._moved)
        self._nodes = Mirror(api, "nodes", self._moved)
        self._rules = Mirror(api, "devicetaintrules", self._moved)

    async def run(self) -> None:
        """Schedule until cancelled."""
        devices = (self._claims, self._slices, self._classes, self._rules)
        mirrors = (self._pods, self._nodes, *devices)
        async with asyncio.TaskGroup() as tasks:
            for mirror in mirrors:
                tasks.create_task(mirror.run())
            for mirror in mirrors:
                await mirror.synced.wait()
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self.schedule_all()

    def explain(self, pod: ObjectKey) -> list[DeviceVerdict]:
        """Return what refused *pod* when it was tried last: one verdict per device."""
        known = self._pending.get(pod)
        return list(known.verdicts) if known else []

    async def schedule_all(self) -> None:
        """Try every pod that waits and for which something has changed, in order of arrival."""
        for key in list(self._pods.items):
            if self._due(key) is None:
                continue
            # The API server runs in this loop: its clients are not to wait for all pods.
            await asyncio.sleep(0)
            pod = self._due(key)
            if pod is not None:
                await self._try(key, pod)

    def _due(self, key: ObjectKey) -> JsonObject | None:
        pod = self._pods.items.get(key)
        tried = self._tried.get(key) == self._moves
        return None if pod is None or tried or not _waits(pod) else pod

    async def _try(self, key: ObjectKey, pod: JsonObject) -> None:
        self._tried[key] = self._moves
        try:
            await self._schedule(pod)
        except StatusError as error:
            log.info("scheduling failed", pod=str(key), error=str(error))
            self._retry(key)
        except Exception:
            log.exception("scheduling crashed", pod=str(key))

    async def _schedule(self, pod: JsonObject) -> None:
        try:
            found = place(pod, self._view(), self._allocator)
        except WaitingError as waiting:
            await self._set_pending(pod, waiting_for(waiting))
            return
        if isinstance(found, Placed):
            await self._bind(pod, found)
            return
        await self._set_pending(pod, pending(found))
        if found.stranded:
            await self._deallocate(found.stranded[0])

    def _view(self) -> View:
        return View(
            nodes=tuple(self._nodes.items.values()),
            pods=self._pods.items,
            claims=self._claims.items,
            slices=tuple(self._slices.items.values()),
            classes={key.name: item for key, item in self._classes.items.items()},
            rules=tuple(self._rules.items.values()),
        )

    async def _bind(self, pod: JsonObject, placed: Placed) -> None:
        pending = list(placed.claims.pending)
        if placed.extended:
            pending.append(await self._make_claim(placed.extended, pod))
        for claim, allocation in zip(pending, placed.allocations, strict=True):
            await self._reserve(claim, pod, allocation)
        for claim in placed.claims.allocated:
            if not reserves(claim, pod):
                await self._reserve(claim, pod, None)
        key = key_of(pod)
        await self._api.bind(key.name, key.namespace, node=placed.node)
        self._pods.put(await self._api.get("pods", key.name, key.namespace))
        self._pending.pop(key, None)
        log.info("pod bound", pod=str(key), node=placed.node)

    async def _make_claim(self, extended: Extended, pod: JsonObject) -> JsonObject:
        """Make the claim for extended resources, and note it in the pod for its kubelet."""
        metadata = {key: it for key, it in extended.claim["metadata"].items() if key != "name"}
        claim = await self._api.create("resourceclaims", {**extended.claim, "metadata": metadata})
        self._claims.put(claim)
        status = {
            "resourceClaimName": claim["metadata"]["name"],
            "requestMappings": list(extended.mappings),
        }
        key = key_of(pod)
        await self._api.patch(
            "pods",
            key.name,
            {"status": {"extendedResourceClaimStatus": status}},
            namespace=key.namespace,
            content_type=STRATEGIC_PATCH,
            subresource="status",
        )
        return claim

    async def _reserve(
        self, claim: JsonObject, pod: JsonObject, allocation: JsonObject | None
    ) -> None:
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), FINALIZER]
            metadata = {**claim["metadata"], "finalizers": finalizers}
            claim = await self._api.update("resourceclaims", {**claim, "metadata": metadata})
            self._claims.put(claim)
        status = dict(claim.get("status") or {})
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": timestamp()}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), _reference(pod)]
        await self._write_status({**claim, "status": status})

    async def _deallocate(self, claim: JsonObject) -> None:
        """Free a claim that nobody uses, so that it can be allocated where the pod can run."""
        log.info("claim deallocated", claim=str(key_of(claim)))
        kept = {key: value for key, value in claim["status"].items() if key != "allocation"}
        await self._write_status({**claim, "status": kept})

    async def _write_status(self, claim: JsonObject) -> None:
        self._claims.put(await self._api.update("resourceclaims", claim, subresource="status"))

    async def _set_pending(self, pod: JsonObject, why: Pending) -> None:
        key = key_of(pod)
        self._pending[key] = why
        if _says(pod, why):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": why.reason,
            "message": why.message,
            "lastTransitionTime": timestamp(),
        }
        patched = await self._api.patch(
            "pods",
            key.name,
            {"status": {"conditions": [condition]}},
            namespace=key.namespace,
            content_type=STRATEGIC_PATCH,
            subresource="status",
        )
        self._pods.items[key] = patched
        log.info("pod is pending", pod=str(key), reason=why.reason, message=why.message)

    def _retry(self, key: ObjectKey) -> None:
        def again() -> None:
            self._tried.pop(key, None)
            self._wake.set()

        asyncio.get_running_loop().call_later(_RETRY_S, again)

    def _moved(self, *_: object) -> None:
        self._moves += 1
        self._wake.set()

    def _pod_changed(
        self, key: ObjectKey, before: JsonObject | None, now: JsonObject | None
    ) -> None:
        if now is None or (finished(now) and before is not None and not finished(before)):
            self._pending.pop(key, None)
            self._moved()
        self._tried.pop(key, None)
        self._wake.set()


def _waits(pod: JsonObject) -> bool:
    spec = pod["spec"]
    return not (
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or spec.get("schedulerName", NAME) != NAME
        or pod["metadata"].get("deletionTimestamp")
        or finished(pod)
    )


def _reference(pod: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def _says(pod: JsonObject, why: Pending) -> bool:
    return any(
        condition.get("type") == "PodScheduled"
        and condition.get("reason") == why.reason
        and condition.get("message") == why.message
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )
