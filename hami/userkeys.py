"""The annotations with which users choose devices in HAMi's protocol."""

from typing import Final

USE_TYPE: Final = "nvidia.com/use-gputype"
NOUSE_TYPE: Final = "nvidia.com/nouse-gputype"
USE_UUID: Final = "nvidia.com/use-gpuuuid"
NOUSE_UUID: Final = "nvidia.com/nouse-gpuuuid"
NUMA_BIND: Final = "nvidia.com/numa-bind"
VGPU_MODE: Final = "nvidia.com/vgpu-mode"
GPU_POLICY: Final = "hami.io/gpu-scheduler-policy"
NODE_POLICY: Final = "hami.io/node-scheduler-policy"
SCORING_WEIGHTS: Final = "hami.io/device-scoring-weights"
NUMA_ALIGNMENT: Final = "hami.io/numa-alignment"

OF_NVIDIA: Final = (USE_TYPE, NOUSE_TYPE, USE_UUID, NOUSE_UUID, NUMA_BIND, VGPU_MODE)
"""Those that choose among NVIDIA GPUs alone."""
OF_ALL_VENDORS: Final = (GPU_POLICY, NODE_POLICY, SCORING_WEIGHTS, NUMA_ALIGNMENT)

FRACTION_NAMES: Final = frozenset({"gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"})
"""Annotations of other products that share GPUs, by their names without a domain."""
