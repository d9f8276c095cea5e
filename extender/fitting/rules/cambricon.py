"""Cambricon: its own plugin reads a profile of the pod's first device.

HAMi v2.10 (`pkg/device/cambricon/device.go`): index, cores, and memory in units of 256 MiB.
"""

from collections.abc import Mapping

from extender.fitting.scene import Scene
from extender.fitting.walk import Walk

PROFILE_KEY = "CAMBRICON_DSMLU_PROFILE"
ASSIGNED_KEY = "CAMBRICON_DSMLU_ASSIGNED"


class CambriconWalk(Walk):
    """One container's request."""

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return the profile of the first device that any container got."""
        first = next((picks[0] for picks in scene.taken if picks), None)
        if first is None or scene.vendor is None:
            return {}
        units = first.given.memory_mib // scene.vendor.memory_factor
        profile = f"{first.usage.device.index}_{first.given.cores}_{units}"
        return {PROFILE_KEY: profile, ASSIGNED_KEY: "false"}
