"""HAMi's `device-config.yaml`: an administrator's file, from which all names and factors come."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import yaml

from hami.deviceconfig import DeviceConfig, DeviceConfigError, parse
from tests.fuzz.mutation import SCALARS, at, paths, replaced, spoiled, spoiled_yaml
from tests.fuzz.running import expect

_NVIDIA: Final = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "resourcePriorityName": "nvidia.com/priority",
    "overwriteEnv": False,
    "defaultMemory": 4096,
    "defaultCores": 30,
    "defaultGPUNum": 1,
    "memoryFactor": 256,
    "deviceSplitCount": 10,
    "deviceMemoryScaling": 1,
    "gpuCorePolicy": "force",
    "runtimeClassName": "nvidia",
    "migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb"]}],
}
_ASCEND: Final = {
    "chipName": "310P3",
    "commonWord": "Ascend310P",
    "resourceName": "huawei.com/Ascend310P",
    "resourceMemoryName": "huawei.com/Ascend310P-memory",
    "memoryAllocatable": 21527,
    "memoryCapacity": 24576,
    "templates": [{"name": "vir01", "memory": 3072, "aiCore": 1, "aiCPU": 1}],
}
_VALID: Final[tuple[dict[str, Any], ...]] = (
    {"nvidia": _NVIDIA},
    {
        "nvidia": {"resourceCountName": "acme.example/gpu", "memoryFactor": 1024},
        "hygon": {"resourceCountName": "hygon.com/dcunum", "memoryFactor": 2},
        "vnpus": {"hamiVnpuCore": True, "configs": [_ASCEND]},
    },
    {
        "cambricon": {"resourceCountName": "cambricon.com/vmlu"},
        "iluvatars": [{"commonWord": "BI-V100", "resourceCountName": "iluvatar.ai/BI-V100-vgpu"}],
    },
)
_NUMBERS: Final = {
    "defaultMemory": "default_memory_mib",
    "defaultCores": "default_cores",
    "defaultGPUNum": "default_gpu_num",
    "memoryFactor": "memory_factor",
    "deviceSplitCount": "device_split_count",
}
_NAMES: Final = {
    "resourceCountName": "resource_count_name",
    "resourceMemoryName": "resource_memory_name",
    "resourceMemoryPercentageName": "resource_memory_percentage_name",
    "resourceCoreName": "resource_core_name",
    "resourcePriorityName": "resource_priority_name",
    "gpuCorePolicy": "gpu_core_policy",
}


def read_file(text: str) -> DeviceConfig:
    """Read *text* as a program does that serves all vendors."""
    return parse(text, ascend=True, iluvatar=True)


@dataclass(frozen=True, slots=True)
class DeviceConfigs:
    """Files near those that HAMi's chart renders."""

    read: Callable[[str], DeviceConfig] = field(default=read_file)
    name: str = "device-config"
    weight: int = 2

    def make(self, rng: Random) -> str:
        """Return a file."""
        said = spoiled(rng, rng.choice(_VALID), donor=rng.choice(_VALID), most=2)
        if rng.random() < 0.4:
            said = _other_value(rng, said)
        return spoiled_yaml(rng, said)

    def check(self, sample: str) -> bool:
        """Compare names and numbers with what stands in the file."""
        try:
            found = self.read(sample)
        except DeviceConfigError as error:
            said = str(error)
            expect(len(said) < 2000, "an endless message")
            return False
        nvidia = yaml.safe_load(sample).get("nvidia") or {}
        for key, name in (*_NUMBERS.items(), *_NAMES.items()):
            said_here, value = nvidia.get(key), getattr(found.nvidia, name)
            zero = 0 if key in _NUMBERS else ""
            wanted = zero if said_here is None else said_here
            same = value == wanted and isinstance(wanted, bool) == isinstance(value, bool)
            expect(same, f"another {key}: {value!r} and not {wanted!r}")
        names = [*found.nvidia.keys, *_served(found)]
        expect(len(names) == len(set(names)), "one name for two resources")
        factors = [each.memory_factor for each in found.vendors]
        expect(all(factor >= 1 for factor in factors), f"a factor below one: {factors}")
        expect(self.read(sample) == found, "another answer the second time")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _other_value(rng: Random, said: Any) -> Any:
    """Return *said* with another value under one of its last keys."""
    leaves = [path for path in paths(said) if path and not isinstance(at(said, path), dict | list)]
    return replaced(said, rng.choice(leaves), rng.choice(SCALARS)) if leaves else said


def _served(config: DeviceConfig) -> Iterator[str]:
    for vendor in config.vendors:
        yield from vendor.keys
