"""What the node has made of MIG instances, and for whom: nothing else may be destroyed.

An instance is written down before it is made and again as soon as its numbers are known, so that
none is left behind unknown. Instances do not outlive a reboot, and their numbers are given again:
what is from another boot says nothing any more.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdi.durable import Whole, sweep_temporary, write_whole
from cdi.errors import store_errors
from cdi.faults import FaultPoint
from gpu.refusal import Refusal, RefusedError
from hami.devices import MigAllocation
from kube.objects import ObjectKey

_POINTS: Final = Whole(FaultPoint.PARTITIONS_TEMPORARY_WRITTEN, FaultPoint.PARTITIONS_WRITTEN)
_Number = Annotated[int, Field(ge=0)]


class Partition(BaseModel):
    """One instance, made or about to be made for a device of a container."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    pod_uid: str
    namespace: str
    pod: str
    container_index: _Number
    device_index: _Number
    gpu_uuid: str
    profile: str
    start: _Number
    size: _Number
    gpu_instance_id: _Number | None = None
    """`None` as long as it is not known that there is one."""
    compute_instance_id: _Number | None = None
    mig_uuid: str | None = None

    @property
    def key(self) -> ObjectKey:
        """The pod's name."""
        return ObjectKey(self.namespace, self.pod)

    @property
    def owner(self) -> tuple[str, int, int]:
        """Whose it is."""
        return self.pod_uid, self.container_index, self.device_index

    @property
    def slices(self) -> str:
        """Its compute slices, by which the profile is named."""
        return self.profile.partition(".")[0]

    @property
    def is_whole(self) -> bool:
        """Whether all that there is to make was made."""
        return self.mig_uuid is not None

    def is_of(self, allocation: MigAllocation) -> bool:
        """Tell whether it is what *allocation* wants."""
        place = allocation.placement
        wanted = (allocation.gpu_uuid, allocation.profile, place.start, place.size)
        return (self.gpu_uuid, self.profile, self.start, self.size) == wanted

    def overlaps(self, allocation: MigAllocation) -> bool:
        """Tell whether both cannot be there at the same time."""
        place = allocation.placement
        return self.gpu_uuid == allocation.gpu_uuid and (
            self.start < place.start + place.size and place.start < self.start + self.size
        )


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    format: Literal[1] = 1
    boot_id: str
    partitions: tuple[Partition, ...] = Field(default=(), strict=False)


class PartitionRecord:
    """The file at *path*, read each time; for one thread at a time."""

    def __init__(self, path: Path, *, boot_id: str) -> None:
        self._path, self._boot_id = path, boot_id

    def prepare(self) -> None:
        """Remove what writes that never finished left; before the first write; StoreError."""
        with store_errors(self._path):
            sweep_temporary(self._path.parent, self._path.name)

    def all(self) -> tuple[Partition, ...]:
        """Return all partitions.

        Raises StoreError, and `RefusedError` where the file says nothing that can be read.
        """
        try:
            with store_errors(self._path):
                try:
                    content = self._path.read_bytes()
                except FileNotFoundError:
                    return ()
            document = _Document.model_validate_json(content)
        except ValidationError as error:
            raise RefusedError(
                Refusal(
                    code="PartitionRecordUnreadable",
                    field="node",
                    value=str(self._path),
                    limit="it cannot be told which MIG instances are the agent's",
                    remedy="destroy those that nobody uses by hand, then remove the file",
                )
            ) from error
        return document.partitions if document.boot_id == self._boot_id else ()

    def put(self, partition: Partition) -> None:
        """Keep *partition* in place of what its owner had; StoreError, `RefusedError`."""
        others = [each for each in self.all() if each.owner != partition.owner]
        self._write((*others, partition))

    def drop(self, partition: Partition) -> None:
        """Forget what the owner of *partition* has; StoreError, `RefusedError`."""
        self._write(tuple(each for each in self.all() if each.owner != partition.owner))

    def _write(self, partitions: tuple[Partition, ...]) -> None:
        document = _Document(boot_id=self._boot_id, partitions=partitions)
        with store_errors(self._path):
            write_whole(self._path, document.model_dump_json().encode() + b"\n", _POINTS, sync=True)
