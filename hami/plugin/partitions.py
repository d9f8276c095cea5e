"""MIG instances for containers: made as the scheduler reserved them, destroyed with their pods.

The scheduler says profile and place (`hami.io/vgpu-mig-allocations`), and the node makes just that
when kubelet asks for the container, adds the numbers and the UUID to the annotation, and destroys
the instance once its pod has ended. Which instances are the node's own is in a record: none else is
ever touched. MIG itself is switched on by an administrator.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import structlog

from cdi.errors import StoreError
from gpu.errors import GpuError
from gpu.refusal import Refusal, RefusedError
from hami import keys
from hami.devices import MigAllocation, PodDevice
from hami.migallocations import decode_mig_allocations, encode_mig_allocations
from hami.plugin.claimants import Claimant
from hami.plugin.granting import Realised
from hami.plugin.partitioning import Partitioner
from hami.plugin.partitionrecord import Partition, PartitionRecord
from hami.reading import Undecodable
from kube.errors import KubeError

log = structlog.get_logger(__name__)

LOOK_S: Final = 5.0
"""How often to look for instances whose pods have ended."""
_TROUBLES: Final = (GpuError, StoreError, RefusedError)

HasEnded = Callable[[Partition], bool]
"""Tells whether the pod of a partition will never run again; raises `KubeError`."""
Shown = Callable[[frozenset[str]], bool]
"""Has the GPUs read again; tells whether the MIG devices of these UUIDs came to be known."""


class Partitions:
    """The node's own MIG instances; may be used by several threads."""

    def __init__(
        self,
        partitioner: Partitioner,
        record: PartitionRecord,
        *,
        has_ended: HasEnded,
        shown: Shown,
    ) -> None:
        self._partitioner, self._record = partitioner, record
        self._has_ended, self._shown = has_ended, shown
        self._lock = threading.Lock()
        self._is_adopted = False
        self._said = dict[tuple[str, int, int], str]()

    def prepare(self) -> None:
        """Get ready, before anything else is called; StoreError."""
        self._record.prepare()

    def realise(self, claimant: Claimant, place: int, devices: Sequence[PodDevice]) -> Realised:
        """Make what was reserved for the container at *place*; raises `RefusedError`.

        If one of its instances cannot be had, none is left.
        """
        with self._lock:
            wanted = _reserved(claimant, place, devices)
            made: list[Partition] = []
            try:
                found = [self._had(claimant, each, made) for each in wanted]
                self._check_shown(claimant, found)
                annotation = self._told(claimant)
            except (GpuError, StoreError) as error:
                self._take_back(made)
                raise RefusedError(_not_made(claimant, wanted, error)) from error
            except BaseException:
                self._take_back(made)
                raise
        return Realised(
            devices=tuple(
                replace(device, uuid=each.mig_uuid or "")
                for device, each in zip(devices, found, strict=True)
            ),
            annotations={keys.MIG_ALLOCATIONS: annotation},
        )

    def reconcile(self) -> None:
        """Destroy the instances whose pods have ended; what goes wrong is logged."""
        with self._lock:
            try:
                self._adopt()
                self._destroy_ended(self._record.all())
            except KubeError as error:
                log.info("mig instances not looked at", reason=str(error))
            except _TROUBLES as error:
                self._say(("", 0, 0), "mig instances not looked at", error)

    def _had(self, claimant: Claimant, wanted: MigAllocation, made: list[Partition]) -> Partition:
        partition = _planned(claimant, wanted)
        known = self._record.all()
        own = next((each for each in known if each.owner == partition.owner), None)
        if own is not None and own.is_of(wanted) and self._partitioner.is_there(own):
            return own
        if own is not None:
            self._partitioner.remove(own)
        shared = self._of_another_container(partition, wanted)
        if shared is not None:
            return shared
        others = [each for each in known if each is not own and each.overlaps(wanted)]
        try:
            self._destroy_ended(others)
        except KubeError as error:
            log.info("mig instances not looked at", reason=str(error))
        made.append(partition)
        return self._partitioner.make(partition)

    def _of_another_container(
        self, partition: Partition, wanted: MigAllocation
    ) -> Partition | None:
        """Return an instance of the same pod at the very place, which is then of both.

        The scheduler gives an init container a place that another gets after it.
        """
        for each in self._record.all():
            is_other = each.pod_uid == partition.pod_uid and each.owner != partition.owner
            if is_other and each.is_of(wanted) and self._partitioner.is_there(each):
                indexes = partition.model_dump(include={"container_index", "device_index"})
                found = each.model_copy(update=indexes)
                self._record.put(found)
                return found
        return None

    def _check_shown(self, claimant: Claimant, found: Sequence[Partition]) -> None:
        uuids = frozenset(each.mig_uuid or "" for each in found)
        if not self._shown(uuids):
            raise RefusedError(
                Refusal(
                    code="PartitionsNotRead",
                    field=f"pod {claimant.identity.key}",
                    value=", ".join(sorted(uuids)),
                    limit="the MIG devices were made, and the driver does not show them",
                )
            )

    def _told(self, claimant: Claimant) -> str:
        """Return the pod's annotation with the identity of all instances that it has."""
        own = {
            each.owner[1:]: each
            for each in self._record.all()
            if each.pod_uid == claimant.identity.uid and each.is_whole
        }
        return encode_mig_allocations(
            [
                _with_identity(each, own.get((each.container_index, each.device_index)))
                for each in _allocations(claimant)
            ]
        )

    def _take_back(self, made: Sequence[Partition]) -> None:
        if not made:
            return
        owners = {each.owner for each in made}
        for each in [each for each in self._record.all() if each.owner in owners]:
            self._try_remove(each)

    def _adopt(self) -> None:
        """Forget, once after the start, whole instances that are not there any more."""
        if self._is_adopted:
            return
        self._is_adopted = True
        for each in self._record.all():
            try:
                if each.is_whole and not self._partitioner.is_there(each):
                    self._partitioner.remove(each)
            except _TROUBLES as error:
                self._is_adopted = False
                self._say(each.owner, "mig instance not looked at", error)

    def _destroy_ended(self, partitions: Sequence[Partition]) -> None:
        # All answers first: an error keeps everything.
        for each in [each for each in partitions if self._has_ended(each)]:
            self._try_remove(each)

    def _try_remove(self, partition: Partition) -> None:
        try:
            self._partitioner.remove(partition)
        except _TROUBLES as error:
            self._say(partition.owner, "mig instance not destroyed", error)
        else:
            self._said.pop(partition.owner, None)

    def _say(self, about: tuple[str, int, int], event: str, error: Exception) -> None:
        if self._said.get(about) != str(error):
            self._said[about] = str(error)
            log.warning(event, pod_uid=about[0], reason=str(error))


def _planned(claimant: Claimant, wanted: MigAllocation) -> Partition:
    identity = claimant.identity
    return Partition(
        pod_uid=identity.uid,
        namespace=identity.key.namespace,
        pod=identity.key.name,
        container_index=wanted.container_index,
        device_index=wanted.device_index,
        gpu_uuid=wanted.gpu_uuid,
        profile=wanted.profile,
        start=wanted.placement.start,
        size=wanted.placement.size,
    )


def _allocations(claimant: Claimant) -> tuple[MigAllocation, ...]:
    found = decode_mig_allocations(claimant.annotations.get(keys.MIG_ALLOCATIONS, ""))
    if isinstance(found, Undecodable):
        raise RefusedError(_mismatch(claimant, f"{keys.MIG_ALLOCATIONS}: {found}"))
    return found


def _reserved(
    claimant: Claimant, place: int, devices: Sequence[PodDevice]
) -> tuple[MigAllocation, ...]:
    """Return what was reserved for each of *devices*, which are in an order of their own."""
    there = [each for each in _allocations(claimant) if each.container_index == place]
    left = sorted(there, key=lambda each: each.device_index)
    if len(left) != len(devices):
        why = f"{len(left)} places are reserved for {len(devices)} devices"
        raise RefusedError(_mismatch(claimant, why))
    return tuple(_taken(claimant, left, devices))


def _taken(
    claimant: Claimant, left: list[MigAllocation], devices: Sequence[PodDevice]
) -> Iterator[MigAllocation]:
    for device in devices:
        found = next((each for each in left if each.gpu_uuid == device.uuid), None)
        if found is None:
            raise RefusedError(_mismatch(claimant, f"no place is reserved on {device.uuid}"))
        left.remove(found)
        yield found


def _with_identity(allocation: MigAllocation, partition: Partition | None) -> MigAllocation:
    if partition is None or not partition.is_of(allocation):
        return allocation
    return replace(
        allocation,
        mig_uuid=partition.mig_uuid,
        gpu_instance_id=partition.gpu_instance_id,
        compute_instance_id=partition.compute_instance_id,
    )


def _mismatch(claimant: Claimant, why: str) -> Refusal:
    return Refusal(
        code="PartitionsNotReserved",
        field=f"pod {claimant.identity.key}",
        value=keys.MIG_ALLOCATIONS,
        limit=why,
    )


def _not_made(
    claimant: Claimant, wanted: Sequence[MigAllocation], error: GpuError | StoreError
) -> Refusal:
    places = (
        f"{each.gpu_uuid} {each.profile} {each.placement.start}:{each.placement.size}"
        for each in wanted
    )
    return Refusal(
        code="PartitionsNotMade",
        field=f"pod {claimant.identity.key}",
        value=", ".join(places),
        limit=str(error),
        remedy="a place may be taken by an instance that somebody else made: nvidia-smi mig -lgi",
    )
