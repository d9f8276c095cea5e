"""What one claim is to contain: everything that decides about its text, and nothing else.

The pod carries it in an annotation, from which a claim template is made again later by a program
that trusts nothing else; so it is strict, and two equal requests are one template. Sets are sorted
for that reason. Its JSON leaves defaults out, with sorted keys.
"""

from collections.abc import Callable
from enum import StrEnum
from json import JSONEncoder
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from kube.objects import JsonObject
from kube.shareconfig import CorePolicy, Enforcement
from webhook import cel

DEVICES_MAX: Final = 32
"""Of one claim (resource/v1: `AllocationResultsMaxSize`)."""
MEMORY_MAX_MIB: Final = 1 << 24
SHARES_MAX: Final = 1 << 20
FILL_LEVELS: Final = 4
ALTERNATIVES_MAX: Final = 8
"""Of one request (resource/v1: `FirstAvailableDeviceRequestMaxSize`)."""

_WORDS_MAX: Final = 64
_CORES_ALL: Final = 100


class Devices(StrEnum):
    """Which devices are good."""

    GPU = "gpu"
    MIG = "mig"
    GPU_OR_MIG = "gpu-or-mig"


class Near(StrEnum):
    """What several devices had better have in common."""

    PCIE_ROOT = "pcieRoot"
    NUMA_NODE = "numaNode"


Fill = Literal["binpack", "spread"]


def _ascending(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if list(numbers) != sorted(set(numbers)):
        message = "must ascend"
        raise ValueError(message)
    return numbers


def _fits(build: Callable[[tuple[str, ...]], str]) -> AfterValidator:
    def check(words: tuple[str, ...]) -> tuple[str, ...]:
        if list(words) != sorted(set(words)):
            message = "must be sorted"
            raise ValueError(message)
        if words:
            build(words)
        return words

    return AfterValidator(check)


def _either_uuid(uuids: tuple[str, ...]) -> str:
    return cel.uuid_not_among(uuids, or_parent=True)


Mib = Annotated[int, Field(ge=1, le=MEMORY_MAX_MIB)]
Sizes = Annotated[tuple[Mib, ...], Field(max_length=ALTERNATIVES_MAX), AfterValidator(_ascending)]
ShareCounts = Annotated[
    tuple[Annotated[int, Field(ge=1, le=SHARES_MAX)], ...],
    Field(max_length=ALTERNATIVES_MAX),
    AfterValidator(_ascending),
]
Types = Annotated[tuple[str, ...], Field(max_length=_WORDS_MAX), _fits(cel.type_not_among)]
Uuids = Annotated[tuple[str, ...], _fits(_either_uuid)]


class ShareRequest(BaseModel):
    """One claim; without `memory_mib` and `memory_percent` it asks for whole GPUs."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
    )

    count: Annotated[int, Field(ge=1, le=DEVICES_MAX)] = 1
    count_is_distinct: bool = True
    """Whether the scheduler gives one request for several devices different ones."""
    devices: Devices = Devices.GPU
    memory_mib: Mib | None = None
    """Of each device."""
    memory_percent: Annotated[int, Field(ge=1, le=99)] | None = None
    sizes_mib: Sizes = ()
    """The totals that the percentage may be of."""
    cores: Annotated[int, Field(ge=0, le=100)]
    shares: ShareCounts = ()
    """Take all of so many shares, that is the GPU alone; empty is one share."""
    mig_sizes_mib: Sizes = ()
    """The MIG devices to try, before any that is large enough."""
    numa_bound: bool = False
    near: tuple[Near, ...] = ()
    """What would be good, the best first."""
    fill: Fill | None = None
    fill_steps: Annotated[int, Field(ge=2, le=FILL_LEVELS)] | None = None
    """How many steps of fill are told apart."""
    use_types: Types = ()
    nouse_types: Types = ()
    use_uuids: Uuids = ()
    nouse_uuids: Uuids = ()
    priority: Annotated[int, Field(ge=0, le=1)] | None = None
    core_policy: CorePolicy = "default"
    enforcement: Enforcement = "hami-core"

    @property
    def whole(self) -> bool:
        """Tell whether it asks for whole GPUs."""
        return self.memory_mib is None and self.memory_percent is None

    @property
    def _is_part(self) -> bool:
        return not self.whole or 0 < self.cores < _CORES_ALL

    @property
    def takes_gpus(self) -> bool:
        """Tell whether a GPU, or a share of one, is good."""
        return self.devices is not Devices.MIG

    @property
    def takes_mig(self) -> bool:
        """Tell whether a MIG device is good."""
        return self.devices is not Devices.GPU

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        wrong = {
            "memoryPercent": self.memory_percent is not None and self.memory_mib is not None,
            "sizesMib": bool(self.sizes_mib) != (self.memory_percent is not None),
            "devices": self.takes_mig and self.memory_mib is None,
            "migSizesMib": bool(self.mig_sizes_mib) and not self.takes_mig,
            "shares": bool(self.shares) and (self.whole or not self.takes_gpus),
            "near": len(set(self.near)) != len(self.near) or (bool(self.near) and self.count == 1),
            "enforcement": self.enforcement == "none" and not self._is_part,
            "fillSteps": (self.fill is None) != (self.fill_steps is None),
        }
        if any(wrong.values()):
            message = f"{next(name for name, is_wrong in wrong.items() if is_wrong)} does not fit"
            raise ValueError(message)
        return self


def to_json(request: ShareRequest) -> JsonObject:
    """Return *request* as an object without what is a default."""
    return request.model_dump(mode="json", by_alias=True, exclude_defaults=True)


_CANONICAL: Final = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def canonical(value: object) -> str:
    """Return the one JSON text of *value*: keys sorted, no blanks, ASCII."""
    return _CANONICAL.encode(value)
