"""Makes one MIG instance for a container, or takes it away, and never one that is somebody else's.

A record and the driver have to agree: profile, place and numbers, and the UUID of the MIG device
once it has one. Of an instance that was about to be made nobody knows the number, so one at its
place is taken for it only as long as it is no MIG device: others make theirs whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import structlog

from gpu.errors import NvmlError
from gpu.miginstances import (
    MadeInstance,
    Place,
    destroy,
    instances_of,
    make_compute_instance,
    make_gpu_instance,
    mig_uuid,
)
from gpu.model import GpuUuid
from gpu.scan import Call
from hami.plugin.partitionrecord import Partition, PartitionRecord

log = structlog.get_logger(__name__)

_NO_MIG: Final = "NOT_SUPPORTED"
"""Answered by a GPU on which MIG was switched off, and all instances with it."""


class Session(Protocol):
    """What is needed of the session with the driver."""

    @property
    def call(self) -> Call:
        """Calls one function."""

    def handles(self) -> Mapping[GpuUuid, Any]:
        """Return the handle of each GPU that was read last."""


Sessions = Callable[[], Session | None]


class Partitioner:
    """Makes and removes what *record* knows of; for one thread at a time."""

    def __init__(self, sessions: Sessions, record: PartitionRecord) -> None:
        self._sessions, self._record = sessions, record

    def is_there(self, partition: Partition) -> bool:
        """Tell whether a whole *partition* is as the record says; raises `NvmlError`."""
        if not partition.is_whole:
            return False
        found = self._found(partition)
        return found is not None and found.mig_uuid == partition.mig_uuid

    def make(self, partition: Partition) -> Partition:
        """Make it where it is to be; raises `NvmlError`, StoreError and `RefusedError`.

        Whatever was made of it until then is in the record.
        """
        call, handle = self._gpu(partition)
        place = _place(partition)
        if any(each.place == place for each in instances_of(call, handle, partition.slices)):
            raise NvmlError("INSUFFICIENT_RESOURCES", "nvmlDeviceGetGpuInstances", "place taken")
        self._record.put(partition)
        number = make_gpu_instance(call, handle, place)
        partition = partition.model_copy(update={"gpu_instance_id": number})
        self._record.put(partition)
        compute = make_compute_instance(call, handle, place, number)
        uuid = mig_uuid(call, handle, number, compute)
        if uuid is None:
            raise NvmlError("NOT_FOUND", "nvmlDeviceGetMigDeviceHandleByIndex", partition.profile)
        partition = partition.model_copy(update={"compute_instance_id": compute, "mig_uuid": uuid})
        self._record.put(partition)
        log.info(
            "mig instance made",
            uuid=uuid,
            gpu=partition.gpu_uuid,
            profile=partition.profile,
            start=partition.start,
            pod_uid=partition.pod_uid,
        )
        return partition

    def remove(self, partition: Partition) -> None:
        """Destroy and forget it; raises `NvmlError`, StoreError and `RefusedError`."""
        found = self._found(partition)
        if found is not None:
            call, handle = self._gpu(partition)
            destroy(call, handle, found.gpu_instance_id)
        self._record.drop(partition)
        log.info(
            "mig instance destroyed" if found else "mig instance forgotten",
            uuid=partition.mig_uuid,
            gpu=partition.gpu_uuid,
            profile=partition.profile,
            start=partition.start,
            pod_uid=partition.pod_uid,
        )

    def _found(self, partition: Partition) -> MadeInstance | None:
        """Return the instance of *partition*, `None` where there is none that is it."""
        call, handle = self._gpu(partition)
        try:
            there = instances_of(call, handle, partition.slices)
        except NvmlError as error:
            if error.reason == _NO_MIG:
                return None
            raise
        at_place = (each for each in there if each.place == _place(partition))
        return next((each for each in at_place if _is_it(partition, each)), None)

    def _gpu(self, partition: Partition) -> tuple[Call, Any]:
        session = self._sessions()
        handle = session.handles().get(GpuUuid(partition.gpu_uuid)) if session else None
        if session is None or handle is None:
            raise NvmlError("GPU_NOT_FOUND", "nvmlDeviceGetHandleByUUID", partition.gpu_uuid)
        return session.call, handle


def _is_it(partition: Partition, instance: MadeInstance) -> bool:
    if partition.gpu_instance_id is None:
        return instance.mig_uuid is None
    if partition.gpu_instance_id != instance.gpu_instance_id:
        return False
    # One that has lost its compute instance was half destroyed.
    uuids = {partition.mig_uuid, instance.mig_uuid}
    return len(uuids) == 1 or None in uuids


def _place(partition: Partition) -> Place:
    return Place(slices=partition.slices, start=partition.start, size=partition.size)
