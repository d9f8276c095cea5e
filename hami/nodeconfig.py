"""What holds for the GPUs of one node, and where each value is from.

HAMi's `device-config.yaml` says what holds for all nodes; the file `config.json` of its device
plugin says what differs on some: `{"nodeconfig": [{"name": "node-a", "devicesplitcount": 4}]}`
(HAMi v2.10: `cmd/device-plugin/nvidia/vgpucfg.go`). There an entry is for the node of exactly that
name. Here it may be for a pattern of names, or for nodes with labels: nodes of a pool that grows by
itself have names that nobody knows beforehand. One entry counts for a node, never several: the one
by labels, else by the exact name, else by a pattern, else `*`. `hami.nodeconfig_reading` reads it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from gpu.refusal import Refusal
from hami.amounts import MEMORY_LIMIT_MIB
from hami.deviceconfig import NvidiaConfig
from hami.wording import shown

SPLIT_MAX: Final = 1000
SCALING_MIN: Final = Decimal("0.01")
SCALING_MAX: Final = Decimal(100)
LOG_LEVEL_MAX: Final = 4
DEFAULT: Final = "default"
"""The source of what nobody has said."""
_PATTERN: Final = re.compile(r"[*?\[]")


class NodeConfigError(ValueError):
    """A configuration of which nothing may be used, with all that is wrong with it."""

    def __init__(self, findings: tuple[Refusal, ...]) -> None:
        super().__init__(findings)
        self.findings = findings

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


class OperatingMode(StrEnum):
    """How the GPUs of a node are shared."""

    HAMI_CORE = "hami-core"
    MIG = "mig"
    """By instances that are made when a container asks for one."""


class MigStrategy(StrEnum):
    """What is offered of a GPU that somebody has partitioned beforehand."""

    NONE = "none"
    SINGLE = "single"
    """Its partitions, where the node has only such and all are alike."""
    MIXED = "mixed"
    """Its partitions, beside the other GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """GPUs that are offered to nobody."""

    uuids: tuple[str, ...] = ()
    indexes: tuple[int, ...] = ()
    """Places in the order of PCI bus ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig:
    """What holds on one node."""

    split_count: int
    """How many containers may share a GPU."""
    memory_scaling: Decimal
    core_scaling: Decimal
    preconfigured_memory_mib: int
    """Of a GPU without memory of its own; 0 withholds it."""
    log_level: int
    """HAMi-core's: 0 errors, 1 warnings, 3 information, 4 all."""
    numa_topology: bool
    """Whether kubelet learns to which NUMA node a GPU belongs."""
    operating_mode: OperatingMode = OperatingMode.HAMI_CORE
    mig_strategy: MigStrategy = MigStrategy.NONE
    filtered: Filter = Filter()
    preferred_allocation: bool = False
    """Whether the GPUs that kubelet chose replace those that the scheduler did."""
    base: NvidiaConfig = field(default_factory=NvidiaConfig)
    """What `device-config.yaml` says, for all that cannot differ from node to node."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the value of each field above *base* is from."""
    winner: str = ""
    """The entry that counts for the node; empty where none does."""

    @property
    def hash(self) -> str:
        """Return 12 hexadecimal digits that change with any value and not with its source."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        del said["sources"], said["winner"]
        text = json.dumps(said, default=_plain, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is said of some nodes."""

    position: int
    name: str = ""
    """Of a node, or a pattern of such names."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All of which a node must have, where there is no name."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """By the field of `EffectiveConfig` that they replace."""

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether it is about this node."""
        if self.labels:
            return self.labels.items() <= labels.items()
        return fnmatchcase(node_name, self.name)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return what is lowest for the entry that counts among several."""
        if self.labels:
            return 0, -len(self.labels), self.position
        if not _PATTERN.search(self.name):
            return 1, 0, self.position
        if self.name.strip("*"):
            return 2, -len(re.sub(r"\[[^]]*\]|[*?]", "", self.name)), self.position
        return 3, 0, self.position

    @property
    def target(self) -> str:
        """Return which nodes it is about, in words."""
        if not self.labels:
            return f"name {self.name}"
        return "nodeSelector " + ",".join(
            f"{key}={self.labels[key]}" for key in sorted(self.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfigFile:
    """A file that was read."""

    entries: tuple[Entry, ...] = ()
    source: str = "inline"
    """Which file it is, in one word."""

    def winner(self, node_name: str, labels: Mapping[str, str]) -> Entry | None:
        """Return the one entry that counts for a node, if any does."""
        found = [each for each in self.entries if each.matches(node_name, labels)]
        return min(found, key=lambda each: each.rank, default=None)


def effective(
    file: NodeConfigFile | None,
    *,
    node_name: str,
    labels: Mapping[str, str],
    base: NvidiaConfig,
    base_source: str = DEFAULT,
) -> EffectiveConfig:
    """Return what holds on a node; raises `NodeConfigError` for what *base* says and cannot hold.

    A value of 0 counts like any other. HAMi passes over an entry's zeros.
    """
    said = _of_base(base)
    sources = dict.fromkeys(said, base_source)
    sources |= dict.fromkeys(_OWN, DEFAULT)
    entry = file.winner(node_name, labels) if file else None
    winner = ""
    if file is not None and entry is not None:
        where = f"{file.source} nodeconfig[{entry.position}]"
        winner = f"{where} ({entry.target})"
        said |= entry.values
        sources |= dict.fromkeys(entry.values, where)
    _check(said, sources)
    return EffectiveConfig(**said, base=base, sources=sources, winner=winner)


_OWN: Final = ("operating_mode", "mig_strategy", "filtered", "preferred_allocation")
"""The fields of which `device-config.yaml` says nothing."""


def _of_base(base: NvidiaConfig) -> dict[str, Any]:
    return {
        "split_count": base.device_split_count,
        # By their texts: 1.15 is 115 percent, although a binary fraction is a bit less.
        "memory_scaling": Decimal(str(base.device_memory_scaling)),
        "core_scaling": Decimal(str(base.device_core_scaling)),
        "preconfigured_memory_mib": base.pre_configured_device_memory_mib,
        "log_level": base.lib_cuda_log_level,
        "numa_topology": base.enable_numa_topology,
    }


_BOUNDS: Final[Mapping[str, tuple[str, Decimal, Decimal]]] = {
    "split_count": ("deviceSplitCount", Decimal(1), Decimal(SPLIT_MAX)),
    "memory_scaling": ("deviceMemoryScaling", SCALING_MIN, SCALING_MAX),
    "core_scaling": ("deviceCoreScaling", SCALING_MIN, SCALING_MAX),
    "preconfigured_memory_mib": (
        "preConfiguredDeviceMemory",
        Decimal(0),
        Decimal(MEMORY_LIMIT_MIB),
    ),
    "log_level": ("libCudaLogLevel", Decimal(0), Decimal(LOG_LEVEL_MAX)),
}


def _check(said: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Refuse what only *base* can have brought: an entry's values were checked when it was read."""
    findings = tuple(
        Refusal(
            code="OutOfRange",
            field=f"nvidia.{key}",
            value=shown(str(said[name])),
            limit=f"must be {low}..{high}",
            remedy=f"it is from {sources[name]}",
        )
        for name, (key, low, high) in _BOUNDS.items()
        if not low <= Decimal(said[name]) <= high
    )
    if findings:
        raise NodeConfigError(findings)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value.normalize())
    return {each.name: getattr(value, each.name) for each in fields(value)}
