"""Looks at everything once: pods, kubelet, claims, regions, GPUs.

What one source does not say leaves a gap and nothing else: without kubelet's word the pods' specs
tell who uses a claim, without pods no container is named but regions are still read, and a GPU that
does not answer hides no other. Each failure is logged when it begins and when it ends.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import structlog

from gpu.errors import GpuError
from gpu.names import DRIVER
from gpu.usage import GpuUsage
from hami.deviceids import physical_uuid
from hami.monitor.claims import PreparedClaim
from hami.monitor.holders import HeldDevice, Holder, Mode, Regions, Told, holders, told_by
from hami.monitor.patience import PatientReadings
from hami.monitor.places import PRIORITY_DEFAULT, Owner, Place, PluginRegions
from hami.monitor.podresources import ContainerResources, PodResourcesError
from hami.monitor.pods import NodePod
from hami.monitor.processes import HostProcesses
from hami.monitor.regions.model import Region, Trouble, Unreadable
from hami.monitor.regions.reading import read_region
from hami.monitor.sources import GpuOwner, GpuWorker, Look, Snapshot, Source, Sources

log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class Scanner:
    """Makes snapshots; for one thread."""

    def __init__(
        self,
        sources: Sources,
        processes: HostProcesses,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._sources = sources
        self._processes = processes
        self._plugin = PluginRegions(sources.plugin_regions)
        self._readings = None if sources.gpus is None else PatientReadings(sources.gpus)
        self._now_s = now_s
        self._success: dict[Source, bool] = {}

    def scan(self) -> Snapshot:
        """Look at everything; no source ends it."""
        self._processes.begin()
        pods, told = self._pods(), self._told()
        claims = tuple(self._sources.claims())
        held = holders(
            pods or (),
            claims,
            told,
            regions=Regions(self._claim_region, self._plugin.region),
            resources=self._sources.plugin_resources,
        )
        places = self.places(claims, held)
        regions = self._regions(places, held)
        gpus = self._gpus()
        return Snapshot(
            taken_s=self._now_s(),
            success=dict(self._success),
            looks=tuple(_look(each, regions) for each in held),
            places=places,
            regions=regions,
            gpus=gpus,
            workers=tuple(self._workers(gpus, pods, told, held)),
            pods={each.uid: each for each in pods or ()},
        )

    def places(
        self, claims: Iterable[PreparedClaim], held: Iterable[Holder] = ()
    ) -> tuple[Place, ...]:
        """Return all regions of the node, and whose processes may be in them."""
        users: dict[Path, set[str]] = {}
        granted: dict[Path, PreparedClaim] = {}
        for claim in claims:
            path = self._claim_region(claim.uid) if claim.limits else None
            if path is not None:
                users.setdefault(path, set()).update(claim.pod_uids)
                granted[path] = claim
        nobody: tuple[Owner, ...] = ()
        for owner in self._asked(Source.REGIONS, self._plugin.owners, nobody):
            region = self._plugin.region(owner)
            if region is not None:
                users.setdefault(region, set()).add(owner.pod_uid)
        for each in held:
            if each.region is not None:
                users.setdefault(each.region, set()).add(each.pod.uid)
        return tuple(_place(path, users[path], granted.get(path)) for path in sorted(users))

    def known_places(self) -> tuple[Place, ...]:
        """Return all regions of the node, without asking for pods."""
        return self.places(tuple(self._sources.claims()))

    def _claim_region(self, claim_uid: str) -> Path | None:
        of_claim = self._sources.claim_region
        return None if of_claim is None else of_claim(claim_uid)

    def _pods(self) -> tuple[NodePod, ...] | None:
        pods = self._sources.pods()
        self._note(Source.PODS, "" if pods is not None else "not listed yet")
        return None if pods is None else tuple(pods)

    def _told(self) -> Told:
        kubelet = self._sources.pod_resources
        nothing: tuple[ContainerResources, ...] = ()
        if kubelet is None:
            return {}
        return told_by(self._asked(Source.POD_RESOURCES, kubelet.containers, nothing))

    def _gpus(self) -> tuple[GpuUsage, ...]:
        nothing: tuple[GpuUsage, ...] = ()
        if self._readings is None:
            return nothing
        return self._asked(Source.GPUS, self._readings.read, nothing)

    def _regions(
        self, places: Iterable[Place], held: Iterable[Holder]
    ) -> dict[Path, Region | Unreadable]:
        found = {
            each.path: read_region(each.path, is_alive=self._processes.of_pods(each.pod_uids))
            for each in places
        }
        # Where a container runs, nobody living is a reason to doubt.
        running = {each.region for each in held if each.running}
        deserted = [
            path
            for path, region in found.items()
            if path in running and isinstance(region, Region) and not region.processes
        ]
        if deserted and not self._processes.sees_pods():
            self._note(Source.PROCESSES, "no process of a pod is shown; hostPID is needed")
            found |= dict.fromkeys(deserted, _NOBODY_SHOWN)
        else:
            self._note(Source.PROCESSES, "")
        return found

    def _workers(
        self,
        gpus: Iterable[GpuUsage],
        pods: tuple[NodePod, ...] | None,
        told: Told,
        held: Iterable[Holder],
    ) -> Iterator[GpuWorker]:
        owned = _owned(pods or (), told, held)
        for gpu in gpus:
            for process in gpu.processes or ():
                pod_uid = self._processes.pod_of(process.pid)
                yield GpuWorker(
                    gpu_uuid=gpu.uuid,
                    host_pid=process.pid,
                    memory_bytes=process.memory_bytes,
                    owner=_owner(gpu.uuid, pod_uid, None if pods is None else owned),
                    pod_uid=pod_uid,
                    name=self._processes.name_of(process.pid),
                )

    def _asked(self, source: Source, ask: Callable[[], _T], default: _T) -> _T:
        try:
            answer = ask()
        except (GpuError, PodResourcesError, OSError) as error:
            self._note(source, str(error))
            return default
        self._note(source, "")
        return answer

    def _note(self, source: Source, problem: str) -> None:
        worked, self._success[source] = self._success.get(source, True), not problem
        if worked and problem:
            log.warning("monitor source failed", source=source, reason=problem)
        elif not worked and not problem:
            log.info("monitor source works again", source=source)


def _look(holder: Holder, regions: Mapping[Path, Region | Unreadable]) -> Look:
    """Return *holder* with its region, which tells its devices where nothing else does."""
    region = None if holder.region is None else regions.get(holder.region)
    if not holder.devices and isinstance(region, Region):
        devices = tuple(
            HeldDevice(uuid=each.uuid, parent_uuid=each.uuid, mode=Mode.SHARE)
            for each in region.devices
        )
        holder = replace(holder, devices=devices)
    return Look(holder=holder, region=region)


def _place(path: Path, pod_uids: Iterable[str], claim: PreparedClaim | None) -> Place:
    options = None if claim is None else claim.options
    priority = None if claim is None else PRIORITY_DEFAULT
    if options is not None and options.priority is not None:
        priority = options.priority
    return Place(
        path=path,
        pod_uids=frozenset(pod_uids),
        priority=priority,
        never_limits=options is not None and options.core_policy == "disable",
    )


_NOBODY_SHOWN = Unreadable(
    trouble=Trouble.UNREADABLE, reason="it is not known which of its processes live"
)
_OTHERS = "*"
"""In the place of a GPU's UUID: GPUs that another driver gives, of which only it knows which."""


def _owned(
    pods: Iterable[NodePod], told: Told, held: Iterable[Holder]
) -> Mapping[str, frozenset[str]]:
    """Return which GPUs each pod may use, in whole or in part, by the pod's UID."""
    uids = {(each.namespace, each.name): each.uid for each in pods}
    found: dict[str, set[str]] = {}
    for holder in held:
        devices = found.setdefault(holder.pod.uid, set())
        devices |= {each.parent_uuid for each in holder.devices}
    for (namespace, name, _), said in told.items():
        uid = uids.get((namespace, name))
        if uid is not None:
            devices = found.setdefault(uid, set())
            devices |= {physical_uuid(each) for ids in said.device_ids.values() for each in ids}
            others = [each for claim in said.claims for each in claim.devices]
            if any(each.driver != DRIVER for each in others):
                devices.add(_OTHERS)
    return {uid: frozenset(devices) for uid, devices in found.items()}


def _owner(
    gpu_uuid: str, pod_uid: str | None, owned: Mapping[str, frozenset[str]] | None
) -> GpuOwner:
    if pod_uid is None or (pod_uid and owned is None):
        return GpuOwner.UNKNOWN
    devices = (owned or {}).get(pod_uid, frozenset())
    if gpu_uuid in devices:
        return GpuOwner.SHARE
    return GpuOwner.UNKNOWN if _OTHERS in devices else GpuOwner.STRAY
