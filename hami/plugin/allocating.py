"""Hands the devices that were decided to the containers that kubelet starts.

Whatever goes wrong, three things hold afterwards: kubelet has an error and not another pod's
devices, the pod says that it failed or can still be served, and the lock of the node is free or
watched until it is. The pod is read anew for each call, and written once.
"""

from collections.abc import Callable, Sequence
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from gpu.refusal import RefusedError
from hami.deviceids import physical_uuid
from hami.nodelock import Owner
from hami.plugin.claimants import Claimant, is_waiting
from hami.plugin.finding import Finder, Scene
from hami.plugin.granting import (
    MIG_MODE,
    Instances,
    Offers,
    Responder,
    check_answer,
    deviating,
    grant_of,
    known,
    ordered,
    partition_grant,
    usable,
)
from hami.plugin.model import Grant, Offer
from hami.plugin.offering import is_partition
from hami.plugin.podwriting import PodWriter
from hami.plugin.preferring import preferred
from hami.plugin.refitting import Refitter
from hami.plugin.refusals import mismatch, no_instances, twofold
from hami.plugin.releasing import LockReleaser
from hami.plugin.replays import Replay, Replays
from kube.errors import KubeError
from kube.events import EventRecorder, Regarding
from protos import deviceplugin_v1beta1_pb2 as api

log = structlog.get_logger(__name__)

REASON: Final = "DevicesNotHandedOut"
"""Of the event on a pod."""
Asked = Sequence[Sequence[str]]
"""Kubelet's ids, for each container of a call."""


class KubeletGoneError(Exception):
    """Nobody waits for the answer any more, so nothing was handed out."""


def _nobody_asks_otherwise() -> bool:
    return True


class Allocator:
    """Answers `Allocate` and `GetPreferredAllocation`; one call at a time."""

    def __init__(  # noqa: PLR0913 - all that handing out touches
        self,
        *,
        offers: Offers,
        responder: Responder,
        finder: Finder,
        writer: PodWriter,
        locks: LockReleaser,
        refitter: Refitter | None = None,
        instances: Instances | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        """Prepare; without *refitter* and *instances* what needs them is refused."""
        self._offers, self._responder, self._finder = offers, responder, finder
        self._writer, self._locks = writer, locks
        self._refitter, self._instances, self._events = refitter, instances, events
        self._replays = Replays()

    def kubelet_changed(self) -> None:
        """Take note that another kubelet asks from now on."""
        self._replays.kubelet_changed()

    def see_to(self) -> bool:
        """Look at a lock that may have been left behind; tell whether to look again soon."""
        if self._locks.is_doubted:
            self._locks.tidy()
        return self._locks.is_doubted

    def prefer(self, asked: Sequence[api.ContainerPreferredAllocationRequest]) -> list[list[str]]:
        """Return ids for each container; none where kubelet is to choose. Raises nothing."""
        counts = [each.allocation_size for each in asked]
        try:
            scene = self._finder.settled(counts)
            claimant = self._finder.only(scene, counts)
            return self._preferred(claimant, asked)
        except (RefusedError, KubeError) as error:
            log.info("ids not preferred", reason=str(error))
            return [[] for _ in asked]

    def allocate(
        self, asked: Asked, *, wanted: Callable[[], bool] = _nobody_asks_otherwise
    ) -> api.AllocateResponse:
        """Return the answer; raises `RefusedError`, `KubeError` and `KubeletGoneError`.

        *wanted* tells whether kubelet still waits.
        """
        if not any(asked):
            return check_answer([api.ContainerAllocateResponse() for _ in asked])
        counts = [len(each) for each in asked]
        partitions = [is_partition(each) for ids in asked for each in ids]
        try:
            scene = self._finder.settled(counts)
            if all(partitions) and not any(each.suits(counts) for each in scene.claimants):
                return self._pass_through(asked)
            found = self._meant(scene, asked, counts)
        except BaseException:
            # Kubelet is about to fail a pod of which it is not known here whether it has the lock.
            self._locks.doubt()
            raise
        if isinstance(found, Replay):
            log.info("devices handed out again", pod=str(found.identity.key))
            return found.answer
        return self._served(found, asked, wanted, lock=scene.lock)

    def _meant(self, scene: Scene, asked: Asked, counts: Sequence[int]) -> Claimant | Replay:
        again = [each for each in self._replays.of_earlier_kubelets(asked) if self._still(each)]
        if len(again) == 1 and not scene.suiting(counts):
            return again[0]
        if again:
            raise RefusedError(twofold(again[0]))
        try:
            return self._finder.only(scene, counts)
        except RefusedError as error:
            alone = scene.claimants[0] if len(scene.claimants) == 1 else None
            if alone is not None and not scene.undecided:
                self._fail(alone, error)
            self._finder.failed(scene, counts)
            raise

    def _still(self, replay: Replay) -> bool:
        """Tell whether kubelet may ask again for the pod of *replay*."""
        pod = self._finder.pod(replay.identity.key)
        if pod is None or pod["metadata"].get("uid") != replay.identity.uid:
            return False
        return is_waiting(pod, node=self._finder.node)

    def _served(
        self, claimant: Claimant, asked: Asked, wanted: Callable[[], bool], *, lock: str | None
    ) -> api.AllocateResponse:
        key = claimant.identity.key
        with bound_contextvars(pod=str(key), pod_uid=claimant.identity.uid):
            error: BaseException | None = None
            try:
                answer, is_done = self._hand_out(claimant, asked, wanted)
            except KubeletGoneError:
                self._locks.doubt()
                raise
            except BaseException as caught:
                error = caught
                raise
            finally:
                if error is not None:
                    self._fail(claimant, error)
            if is_done and lock is not None:
                self._locks.release(Owner(*key))
            return answer

    def _hand_out(
        self, claimant: Claimant, asked: Asked, wanted: Callable[[], bool]
    ) -> tuple[api.AllocateResponse, bool]:
        places = claimant.next_places(len(asked))
        extra: dict[str, str] = {}
        offer = known(self._offers)
        for place, ids in zip(places, asked, strict=True):
            claimant = self._fitted(claimant, place, ids, offer)
        grants = [self._grant(claimant, place, offer, extra) for place in places]
        answer = check_answer([self._responder.respond(grant) for grant in grants])
        if not wanted():
            raise KubeletGoneError
        is_done = self._writer.hand_out(claimant, places, extra)
        self._replays.note(claimant, places, asked, answer)
        for grant in grants:
            log.info(
                "devices handed out",
                container=grant.container,
                devices=[each.uuid for each in grant.devices],
                pod_is_done=is_done,
            )
        return answer, is_done

    def _grant(self, claimant: Claimant, place: int, offer: Offer, extra: dict[str, str]) -> Grant:
        devices = ordered(claimant.left[place], offer)
        cards = usable(offer)
        divided = [each.uuid for each in devices if cards[each.uuid].mode == MIG_MODE]
        if not divided or all(map(is_partition, divided)):
            return grant_of(claimant, place, devices)
        if self._instances is None or len(divided) != len(devices):
            raise RefusedError(no_instances(claimant, divided[0]))
        realised = self._instances.realise(claimant, place, devices)
        extra |= realised.annotations
        return grant_of(claimant, place, realised.devices)

    def _fitted(self, claimant: Claimant, place: int, ids: Sequence[str], offer: Offer) -> Claimant:
        """Return *claimant* with devices at *place* that are those of *ids*."""
        cards = usable(offer)
        decided = claimant.left[place]
        gone = [each.uuid for each in decided if each.uuid not in cards]
        others = deviating(ids, decided, self._replays.reusable(claimant.identity.uid))
        if not gone and not others:
            return claimant
        allowed = {physical_uuid(each) for each in ids} & cards.keys()
        why = f"{gone[0]} cannot be handed out now" if gone else f"kubelet chose {others[0]}"
        claimant = self._refitted(claimant, place, allowed, why)
        if deviating(ids, claimant.left[place], frozenset()):
            raise RefusedError(mismatch(claimant, place, "the extender chose others again"))
        return claimant

    def _refitted(self, claimant: Claimant, place: int, allowed: set[str], why: str) -> Claimant:
        if self._refitter is None or not allowed:
            raise RefusedError(mismatch(claimant, place, why))
        devices = self._refitter.refit(claimant, place, allowed)
        found = self._finder.claimant(claimant.identity)
        if found is None or found.left[place] != devices:
            why = "the pod does not carry what the extender answered"
            raise RefusedError(mismatch(claimant, place, why))
        log.info("pod refitted", container=claimant.containers[place].name, reason=why)
        return found

    def _preferred(
        self, claimant: Claimant, asked: Sequence[api.ContainerPreferredAllocationRequest]
    ) -> list[list[str]]:
        offer, answer = known(self._offers), []
        for place, each in zip(claimant.next_places(len(asked)), asked, strict=True):
            ids = self._ids(claimant, place, each, offer)
            if not ids and self._refitter is not None:
                allowed = set(map(physical_uuid, each.available_deviceIDs)) & usable(offer).keys()
                why = "kubelet has no ids of the GPUs that were decided"
                claimant = self._refitted(claimant, place, allowed, why)
                ids = self._ids(claimant, place, each, offer)
            answer.append(ids)
        return answer

    @staticmethod
    def _ids(
        claimant: Claimant,
        place: int,
        asked: api.ContainerPreferredAllocationRequest,
        offer: Offer,
    ) -> list[str]:
        decided = [each.uuid for each in ordered(claimant.left[place], offer)]
        available, included = asked.available_deviceIDs, list(asked.must_include_deviceIDs)
        return list(preferred(available, included, asked.allocation_size, decided))

    def _pass_through(self, asked: Asked) -> api.AllocateResponse:
        """Hand out partitions that somebody made beforehand: their ids say it all."""
        offer = known(self._offers)
        grants = [partition_grant(ids, offer) for ids in asked]
        return check_answer([self._responder.respond(grant) for grant in grants])

    def _fail(self, claimant: Claimant, error: BaseException) -> None:
        """Write down that *claimant* gets nothing, and let the next pod come."""
        log.warning("devices not handed out", pod=str(claimant.identity.key), reason=str(error))
        self._writer.fail(claimant)
        self._locks.release(Owner(*claimant.identity.key))
        if self._events is not None:
            key = claimant.identity.key
            pod = Regarding(
                api_version="v1",
                kind="Pod",
                namespace=key.namespace,
                name=key.name,
                uid=claimant.identity.uid,
            )
            self._events.event(pod, "Warning", REASON, str(error) or repr(error))
