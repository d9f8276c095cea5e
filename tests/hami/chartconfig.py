"""HAMi's `device-config.yaml` as its chart renders it, for NVIDIA."""

from typing import Any

import yaml

_NVIDIA = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "resourcePriorityName": "nvidia.com/priority",
    "overwriteEnv": False,
    "defaultMemory": 0,
    "defaultCores": 0,
    "defaultGPUNum": 1,
    "memoryFactor": 1,
    "deviceSplitCount": 10,
    "deviceMemoryScaling": 1,
    "deviceCoreScaling": 1,
    "preConfiguredDeviceMemory": 0,
    "enableNumaTopology": False,
    "gpuCorePolicy": "default",
    "libCudaLogLevel": 1,
    "runtimeClassName": "",
    "migProfileAllowlist": [
        {"models": ["A30"], "profiles": ["1g.6gb", "2g.12gb", "4g.24gb"]},
        {"models": ["H20", "H100 on GH200"], "profiles": ["1g.12gb", "7g.96gb"]},
    ],
}


def chart_config(**nvidia: Any) -> str:
    """Return the text, with some of NVIDIA's values changed; `None` leaves a key out."""
    section = {key: value for key, value in (_NVIDIA | nvidia).items() if value is not None}
    return yaml.safe_dump({"nvidia": section})
