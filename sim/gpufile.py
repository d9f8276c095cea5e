"""The file that describes the GPUs of one simulated node.

It is edited while a cluster runs: to break a GPU, to take one away, to change partitions. So it
is strict, and an edit that is wrong says where and leaves the last good state in force
(`sim.nvml`).
"""

from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sim import boards

Reason = Literal[
    "UNINITIALIZED",
    "INVALID_ARGUMENT",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "NOT_FOUND",
    "INSUFFICIENT_SIZE",
    "INSUFFICIENT_POWER",
    "DRIVER_NOT_LOADED",
    "TIMEOUT",
    "IRQ_ISSUE",
    "LIBRARY_NOT_FOUND",
    "FUNCTION_NOT_FOUND",
    "CORRUPTED_INFOROM",
    "GPU_IS_LOST",
    "RESET_REQUIRED",
    "OPERATING_SYSTEM",
    "LIB_RM_VERSION_MISMATCH",
    "IN_USE",
    "MEMORY",
    "NO_DATA",
    "INSUFFICIENT_RESOURCES",
    "ARGUMENT_VERSION_MISMATCH",
    "DEPRECATED",
    "NOT_READY",
    "GPU_NOT_FOUND",
    "INVALID_STATE",
    "UNKNOWN",
]
REASONS: tuple[str, ...] = get_args(Reason)

ComputeModeWord = Literal["default", "exclusive-process", "prohibited"]
RecoveryWord = Literal[
    "none",
    "gpu-reset",
    "node-reboot",
    "drain-p2p",
    "drain-and-reset",
    "recover-imex-domain",
    "bus-reset",
    "system-reboot",
]
"""What the driver advises, in the order of NVML's numbers."""

_BUS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
Symbol = Annotated[str, Field(pattern=r"^(nvml[A-Za-z0-9]+(_v\d+)?|all)$")]
Errors = dict[Symbol, Reason]
"""C function, with or without its version, or `all`, and how it fails."""


class GpuFileError(Exception):
    """The file cannot be read or does not say what it must; the text names each field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Partition(_Strict):
    """A MIG device; a bare profile name stands for one that is placed anywhere."""

    profile: str
    start: int | None = Field(default=None, ge=0)
    uuid: str | None = Field(default=None, pattern=r"^MIG-[A-Za-z0-9-]+$")


class XidEntry(_Strict):
    """An XID; a bare number stands for one of the whole GPU."""

    xid: int = Field(ge=0)
    partition: str | None = None
    """UUID of the MIG device that it hit; one that is not there stands for one that was."""


class ProcessEntry(_Strict):
    """A process that computes or draws on a GPU."""

    pid: int = Field(gt=0)
    memory_mib: int | None = Field(default=0, ge=0)
    """`null` where the driver does not know."""
    graphics: bool = False
    partition: str | None = None
    """UUID of the MIG device on which it runs."""


class GpuEntry(_Strict):
    """One GPU, or *count* of them that differ only in what follows from their index."""

    profile: str
    count: int = Field(default=1, gt=0)
    uuid: str | None = Field(default=None, pattern=r"^GPU-[A-Za-z0-9-]+$")
    pci: str | None = Field(default=None, pattern=rf"^{_BUS}$")
    minor: int | None = Field(default=None, ge=0)
    name: str | None = Field(default=None, min_length=1, max_length=95)
    memory_mib: int | None = Field(default=None, gt=0)
    numa_node: int = Field(default=0, ge=-1)
    pcie_root: str = Field(default="pci0000:00", pattern=r"^pci[0-9a-f]{4}:[0-9a-f]{2}$")
    compute_mode: ComputeModeWord = "default"
    nvlinks: list[Annotated[str, Field(pattern=rf"^(switch|down|{_BUS})$")]] = Field(
        default_factory=list
    )
    """What is at the end of each NVLink: a switch, the GPU of a bus id, or nothing that is up."""
    mig: list[Partition] | None = None
    """Absent: MIG mode is off; empty: on, without partitions."""
    errors: Errors = Field(default_factory=dict)
    xids: list[XidEntry] = Field(default_factory=list)
    """Delivered once each, to whoever waits for events when they are added."""
    reports_xids: bool = True
    """An old GPU does not."""
    recovery_action: RecoveryWord | int | None = "none"
    """What the driver advises; `null` for a driver that gives no advice for this GPU."""
    processes: list[ProcessEntry] = Field(default_factory=list)
    """Their memory is what is used of the GPU."""
    utilization_percent: int | None = Field(default=0, ge=0)
    """`null` for a GPU that does not tell, as one with partitions does not."""
    memory_utilization_percent: int = Field(default=0, ge=0)

    @field_validator("profile")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in boards.names():
            message = f"unknown profile `{value}`; known: {', '.join(boards.names())}"
            raise ValueError(message)
        return value

    @field_validator("mig", mode="before")
    @classmethod
    def _bare_names(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"profile": each} if isinstance(each, str) else each for each in value]

    @field_validator("xids", mode="before")
    @classmethod
    def _bare_xids(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"xid": each} if isinstance(each, int) else each for each in value]

    @model_validator(mode="after")
    def _consistent(self) -> "GpuEntry":
        if self.count > 1 and (self.uuid or self.pci or self.minor is not None):
            message = "`count` above 1 excludes `uuid`, `pci` and `minor`"
            raise ValueError(message)
        table = boards.board(self.profile).mig
        if self.mig is not None and table is None:
            message = f"`{self.profile}` cannot be partitioned: remove `mig`"
            raise ValueError(message)
        for each in self.mig or ():
            if table is not None and table.named(each.profile) is None:
                known = ", ".join(profile.name for profile in table.profiles)
                message = f"`{self.profile}` has no MIG profile `{each.profile}`; it has {known}"
                raise ValueError(message)
        return self


class Driver(_Strict):
    """The driver of the node."""

    version: str = Field(default="580.95.05", pattern=r"^\d+(\.\d+)+$")
    cuda: str = Field(default="13.0", pattern=r"^\d+\.\d$")


class GpuFile(_Strict):
    """Everything the simulated driver of one node knows."""

    node: str = Field(default="node", min_length=1)
    """UUIDs that are not given follow from this name and the GPU's index."""
    driver: Driver = Driver()
    missing: list[str] = Field(default_factory=list)
    """C functions that this driver is too old to have."""
    errors: Errors = Field(default_factory=dict)
    """Failures of calls that concern no GPU, such as `nvmlInitWithFlags`."""
    delays_s: dict[Symbol, Annotated[float, Field(ge=0, strict=False)]] = Field(
        default_factory=dict
    )
    """How long calls take."""
    gpus: list[GpuEntry]


def parse(text: str, *, source: str = "the GPU file") -> GpuFile:
    """Return what *text* says, or raise `GpuFileError` with one line for each mistake."""
    try:
        return GpuFile.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        message = f"{source}: not YAML: {error}"
        raise GpuFileError(message) from error
    except ValidationError as error:
        lines = [
            f"{source}: {'.'.join(map(str, each['loc'])) or 'document'}: {each['msg']}"
            for each in error.errors(include_url=False)
        ]
        raise GpuFileError("\n".join(lines)) from error


def load(path: Path) -> GpuFile:
    """Read the file at *path*."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read: {error}"
        raise GpuFileError(message) from error
    return parse(text, source=str(path))
