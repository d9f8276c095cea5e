"""Bind pods to nodes and write down the devices of their claims.

Every pod that could not be placed is looked at again whenever a claim, slice, class, rule for
taints or node changes or another pod ends. A decision is written in the order of Kubernetes:
finalizer and allocation of each claim, then its reservation for the pod, then the binding; what
fails halfway is found in the claims by the next attempt, which starts from what is written.

Extenders are asked after the scheduler's own rules. One that binds does so beside the scheduling
of other pods, as it may take its time; until it has answered, its pod counts as bound.
"""

import asyncio
from dataclasses import replace

import structlog

from kube.objects import JsonObject, ObjectKey, key_of
from sim.apiserver.api import STRATEGIC_PATCH, Api
from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import timestamp
from sim.scheduler.allocator import Allocator
from sim.scheduler.claimwriting import ClaimWriting
from sim.scheduler.configuration import DEFAULT_NAME, Configuration
from sim.scheduler.errors import SchedulerError
from sim.scheduler.extender_calls import ExtenderError
from sim.scheduler.extender_policy import ignored_by_scheduler
from sim.scheduler.extending import Extenders
from sim.scheduler.mirror import Mirror
from sim.scheduler.nodefilter import finished
from sim.scheduler.placement import Found, Placed, Unplaced, View, search
from sim.scheduler.podclaims import WaitingError
from sim.scheduler.reasons import Pending, pending, waiting_for
from sim.scheduler.verdicts import DeviceVerdict

log = structlog.get_logger(__name__)

_RETRY_S = 0.5


async def run(api: Api, *, profile: str, configuration: Configuration) -> None:
    """Schedule until cancelled, by the rules of release *profile*."""
    await Scheduler(api, Allocator(profile), configuration).run()


class Scheduler:
    """One scheduler of one cluster; call it in the loop of the API server."""

    def __init__(
        self, api: Api, allocator: Allocator, configuration: Configuration | None = None
    ) -> None:
        configuration = configuration or Configuration()
        self._api = api
        self._allocator = allocator
        self._name = configuration.name
        self._extenders = Extenders(configuration.extenders)
        self._uncounted = ignored_by_scheduler(configuration.extenders)
        self._assumed: dict[ObjectKey, JsonObject] = {}
        """Pods that an extender is binding, with their nodes."""
        self._tasks: asyncio.TaskGroup | None = None
        self._pending: dict[ObjectKey, Pending] = {}
        self._tried: dict[ObjectKey, int] = {}
        """The number of moves in the cluster when a pod was tried last."""
        self._moves = 0
        self._wake = asyncio.Event()
        self._pods = Mirror(api, "pods", self._pod_changed)
        self._claims = Mirror(api, "resourceclaims", self._moved)
        self._writing = ClaimWriting(api, self._claims)
        self._slices = Mirror(api, "resourceslices", self._moved)
        self._classes = Mirror(api, "deviceclasses", self._moved)
        self._nodes = Mirror(api, "nodes", self._moved)
        self._rules = Mirror(api, "devicetaintrules", self._moved)

    async def run(self) -> None:
        """Schedule until cancelled."""
        devices = (self._claims, self._slices, self._classes, self._rules)
        mirrors = (self._pods, self._nodes, *devices)
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
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
        bound = key in self._assumed
        waits = pod is not None and not tried and not bound and _waits(pod, self._name)
        return pod if waits else None

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
        view = self._view()
        try:
            found = await self._place(pod, view)
        except WaitingError as waiting:
            await self._set_pending(pod, waiting_for(waiting))
            return
        except ExtenderError as error:
            await self._failed(pod, error)
            return
        if isinstance(found, Placed):
            await self._bind(pod, found)
            return
        await self._set_pending(pod, pending(found))
        if found.stranded:
            await self._writing.deallocate(found.stranded[0])

    async def _place(self, pod: JsonObject, view: View) -> Placed | Unplaced:
        """Choose a node by the scheduler's own rules and by those of its extenders."""
        found = search(pod, view, self._allocator)
        if isinstance(found, Unplaced):
            return found
        placed = {each.node: each for each in found.placed}
        nodes = {node["metadata"]["name"]: node for node in view.nodes}
        left = await self._extenders.narrow(pod, {name: nodes[name] for name in placed})
        kept = Found(
            placed=tuple(placed[name] for name in left.nodes),
            claims=found.claims,
            refusals={**found.refusals, **left.refusals},
            verdicts=found.verdicts,
        )
        if len(kept.placed) > 1:
            scores = await self._extenders.scores(pod, {name: nodes[name] for name in left.nodes})
            scored = (replace(it, score=it.score + scores[it.node]) for it in kept.placed)
            kept = replace(kept, placed=tuple(scored))
        return kept.best() or kept.unplaced()

    def _view(self) -> View:
        return View(
            nodes=tuple(self._nodes.items.values()),
            pods={**self._pods.items, **self._assumed} if self._assumed else self._pods.items,
            claims=self._claims.items,
            slices=tuple(self._slices.items.values()),
            classes={key.name: item for key, item in self._classes.items.items()},
            rules=tuple(self._rules.items.values()),
            left_to_extenders=self._uncounted,
        )

    async def _bind(self, pod: JsonObject, placed: Placed) -> None:
        await self._writing.allocate(pod, placed)
        if self._extenders.binds(pod) and self._tasks:
            self._assumed[key_of(pod)] = {**pod, "spec": {**pod["spec"], "nodeName": placed.node}}
            self._tasks.create_task(self._bind_by_extender(pod, placed.node))
        else:
            await self._bind_here(pod, placed.node)

    async def _bind_by_extender(self, pod: JsonObject, node: str) -> None:
        key = key_of(pod)
        try:
            if await self._extenders.bind(pod, node):
                self._bound(key, await self._api.get("pods", key.name, key.namespace))
            else:
                await self._bind_here(pod, node)
        except (ExtenderError, StatusError) as error:
            await self._failed(pod, error)
        finally:
            self._assumed.pop(key, None)
            self._moved()

    async def _bind_here(self, pod: JsonObject, node: str) -> None:
        key = key_of(pod)
        await self._api.bind(key.name, key.namespace, node=node)
        self._bound(key, await self._api.get("pods", key.name, key.namespace))

    def _bound(self, key: ObjectKey, pod: JsonObject) -> None:
        self._pods.put(pod)
        self._pending.pop(key, None)
        log.info("pod bound", pod=str(key), node=pod["spec"].get("nodeName", ""))

    async def _failed(self, pod: JsonObject, error: SchedulerError | StatusError) -> None:
        """Say what went wrong at *pod*, and try it again soon."""
        try:
            await self._set_pending(pod, Pending(reason="SchedulerError", message=str(error)))
        except StatusError as gone:
            log.info("pod cannot be told", pod=str(key_of(pod)), error=str(gone))
        self._retry(key_of(pod))

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


def _waits(pod: JsonObject, scheduler: str) -> bool:
    spec = pod["spec"]
    return not (
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or spec.get("schedulerName", DEFAULT_NAME) != scheduler
        or pod["metadata"].get("deletionTimestamp")
        or finished(pod)
    )


def _says(pod: JsonObject, why: Pending) -> bool:
    return any(
        condition.get("type") == "PodScheduled"
        and condition.get("reason") == why.reason
        and condition.get("message") == why.message
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )
