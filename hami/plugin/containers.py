"""What the node keeps for each container with limits, from `Allocate` until its pod is gone.

Kubelet remembers the answer to `Allocate` in a file of its own and starts a container again by it,
also after a reboot, without asking. So what the answer names must be there whenever kubelet looks:
the region, which lies in memory and is gone after a reboot, is made again from the record, and the
library's copy stays as long as a record names it (kubernetes: `pkg/kubelet/cm/devicemanager`).
"""

import re
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdi.durable import Whole, remove, sweep_temporary, write_whole
from cdi.errors import StoreError, store_errors
from cdi.faults import FaultPoint
from cdi.region import reset_region
from cdi.regionstore import RegionStore
from gpu.refusal import Refusal, RefusedError

log = structlog.get_logger(__name__)

GRACE_S: Final = 120.0
"""A container may be given its GPUs before its pod is known here."""
_SUFFIX: Final = ".json"
_OWNER: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}_[a-z0-9][a-z0-9-]{0,62}")
_POINTS: Final = Whole(
    FaultPoint.CONTAINER_TEMPORARY_WRITTEN,
    FaultPoint.CONTAINER_WRITTEN,
    FaultPoint.CONTAINERS_DIRECTORY_MADE,
)


class ContainerRecord(BaseModel):
    """A container whose limits HAMi-core enforces."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    format: Literal[1] = 1
    pod_uid: str
    namespace: str
    pod: str
    container: str
    library_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    region_size: Annotated[int, Field(gt=0)]
    with_lock: bool

    @property
    def owner(self) -> str:
        """The name of its region and of its record."""
        return owner_name(self.pod_uid, self.container)


def owner_name(pod_uid: str, container: str) -> str:
    """Return the name by which a container's files go; RefusedError if it cannot be one."""
    name = f"{pod_uid}_{container}"
    if _OWNER.fullmatch(name) is None:
        raise RefusedError(
            Refusal(
                code="ContainerNameInvalid",
                field="pod",
                value=name,
                limit="a UID and the name of a container",
            )
        )
    return name


class ContainerStore:
    """Records in *directory* and regions in *regions*; may be used by several threads."""

    def __init__(self, directory: Path, regions: RegionStore, *, grace_s: float = GRACE_S) -> None:
        self._directory, self._regions = directory, regions
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._gone_since: dict[str, float] = {}
        self._seen: frozenset[str] = frozenset()
        """Whose pods must be known by now if they are there."""
        self._said: set[str] = set()

    def prepare(self) -> None:
        """Remove what writes that never finished left; before the first `keep`."""
        with store_errors(self._directory):
            sweep_temporary(self._directory)
        # Whoever was given GPUs before this process began is in every list of pods, or gone.
        self._seen = frozenset(self._names() | self._regions.owners())

    def region_host_path(self, record: ContainerRecord) -> str:
        """Return where the host finds the region of *record*."""
        return self._regions.host_path(record.owner)

    def lock_host_path(self, record: ContainerRecord) -> str:
        """Return where the host finds the directory for locks of *record*."""
        return self._regions.lock_host_path(record.owner)

    def keep(self, record: ContainerRecord) -> None:
        """Have *record* and its region; an empty one unless a process uses it.

        StoreError if they cannot be written, `RefusedError` if they may not be.
        """
        owner = record.owner
        with self._lock:
            self._gone_since.pop(owner, None)
            path = self._path(owner)
            with store_errors(path):
                # First: a region without a record would not come back after a reboot.
                write_whole(path, record.model_dump_json().encode() + b"\n", _POINTS, sync=True)
            self._make(record)
            try:
                reset_region(self._regions.path(owner))
            except StoreError as error:
                log.warning("region not reset", owner=owner, reason=str(error))

    def restore(self) -> None:
        """Make again the regions that are gone; what fails is logged."""
        for owner in self._names():
            with self._lock:
                record = self._read(owner)
                if record is None:
                    continue
                try:
                    self._make(record)
                except (StoreError, RefusedError, OSError) as error:
                    self._say(owner, "region not restored", error)

    def sweep(
        self, live: Collection[tuple[str, str]], deleted: Collection[str] = frozenset()
    ) -> None:
        """Remove what is of no container of *live*, which are pod UIDs and container names.

        Only what was there before, is of a pod of *deleted* (UIDs) or has been gone for a while,
        and never what a process uses.
        """
        kept = {f"{pod_uid}_{container}" for pod_uid, container in live}
        known = {each for each in self._names() | self._regions.owners() if _OWNER.fullmatch(each)}
        with self._lock:
            for owner in self._gone_since.keys() - (known - kept):
                del self._gone_since[owner]
            seen = self._seen
            # One that a process still uses is to go as soon as it does not.
            self._seen = frozenset(known & (kept | seen))
        now_s = time.monotonic()
        for owner in sorted(known - kept):
            with self._lock:
                gone_s = now_s - self._gone_since.setdefault(owner, now_s)
                is_known = owner in seen or owner.partition("_")[0] in deleted
                if is_known or gone_s >= self._grace_s:
                    self._remove(owner)

    def libraries(self) -> frozenset[str] | None:
        """Return the hashes of libraries that records name, `None` if one cannot be read."""
        found = set[str]()
        for owner in self._names():
            record = self._read(owner)
            if record is None and self._path(owner).exists():
                return None
            if record is not None:
                found.add(record.library_sha256)
        return frozenset(found)

    def _make(self, record: ContainerRecord) -> None:
        with store_errors(self._regions.path(record.owner)):
            self._regions.ensure(record.owner, size=record.region_size, with_lock=record.with_lock)

    def _remove(self, owner: str) -> None:
        try:
            if self._regions.remove_unused(owner):
                remove(self._path(owner), FaultPoint.CONTAINER_REMOVED)
                self._gone_since.pop(owner, None)
                self._said.discard(owner)
                log.info("container's region removed", owner=owner)
        except (StoreError, OSError) as error:
            self._say(owner, "container's region not removed", error)

    def _read(self, owner: str) -> ContainerRecord | None:
        try:
            record = ContainerRecord.model_validate_json(self._path(owner).read_bytes())
            if record.owner == owner:
                return record
            reason: Exception = ValueError(f"it is of {record.owner}")
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, RefusedError) as error:
            reason = error
        self._say(owner, "record of a container not readable", reason)
        return None

    def _say(self, owner: str, event: str, error: Exception) -> None:
        if owner not in self._said:
            self._said.add(owner)
            log.warning(event, owner=owner, reason=str(error))

    def _names(self) -> set[str]:
        try:
            names = [each.name for each in self._directory.iterdir()]
        except FileNotFoundError:
            return set()
        found = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return {name for name in found if _OWNER.fullmatch(name)}

    def _path(self, owner: str) -> Path:
        return self._directory / f"{owner}{_SUFFIX}"
