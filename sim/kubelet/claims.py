"""Prepare and unprepare the claims of pods, as kubelet's DRA manager does it.

One call per driver carries all claims of a pod; entries of an answer are walked in random order
and the first error ends everything, so a driver must bear that a part is asked for again. Pods
are worked on side by side and nothing keeps two of them from one claim at the same time
(kubelet: `pkg/kubelet/cm/dra/manager.go`).
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from kube.objects import JsonObject
from sim.kubelet.claiminfo import ClaimCache, ClaimInfo
from sim.kubelet.errors import ClaimError
from sim.kubelet.plugin import Plugin, PrepareAnswer
from sim.kubelet.plugins import Plugins
from sim.kubelet.podclaims import (
    cdi_names,
    check_node_operations,
    check_usable,
    claim_names,
    drivers_of,
    wanted,
)
from sim.kubelet.release import Release

log = structlog.get_logger(__name__)

GetClaim = Callable[[str, str], Awaitable[JsonObject]]
"""From namespace and name to the claim; raises `ClaimError`."""


class ClaimManager:
    """Keep the claims of this node's pods prepared; call it from one loop only."""

    def __init__(
        self,
        cache: ClaimCache,
        plugins: Plugins,
        get_claim: GetClaim,
        *,
        release: Release,
        seed: int | None = None,
    ) -> None:
        self.cache = cache
        self._plugins = plugins
        self._get_claim = get_claim
        self._release = release
        # Chance decides orders here as Go's maps do, so a seed makes a run repeatable.
        self._random = random.Random(seed)  # noqa: S311

    async def prepare(self, pod: JsonObject) -> None:
        """Prepare all claims of *pod*; raise `ClaimError` or `CallError` at the first fault."""
        meta, claims = pod["metadata"], []
        for name, owned in claim_names(pod):
            claim = await self._get_claim(meta["namespace"], name)
            check_usable(claim, pod, owned=owned)
            if self._release.knows_node_operations:
                check_node_operations(claim)
            for driver in drivers_of(claim):
                self._plugin(driver)
            claims.append(claim)
        batches = self._enter(claims, meta["uid"])
        for driver, infos in self._shuffled(batches.items()):
            answers = await self._plugin(driver).prepare([info.ref for info in infos])
            self._take(driver, infos, answers)
        if batches:
            prepared = {info.uid for infos in batches.values() for info in infos}
            self.cache.prepared |= prepared
            self.cache.save()
            log.info("claims prepared", pod_uid=meta["uid"], claim_uids=sorted(prepared))

    async def unprepare(self, pod: JsonObject) -> None:
        """Let go of all claims of *pod*; raise `ClaimError` or `CallError` at the first fault."""
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        infos = self.cache.of_pod(uid)
        if self._release.unprepares_by_spec or not infos:
            named = [self.cache.find(namespace, name) for name, _ in claim_names(pod)]
            infos = [info for info in named if info is not None]
        await self._unprepare(infos, uid)

    async def unprepare_gone(self, pod_uid: str) -> None:
        """Let go of all claims of a pod that is known by its UID only; raise as `unprepare`."""
        await self._unprepare(self.cache.of_pod(pod_uid), pod_uid)

    def cdi_devices(self, pod: JsonObject, container: JsonObject) -> tuple[str, ...]:
        """Return the CDI names for *container*; claims and drivers come in random order."""
        names: list[str] = []
        for name, requests in self._shuffled(wanted(pod, container).items()):
            info = self.cache.find(pod["metadata"]["namespace"], name)
            if info is None:
                raise _unknown(pod["metadata"]["namespace"], name)
            for request in requests:
                for driver in self._shuffled(info.drivers):
                    names.extend(cdi_names(info, driver, request))
        return tuple(names)

    async def _unprepare(self, infos: list[ClaimInfo], pod_uid: str) -> None:
        leaving: list[ClaimInfo] = []
        batches: dict[str, list[ClaimInfo]] = {}
        for info in infos:
            if pod_uid not in info.pods and not self._release.unprepares_by_spec:
                continue
            if len(info.pods) > 1:
                info.pods.discard(pod_uid)
                continue
            leaving.append(info)
            self.cache.unpreparing.add(info.uid)
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info)
        for driver, batch in self._shuffled(batches.items()):
            errors = await self._plugin(driver).unprepare([info.ref for info in batch])
            self._check_unprepared(batch, errors)
        for info in leaving:
            self.cache.remove(info)
        if infos:
            self.cache.save()
            uids = sorted(info.uid for info in leaving)
            log.info("claims unprepared", pod_uid=pod_uid, claim_uids=uids)

    def _plugin(self, driver: str) -> Plugin:
        plugin = self._plugins.find(driver)
        if plugin is None:
            message = f"DRA driver {driver} is not registered"
            raise ClaimError(message)
        return plugin

    def _enter(self, claims: list[JsonObject], pod_uid: str) -> dict[str, list[ClaimInfo]]:
        """Note the pod's claims durably and return those to prepare, by driver."""
        batches: dict[str, list[ClaimInfo]] = {}
        for claim in claims:
            found = self.cache.check(claim)
            leaving = found is not None and found.uid in self.cache.unpreparing
            if leaving and self._release.waits_for_unprepare:
                message = f"ResourceClaim {claim['metadata']['name']} is being unprepared"
                raise ClaimError(message)
            info = self.cache.enter(claim, drivers_of(claim), pod_uid)
            # Before any call: whatever happens then, unprepare will come.
            self.cache.save()
            if info.uid in self.cache.prepared:
                continue
            for driver in info.drivers:
                # A claim that the pod names twice is asked for twice, as kubelet does it; the
                # one entry that can come back for it then counts as one too few.
                batches.setdefault(driver, []).append(info)
        return batches

    def _take(
        self, driver: str, asked: list[ClaimInfo], answers: Mapping[str, PrepareAnswer]
    ) -> None:
        infos = {info.uid: info for info in asked}
        for uid, answer in self._shuffled(answers.items()):
            info = infos.get(uid)
            if info is None:
                message = f"NodePrepareResources returned result for unknown claim UID {uid}"
                raise ClaimError(message)
            if answer.error:
                message = (
                    f"NodePrepareResources failed for ResourceClaim {info.name}: {answer.error}"
                )
                raise ClaimError(message)
            if self.cache.find(*info.key) is None:
                raise _unknown(*info.key)
            info.take(driver, answer.devices, appends=self._release.appends_devices)
        if len(answers) != len(asked):
            skipped = len(asked) - len(answers)
            message = f"NodePrepareResources skipped {skipped} ResourceClaims"
            raise ClaimError(message)

    def _check_unprepared(self, asked: list[ClaimInfo], errors: Mapping[str, str]) -> None:
        infos = {info.uid: info for info in asked}
        for uid, error in self._shuffled(errors.items()):
            info = infos.get(uid)
            if info is None:
                message = f"NodeUnprepareResources returned result for unknown claim UID {uid}"
                raise ClaimError(message)
            if error:
                message = f"NodeUnprepareResources failed for ResourceClaim {info.name}: {error}"
                raise ClaimError(message)
        if len(errors) != len(asked):
            skipped = len(asked) - len(errors)
            message = f"NodeUnprepareResources skipped {skipped} ResourceClaims"
            raise ClaimError(message)

    def _shuffled(self, items: Iterable[Any]) -> list[Any]:
        shuffled = list(items)
        self._random.shuffle(shuffled)
        return shuffled


def _unknown(namespace: str, name: str) -> ClaimError:
    claim = f"ResourceClaim {name} in namespace {namespace}"
    return ClaimError(f"internal error: unable to get claim info for {claim}")
