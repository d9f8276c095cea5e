"""Limits on shares, as HAMi-core reads them from a container's environment.

HAMi-core is a library that is preloaded into every program of the container and counts what it
allocates. It numbers devices as CUDA does, hence `CUDA_DEVICE_ORDER`; a device without a memory
limit shows 0 bytes, and an indexed limit of 0 falls back to another one, so both limits are
written for every device and "no core limit" is 100. Numbers are read like C's: a leading zero
would be octal, `Gi` would be bytes (HAMi-core: multiprocess/multiprocess_memory_limit.c).
"""

from dataclasses import dataclass
from typing import Final, Literal

from cdi.edits import ContainerEdits, Mount
from cdi.library import CONTAINER_LIBRARY_PATH, HookLibrary
from gpu.refusal import Refusal, RefusedError

REGION_PATH: Final = "/run/gpuslice/region.cache"
PRELOAD_PATH: Final = "/etc/ld.so.preload"
DEVICES_MAX: Final = 16
"""HAMi-core overruns its own region with more."""

CORES_ALL: Final = 100
_MEMORY_MIB_END: Final = 2**44  # in bytes 2**64, where the library's numbers end
_LOG_LEVEL_MAX: Final = 4

_REGION_OPTIONS = ("rw", "bind", "nosuid", "nodev")
_LIBRARY_OPTIONS = ("ro", "bind", "nosuid", "nodev")

CorePolicy = Literal["default", "force", "disable"]


def _refuse(code: str, field: str, value: object, limit: str) -> RefusedError:
    return RefusedError(Refusal(code=code, field=field, value=str(value), limit=limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimit:
    """The limits of one visible GPU; refuses what HAMi-core would read as "none"."""

    memory_mib: int
    cores_percent: int
    """1 to 99, or 100 for no limit."""

    def __post_init__(self) -> None:
        if not 0 < self.memory_mib < _MEMORY_MIB_END:
            raise _refuse("MemoryLimitInvalid", "memory", self.memory_mib, "1 MiB or more")
        if not 0 < self.cores_percent <= CORES_ALL:
            raise _refuse("CoreLimitInvalid", "cores", self.cores_percent, "1 to 100 percent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """All that HAMi-core needs in one container; *limits* are in order of PCI bus id."""

    library: HookLibrary
    region_host_path: str
    limits: tuple[DeviceLimit, ...]
    priority: int | None = None
    """0 is high, 1 low; works only beside a core limit below 100."""
    core_policy: CorePolicy = "default"
    log_level: int | None = None
    """0 and 1 errors, 2 warnings, 3 information, 4 all."""

    def __post_init__(self) -> None:
        if not 0 < len(self.limits) <= DEVICES_MAX:
            limit = f"1 to {DEVICES_MAX} GPUs in one container"
            raise _refuse("TooManyDevices", "limits", len(self.limits), limit)
        if self.priority not in {None, 0, 1}:
            raise _refuse("PriorityInvalid", "priority", self.priority, "0 or 1")
        if self.log_level is not None and not 0 <= self.log_level <= _LOG_LEVEL_MAX:
            raise _refuse("LogLevelInvalid", "logLevel", self.log_level, "0 to 4")


def _environment(enforcement: Enforcement) -> list[str]:
    env = ["CUDA_DEVICE_ORDER=PCI_BUS_ID", f"CUDA_DEVICE_MEMORY_SHARED_CACHE={REGION_PATH}"]
    for index, limit in enumerate(enforcement.limits):
        env += [
            f"CUDA_DEVICE_MEMORY_LIMIT_{index}={limit.memory_mib}m",
            f"CUDA_DEVICE_SM_LIMIT_{index}={limit.cores_percent}",
        ]
    if enforcement.priority is not None:
        env.append(f"CUDA_TASK_PRIORITY={enforcement.priority}")
    if enforcement.core_policy != "default":
        env.append(f"GPU_CORE_UTILIZATION_POLICY={enforcement.core_policy.upper()}")
    if enforcement.log_level is not None:
        env.append(f"LIBCUDA_LOG_LEVEL={enforcement.log_level}")
    return env


def enforcement_edits(enforcement: Enforcement) -> ContainerEdits:
    """Return the edits that make HAMi-core enforce the limits; they belong to a whole claim.

    Only the region's file is writable, never a directory: a container could fill the disk.
    """
    library = enforcement.library
    return ContainerEdits(
        env=tuple(_environment(enforcement)),
        mounts=(
            Mount(
                host_path=enforcement.region_host_path,
                container_path=REGION_PATH,
                options=_REGION_OPTIONS,
            ),
            Mount(
                host_path=library.host_library_path,
                container_path=CONTAINER_LIBRARY_PATH,
                options=_LIBRARY_OPTIONS,
            ),
            Mount(
                host_path=library.host_preload_path,
                container_path=PRELOAD_PATH,
                options=_LIBRARY_OPTIONS,
            ),
        ),
    )
