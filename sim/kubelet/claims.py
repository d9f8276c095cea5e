"""Prepare and unprepare the claims of pods, as kubelet's DRA manager does it.

One call per driver carries all claims of a pod; entries of an answer are walked in random order
and the first error ends everything, so a driver must bear that a part is asked for again
(kubelet: `pkg/kubelet/cm/dra/manager.go`).
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import structlog

from kube.objects import JsonObject
from sim.kubelet.claiminfo import ClaimCache, ClaimInfo
from sim.kubelet.errors import ClaimError
from sim.kubelet.plugin import Plugin, PrepareAnswer
from sim.kubelet.plugins import Plugins
from sim.kubelet.podclaims import cdi_names, check_usable, claim_names, drivers_of, wanted

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
        appends_devices: bool,
        seed: int | None = None,
    ) -> None:
        self.cache = cache
        self._plugins = plugins
        self._get_claim = get_claim
        self._appends_devices = appends_devices
        # Chance decides orders here as Go's maps do, so a seed makes a run repeatable.
        self._random = random.Random(seed)  # noqa: S311
        self._locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def prepare(self, pod: JsonObject) -> None:
        """Prepare all claims of *pod*; raise `ClaimError` or `CallError` at the first fault."""
        namespace = pod["metadata"]["namespace"]
        names = list(claim_names(pod))
        async with self._alone((namespace, name) for name, _ in names):
            claims = []
            for name, owned in names:
                claims.append(await self._get_claim(namespace, name))
                check_usable(claims[-1], pod, owned=owned)
            await self._prepare(claims, pod["metadata"]["uid"])

    async def unprepare(self, pod_uid: str) -> None:
        """Let go of all claims of a pod; raise `ClaimError` or `CallError` at the first fault."""
        async with self._alone(info.key for info in self.cache.of_pod(pod_uid)):
            await self._unprepare(self.cache.of_pod(pod_uid), pod_uid)

    def cdi_devices(self, pod: JsonObject, container: JsonObject) -> tuple[str, ...]:
        """Return the CDI names for *container*; claims and drivers come in random order."""
        names: list[str] = []
        for name, request in self._shuffled(wanted(pod, container)):
            info = self.cache.find(pod["metadata"]["namespace"], name)
            if info is None:
                message = f"unable to get claim info for claim {name}"
                raise ClaimError(message)
            for driver in self._shuffled(info.drivers):
                names.extend(cdi_names(info, driver, request))
        return tuple(names)

    @asynccontextmanager
    async def _alone(self, keys: Iterable[tuple[str, str]]) -> AsyncIterator[None]:
        """Keep other pods from preparing or unpreparing the same claims meanwhile."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                await stack.enter_async_context(self._locks[key])
            yield

    async def _prepare(self, claims: list[JsonObject], pod_uid: str) -> None:
        for claim in claims:
            self.cache.check(claim)
            for driver in drivers_of(claim):
                self._plugin(driver)
        batches = self._enter(claims, pod_uid)
        for driver, infos in self._shuffled(batches.items()):
            answers = await self._plugin(driver).prepare([info.ref for info in infos])
            self._take(driver, {info.uid: info for info in infos}, answers)
        if batches:
            prepared = {info.uid for infos in batches.values() for info in infos}
            self.cache.prepared |= prepared
            self.cache.save()
            log.info("claims prepared", pod_uid=pod_uid, claim_uids=sorted(prepared))

    async def _unprepare(self, infos: list[ClaimInfo], pod_uid: str) -> None:
        leaving = [info for info in infos if len(info.pods) == 1]
        batches: dict[str, list[ClaimInfo]] = {}
        for info in leaving:
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info)
        for driver, batch in self._shuffled(batches.items()):
            errors = await self._plugin(driver).unprepare([info.ref for info in batch])
            self._check_unprepared({info.uid: info for info in batch}, errors)
        for info in infos:
            info.pods.discard(pod_uid)
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
            info = self.cache.enter(claim, drivers_of(claim), pod_uid)
            if info.uid in self.cache.prepared:
                continue
            for driver in info.drivers:
                infos = batches.setdefault(driver, [])
                if info not in infos:
                    infos.append(info)
        if claims:
            # Before any call: whatever happens then, unprepare will come.
            self.cache.save()
        return batches

    def _take(
        self,
        driver: str,
        infos: Mapping[str, ClaimInfo],
        answers: Mapping[str, PrepareAnswer],
    ) -> None:
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
            for device in answer.devices:
                info.add_device(driver, device, repeats=self._appends_devices)
        if len(answers) != len(infos):
            skipped = len(infos) - len(answers)
            message = f"NodePrepareResources skipped {skipped} ResourceClaims"
            raise ClaimError(message)

    def _check_unprepared(self, infos: Mapping[str, ClaimInfo], errors: Mapping[str, str]) -> None:
        for uid, error in self._shuffled(errors.items()):
            info = infos.get(uid)
            if info is None:
                message = f"NodeUnprepareResources returned result for unknown claim UID {uid}"
                raise ClaimError(message)
            if error:
                message = f"NodeUnprepareResources failed for ResourceClaim {info.name}: {error}"
                raise ClaimError(message)
        if len(errors) != len(infos):
            skipped = len(infos) - len(errors)
            message = f"NodeUnprepareResources skipped {skipped} ResourceClaims"
            raise ClaimError(message)

    def _shuffled(self, items: Iterable[Any]) -> list[Any]:
        shuffled = list(items)
        self._random.shuffle(shuffled)
        return shuffled
