"""One pod's life on a node: devices given, claims prepared, containers started, and it all undone.

A pod that cannot have the devices of plugins that it asks for is rejected and never tried again.
Claims are prepared before the sandbox, once per sandbox; they are unprepared after the last
container has stopped and before the pod's final status or removal (kubelet: `pkg/kubelet`).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import structlog

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError
from sim.kubelet.claims import ClaimManager
from sim.kubelet.devicemanager import DeviceManager
from sim.kubelet.errors import DeviceError, KubeletError
from sim.kubelet.events import PodEvents, now
from sim.kubelet.podspec import exit_after_s, is_sidecar, request
from sim.kubelet.podstatus import (
    conditions,
    container_status,
    phase_of,
    pod_conditions,
    waiting_status,
)
from sim.kubelet.timing import Timing, backoff
from sim.runtime.container import ContainerView, State
from sim.runtime.errors import ContainerError
from sim.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


_ENDED: Final = ("Succeeded", "Failed")
_REJECTED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the workers of one kubelet share."""

    api: Api
    claims: ClaimManager
    devices: DeviceManager
    runtime: Runtime
    events: PodEvents
    timing: Timing
    host_ip: str


class PodWorker:
    """Bring one pod up, then down; the two run in one task and so never meet."""

    def __init__(self, pod: JsonObject, services: Services, *, pod_ip: str) -> None:
        self.uid: str = pod["metadata"]["uid"]
        self.ended = pod.get("status", {}).get("phase") in _ENDED
        """Whether nothing of it runs, now or later."""
        self._pod = pod
        self._services = services
        self._pod_ip = pod_ip
        self._gone = False
        self._changed = asyncio.Event()
        self._last_status: JsonObject = {}
        self._rejection: JsonObject = {}
        self._ran = dict(_restart_counts(pod))

    @property
    def pod(self) -> JsonObject:
        """Return the newest state of the pod's object that is known."""
        return self._pod

    def update(self, pod: JsonObject | None) -> None:
        """Take note of the pod's newest state; `None` when the object is gone."""
        before = self._signature()
        self._gone = self._gone or pod is None
        self._pod = pod or self._pod
        if self._signature() != before:
            self._changed.set()

    async def run(self) -> None:
        """Work until the pod is gone from the node."""
        if not self.ended and await self._admitted():
            await self._retried("pod sync failed", self._bring_up, until_leaving=True)
            await self._live()
        await self._take_down()

    def _signature(self) -> Any:
        """Return what, when it changes, is worth another try at once."""
        status = self._pod.get("status", {})
        return (
            self._leaving(),
            status.get("resourceClaimStatuses"),
            status.get("extendedResourceClaimStatus"),
        )

    def _leaving(self) -> bool:
        return self._gone or "deletionTimestamp" in self._pod["metadata"]

    async def _retried(self, event: str, step: Any, *, until_leaving: bool = False) -> None:
        failures = 0
        while not (until_leaving and self._leaving()):
            self._changed.clear()
            try:
                await step()
            except (KubeletError, ContainerError, StatusError) as error:
                failures += 1
                log.warning(event, pod_uid=self.uid, error=str(error))
                timing = self._services.timing
                wait_s = backoff(timing.sync_backoff_s, timing.sync_backoff_max_s, failures)
                await self._wait(wait_s)
            else:
                return

    async def _wait(self, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)

    async def _admitted(self) -> bool:
        """Give the pod the devices it asks for, or reject it."""
        running = {one.container for one in self._views() if one.state is State.RUNNING}
        try:
            await self._services.devices.admit(self._pod, running=running)
        except DeviceError as error:
            self.ended = True
            message = f"Allocate failed due to {error}, which is unexpected"
            log.warning("pod rejected", pod_uid=self.uid, reason=message)
            await self._services.events.warn(self._pod, _REJECTED, message)
            self._rejection = {
                "phase": "Failed",
                "reason": _REJECTED,
                "message": f"Pod was rejected: {message}",
            }
        return not self.ended

    async def _bring_up(self) -> None:
        try:
            if not self._services.runtime.has_sandbox(self.uid):
                await self._services.claims.prepare(self._pod)
                self._services.runtime.add_sandbox(self.uid)
        except KubeletError as error:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            await self._services.events.warn(self._pod, "FailedPrepareDynamicResources", message)
            await self._report(waiting=("ContainerCreating", ""))
            raise
        try:
            await self._start_containers()
        except (ContainerError, KubeletError) as error:
            # Kubelet fails before it asks the runtime, or the runtime does.
            kind = "Config" if isinstance(error, KubeletError) else ""
            await self._services.events.warn(self._pod, "Failed", f"Error: {error}")
            await self._report(waiting=(f"CreateContainer{kind}Error", str(error)))
            raise
        await self._report()

    async def _start_containers(self) -> None:
        spec, runtime = self._pod["spec"], self._services.runtime
        for container in spec.get("initContainers", []):
            await self._start(container)
            if not is_sidecar(container):
                runtime.exit(self.uid, container["name"], exit_code=0)
        for container in spec["containers"]:
            await self._start(container)

    async def _start(self, container: JsonObject) -> None:
        runtime = self._services.runtime
        if runtime.find(self.uid, container["name"]) is not None:
            return
        plugins = await self._services.devices.options(self._pod, container, runtime.root)
        wanted = request(
            self._pod,
            container,
            root=runtime.root,
            cdi_devices=self._services.claims.cdi_devices(self._pod, container),
            plugins=plugins,
            restart_count=self._ran.get(container["name"], -1) + 1,
        )
        runtime.start(wanted)

    async def _live(self) -> None:
        """Wait for the pod's deletion, or for the end of its containers."""
        end_s = exit_after_s(self._pod)
        if end_s is not None and not self._leaving():
            loop = asyncio.get_running_loop()
            end_at_s = loop.time() + end_s
            while not self._leaving() and loop.time() < end_at_s:
                self._changed.clear()
                await self._wait(end_at_s - loop.time())
            return
        await self._until_leaving()

    async def _until_leaving(self) -> None:
        while not self._leaving():
            self._changed.clear()
            await self._wait(None)

    async def _take_down(self) -> None:
        runtime = self._services.runtime
        if self._leaving():
            runtime.stop_pod(self.uid)
        for view in self._views():
            runtime.exit(self.uid, view.container, exit_code=0)
        await self._retried("pod not unprepared", self._unprepare)
        self.ended = True
        await self._retried("final status not written", self._report_end)
        await self._until_leaving()
        await self._retried("pod not removed", self._remove)
        runtime.remove_pod(self.uid)

    async def _unprepare(self) -> None:
        if self._rejection and not self._views():
            return
        await self._services.claims.unprepare(self._pod)

    async def _report_end(self) -> None:
        if self._views() or self._rejection:
            await self._report()

    async def _remove(self) -> None:
        meta = self._pod["metadata"]
        try:
            await self._services.api.delete(
                "pods", meta["name"], meta["namespace"], uid=self.uid, grace_period_s=0
            )
        except StatusError as error:
            # Gone already, or another pod has the name now.
            if error.code not in {404, 409}:
                raise

    def _views(self) -> list[ContainerView]:
        return [one for one in self._services.runtime.containers() if one.pod.uid == self.uid]

    async def _report(self, waiting: tuple[str, str] = ("PodInitializing", "")) -> None:
        """Write the pod's status where it differs from the last one written."""
        if self._gone:
            return
        status = self._rejection or self._status(waiting)
        if status == self._last_status:
            return
        meta = self._pod["metadata"]
        patch = {"metadata": {"uid": self.uid}, "status": status}
        try:
            await self._services.api.patch(
                "pods", meta["name"], patch, namespace=meta["namespace"], subresource="status"
            )
        except StatusError as error:
            if error.code not in {404, 409}:
                raise
        self._last_status = status

    def _status(self, waiting: tuple[str, str]) -> JsonObject:
        spec, old = self._pod["spec"], self._pod.get("status", {})
        views = {view.container: view for view in self._views()}
        inits = spec.get("initContainers", [])
        apps = [views[one["name"]] for one in spec["containers"] if one["name"] in views]
        phase = phase_of(apps, len(spec["containers"]))
        sandbox = self._services.runtime.has_sandbox(self.uid)
        wanted = pod_conditions(phase, sandbox=sandbox, initialized=bool(apps) or not inits)
        status: JsonObject = {
            "phase": phase,
            "hostIP": self._services.host_ip,
            "hostIPs": [{"ip": self._services.host_ip}],
            "startTime": old.get("startTime") or self._last_status.get("startTime") or now(),
            "conditions": conditions(old.get("conditions", []), wanted, now()),
            "containerStatuses": self._containers(spec["containers"], views, waiting),
        }
        if inits:
            status["initContainerStatuses"] = self._containers(inits, views, waiting, init=True)
        if sandbox:
            status |= {"podIP": self._pod_ip, "podIPs": [{"ip": self._pod_ip}]}
        return status

    def _containers(
        self,
        containers: list[JsonObject],
        views: dict[str, ContainerView],
        waiting: tuple[str, str],
        *,
        init: bool = False,
    ) -> list[JsonObject]:
        return [
            container_status(views[one["name"]], init=init)
            if one["name"] in views
            else waiting_status(one, waiting, restart_count=self._ran.get(one["name"], 0))
            for one in containers
        ]


def _restart_counts(pod: JsonObject) -> Iterator[tuple[str, int]]:
    """Yield the restart count of each container that has run, by the pod's status."""
    status = pod.get("status", {})
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key, []):
            if one.get("containerID"):
                yield one["name"], one.get("restartCount", 0)
