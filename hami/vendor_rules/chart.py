"""The sections that HAMi's chart renders into `device-config.yaml` by default (chart 2.10.0)."""

from collections.abc import Mapping
from typing import Any, Final


def _iluvatar(chip: str) -> dict[str, str]:
    return {
        "chipName": chip,
        "commonWord": chip,
        "resourceCountName": f"iluvatar.ai/{chip}-vgpu",
        "resourceMemoryName": f"iluvatar.ai/{chip}.vMem",
        "resourceCoreName": f"iluvatar.ai/{chip}.vCore",
    }


def _ascend(
    chip: str, word: str, memory: tuple[int, int], ai: tuple[int, int], **templates: int
) -> dict[str, Any]:
    return {
        "chipName": chip,
        "commonWord": word,
        "resourceName": f"huawei.com/{word}",
        "resourceMemoryName": f"huawei.com/{word}-memory",
        "resourceCoreName": f"huawei.com/{word}-core",
        "memoryAllocatable": memory[0],
        "memoryCapacity": memory[1],
        "aiCore": ai[0],
        "aiCPU": ai[1],
        "superPod": word == "Ascend910C",
        "templates": [{"name": name, "memory": size} for name, size in templates.items()],
    }


SECTIONS: Final[Mapping[str, Any]] = {
    "cambricon": {
        "resourceCountName": "cambricon.com/vmlu",
        "resourceMemoryName": "cambricon.com/mlu.smlu.vmemory",
        "resourceCoreName": "cambricon.com/mlu.smlu.vcore",
    },
    "hygon": {
        "resourceCountName": "hygon.com/dcunum",
        "resourceMemoryName": "hygon.com/dcumem",
        "resourceCoreName": "hygon.com/dcucores",
        "memoryFactor": 1,
    },
    "metax": {
        "resourceCountName": "metax-tech.com/gpu",
        "resourceVCountName": "metax-tech.com/sgpu",
        "resourceVMemoryName": "metax-tech.com/vmemory",
        "resourceVCoreName": "metax-tech.com/vcore",
    },
    "enflame": {
        "resourceNameGCU": "enflame.com/gcu",
        "resourceNameDRSGCU": "enflame.com/drs-gcu",
        "resourceNameGCUMemory": "enflame.com/gcu-memory",
        "resourceNameGCUCore": "enflame.com/gcu-core",
    },
    "mthreads": {
        "resourceCountName": "mthreads.com/vgpu",
        "resourceMemoryName": "mthreads.com/sgpu-memory",
        "resourceCoreName": "mthreads.com/sgpu-core",
    },
    "iluvatars": [_iluvatar(chip) for chip in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")],
    "kunlun": {
        "resourceCountName": "kunlunxin.com/xpu",
        "resourceVCountName": "kunlunxin.com/vxpu",
        "resourceVMemoryName": "kunlunxin.com/vxpu-memory",
    },
    "awsneuron": {
        "resourceCountName": "aws.amazon.com/neuron",
        "resourceCoreName": "aws.amazon.com/neuroncore",
    },
    "amd": {
        "resourceCountName": "amd.com/gpu",
        "resourceMemoryName": "amd.com/gpumem",
        "resourceCoreName": "amd.com/gpucores",
    },
    "vastai": {"resourceCountName": "vastaitech.com/va"},
    "biren": {"resourceCountName": "birentech.com/gpu"},
    "vnpus": {
        "hamiVnpuCore": False,
        "configs": [
            _ascend(
                "910A",
                "Ascend910A",
                (32768, 32768),
                (30, 0),
                vir02=2184,
                vir04=4369,
                vir08=8738,
                vir16=17476,
            ),
            _ascend(
                "910B2",
                "Ascend910B2",
                (65536, 65536),
                (24, 6),
                vir03_1c_8g=8192,
                vir06_1c_16g=16384,
                vir12_3c_32g=32768,
            ),
            _ascend(
                "910B3",
                "Ascend910B3",
                (65536, 65536),
                (20, 7),
                vir05_1c_16g=16384,
                vir10_3c_32g=32768,
            ),
            _ascend(
                "910B4-1",
                "Ascend910B4-1",
                (65536, 65536),
                (20, 7),
                vir05_1c_16g=16384,
                vir10_3c_32g=32768,
            ),
            _ascend(
                "910B4",
                "Ascend910B4",
                (32768, 32768),
                (20, 7),
                vir05_1c_8g=8192,
                vir10_3c_16g=16384,
            ),
            _ascend(
                "310P3",
                "Ascend310P",
                (21527, 24576),
                (8, 7),
                vir01=3072,
                vir02=6144,
                vir04=12288,
            ),
            _ascend(
                "Ascend910",
                "Ascend910C",
                (65536, 65536),
                (20, 7),
                vir05_1c_16g=16384,
                vir10_3c_32g=32768,
            ),
        ],
    },
}
"""NVIDIA's section apart. A vendor without a section here or in a file is not served."""
