"""HAMi's `device-config.yaml`, read as it is: resource names, defaults and factors of all vendors.

One file says the names to the webhook, the scheduler and the device plugins of HAMi (HAMi v2.10:
`pkg/scheduler/config/config.go`); this object is their only source here. What a file leaves out
is zero or empty, as for HAMi, and not the chart's default: the chart writes every key. Only a
section for NVIDIA without a name for the count is refused, because its pods would pass unread.
An unknown key is a warning: HAMi skips it in silence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from gpu.refusal import Refusal
from hami import vendors
from hami.amounts import MEMORY_LIMIT_MIB
from hami.vendor_rules.sections import Number, Scaling
from hami.vendors import Vendor
from hami.wording import shown

SECTION_NAMES: Final = (
    "nvidia",
    "cambricon",
    "hygon",
    "metax",
    "enflame",
    "mthreads",
    "iluvatars",
    "kunlun",
    "awsneuron",
    "amd",
    "vastai",
    "biren",
    "vnpus",
)
"""All sections that HAMi reads."""


class DeviceConfigError(ValueError):
    """A file that HAMi could not start with; says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfiles:
    """Which profiles a model offers; *models* are parts of its name."""

    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaConfig:
    """The section of NVIDIA; the defaults are those of HAMi's chart, and an empty name is none."""

    resource_count_name: str = "nvidia.com/gpu"
    resource_memory_name: str = "nvidia.com/gpumem"
    resource_memory_percentage_name: str = "nvidia.com/gpumem-percentage"
    resource_core_name: str = "nvidia.com/gpucores"
    resource_priority_name: str = "nvidia.com/priority"
    overwrite_env: bool = False
    """Whether containers that ask for no GPU get `NVIDIA_VISIBLE_DEVICES=none`."""
    default_memory_mib: Number = 0
    """0 is the whole memory; no factor applies."""
    default_cores: Number = 0
    default_gpu_num: Number = 1
    """The count of a container that gives none; 0 refuses it."""
    memory_factor: Number = 1
    """MiB in one unit of what users write; below 1 it is 1."""
    device_split_count: Number = 10
    device_memory_scaling: Scaling = 1.0
    device_core_scaling: Scaling = 1.0
    pre_configured_device_memory_mib: Number = 0
    enable_numa_topology: bool = False
    gpu_core_policy: str = "default"
    """`default`, `force` or `disable`."""
    lib_cuda_log_level: Number = 1
    runtime_class_name: str = ""
    disable_core_limit: bool = False
    mig_profile_allowlist: tuple[MigProfiles, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """All resource names that are served."""
        names = (
            self.resource_count_name,
            self.resource_memory_name,
            self.resource_memory_percentage_name,
            self.resource_core_name,
            self.resource_priority_name,
        )
        return frozenset(filter(None, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """What HAMi is told of all vendors; without arguments what its chart renders."""

    nvidia: NvidiaConfig = field(default_factory=NvidiaConfig)
    vendors: tuple[Vendor, ...] = field(default_factory=lambda: vendors.from_sections({}))
    """All others; Ascend's and Iluvatar's only when asked for."""
    warnings: tuple[Refusal, ...] = ()
    vendor_keys: frozenset[str] = field(init=False, repr=False, compare=False)
    """All resource names that *vendors* serve."""

    def __post_init__(self) -> None:
        keys = frozenset[str]().union(*(each.keys for each in self.vendors))
        object.__setattr__(self, "vendor_keys", keys)


NO_NVIDIA: Final = NvidiaConfig(
    resource_count_name="",
    resource_memory_name="",
    resource_memory_percentage_name="",
    resource_core_name="",
    resource_priority_name="",
    default_gpu_num=0,
    memory_factor=0,
    device_split_count=0,
    device_memory_scaling=0,
    device_core_scaling=0,
    gpu_core_policy="",
    lib_cuda_log_level=0,
)
"""What stands where a file says nothing."""

NVIDIA_KEYS: Final = {
    "resourceCountName": "resource_count_name",
    "resourceMemoryName": "resource_memory_name",
    "resourceMemoryPercentageName": "resource_memory_percentage_name",
    "resourceCoreName": "resource_core_name",
    "resourcePriorityName": "resource_priority_name",
    "overwriteEnv": "overwrite_env",
    "defaultMemory": "default_memory_mib",
    "defaultCores": "default_cores",
    "defaultGPUNum": "default_gpu_num",
    "memoryFactor": "memory_factor",
    "deviceSplitCount": "device_split_count",
    "deviceMemoryScaling": "device_memory_scaling",
    "deviceCoreScaling": "device_core_scaling",
    "preConfiguredDeviceMemory": "pre_configured_device_memory_mib",
    "enableNumaTopology": "enable_numa_topology",
    "gpuCorePolicy": "gpu_core_policy",
    "libCudaLogLevel": "lib_cuda_log_level",
    "runtimeClassName": "runtime_class_name",
    "disableCoreLimit": "disable_core_limit",
    "migProfileAllowlist": "mig_profile_allowlist",
}
"""The keys of the section `nvidia`, with the fields that they set."""
_NVIDIA = TypeAdapter(NvidiaConfig)
_CORE_POLICIES: Final = ("", "default", "force", "disable")


def parse(
    text: str, *, ascend: bool = False, iluvatar: bool = False, neuron_cores_per_device: int = 2
) -> DeviceConfig:
    """Return what a `device-config.yaml` says; raises `DeviceConfigError`."""
    said = _loaded(text)
    sections = {key: value for key, value in said.items() if key in SECTION_NAMES and value}
    if not sections:
        message = f"no section of a vendor; known are {', '.join(SECTION_NAMES)}"
        raise DeviceConfigError(message)
    read = partial(
        vendors.from_sections,
        ascend=ascend,
        iluvatar=iluvatar,
        neuron_cores_per_device=neuron_cores_per_device,
    )
    try:
        others = read(sections)
    except ValidationError as error:
        raise DeviceConfigError(_wrong_section(sections, read)) from error
    nvidia = _nvidia(_object(sections["nvidia"])) if "nvidia" in sections else NO_NVIDIA
    _check_names(nvidia, others)
    return DeviceConfig(nvidia=nvidia, vendors=others, warnings=_warnings(said, sections, nvidia))


def _wrong_section(sections: Mapping[str, Any], read: Callable[[Mapping[str, Any]], object]) -> str:
    """Return which of *sections* cannot be read, and why."""
    for name, section in sections.items():
        try:
            read({name: section})
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(str(part) for part in (name, *first["loc"]))
            return f"{place}: `{shown(first['input'])}`: {first['msg']}"
    return "the sections cannot be read together"


def _warnings(
    said: Mapping[Any, Any], sections: Mapping[str, Any], nvidia: NvidiaConfig
) -> tuple[Refusal, ...]:
    found = _unknown(said, frozenset(SECTION_NAMES), "device-config")
    for name, section in sections.items():
        known = frozenset(NVIDIA_KEYS) if name == "nvidia" else vendors.known_keys(name)
        for each in section if isinstance(section, list) else [section]:
            found += _unknown(each, known, name) if isinstance(each, Mapping) else []
    if nvidia.gpu_core_policy not in _CORE_POLICIES:
        found.append(_unknown_policy(nvidia.gpu_core_policy))
    return tuple(found)


def _loaded(text: str) -> Mapping[Any, Any]:
    import yaml  # noqa: PLC0415  only the programs that read this file have it

    try:
        said = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"no YAML: {error}"
        raise DeviceConfigError(message) from error
    if not isinstance(said, Mapping):
        raise DeviceConfigError("no sections")
    return said


def _object(section: Any) -> Mapping[Any, Any]:
    if not isinstance(section, Mapping):
        message = f"nvidia is {shown(section)}, not a section of keys"
        raise DeviceConfigError(message)
    return section


def _nvidia(section: Mapping[Any, Any]) -> NvidiaConfig:
    said = {
        name: section[key]
        for key, name in NVIDIA_KEYS.items()
        if section.get(key) is not None  # an empty value is a zero
    }
    zeros = {each.name: getattr(NO_NVIDIA, each.name) for each in fields(NO_NVIDIA)}
    try:
        config = _NVIDIA.validate_python(zeros | said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = {name: key for key, name in NVIDIA_KEYS.items()}.get(str(first["loc"][0]), "")
        message = f"nvidia.{key}: `{shown(section.get(key))}`: {first['msg']}"
        raise DeviceConfigError(message) from error
    _check(config)
    return config


def _check_names(nvidia: NvidiaConfig, others: tuple[Vendor, ...]) -> None:
    """Refuse a resource name that means two things."""
    names = [name for each in fields(nvidia) if (name := _resource_name(nvidia, each.name))]
    names += [name for vendor in others for name in vendor.keys]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        message = f"{twice} is the name of two resources"
        raise DeviceConfigError(message)


def _resource_name(nvidia: NvidiaConfig, name: str) -> str:
    return str(getattr(nvidia, name)) if name.startswith("resource_") else ""


def _check(config: NvidiaConfig) -> None:
    if not config.resource_count_name:
        raise DeviceConfigError("nvidia.resourceCountName is missing")
    for key in ("defaultMemory", "defaultCores", "defaultGPUNum"):
        if getattr(config, NVIDIA_KEYS[key]) < 0:
            message = f"nvidia.{key} must not be negative"
            raise DeviceConfigError(message)
    if config.default_cores > 100:
        raise DeviceConfigError("nvidia.defaultCores must be 0..100")
    if config.default_memory_mib > MEMORY_LIMIT_MIB:
        message = f"nvidia.defaultMemory must be at most {MEMORY_LIMIT_MIB} MiB"
        raise DeviceConfigError(message)


def _unknown_policy(policy: str) -> Refusal:
    return Refusal(
        code="UnknownCorePolicy",
        field="nvidia.gpuCorePolicy",
        value=shown(policy),
        limit="HAMi-core takes it for `default`",
        remedy="write default, force or disable",
    )


def _unknown(said: Mapping[Any, Any], known: frozenset[str], where: str) -> list[Refusal]:
    folded = {name.lower(): name for name in sorted(known)}
    found = []
    for key in said:
        if key in known:
            continue
        near = get_close_matches(str(key).lower(), folded, n=1)
        found.append(
            Refusal(
                code="UnknownKey",
                field=where,
                value=shown(key),
                limit="the key has no effect",
                remedy=f"did you mean {folded[near[0]]}?" if near else "",
            )
        )
    return found
