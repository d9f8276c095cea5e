"""Moore Threads and whole Metax GPUs: all containers of a pod stay on the same device.

HAMi v2.10 (`pkg/device/mthreads/device.go`, `pkg/device/metax/device.go`). Moore Threads' plugin
reads one list of indices for the pod, so init containers are held to the same device here, too.
"""

from collections.abc import Mapping

from extender.fitting.reasons import Reason
from extender.fitting.scene import Pick, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami import nodenotes
from hami.reading import Undecodable

INDEX_KEY = "mthreads.com/gpu-index"
TIME_KEY = "mthreads.com/predicate-time"
NODE_KEY = "mthreads.com/predicate-node"
_BEST = 2000


class OneDeviceWalk(Walk):
    """One container's request."""

    def against_rule(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return why a device is out that an earlier container did not get."""
        del picks
        uuid = usage.device.uuid
        if any(pick.given.uuid != uuid for earlier in self.scene.taken for pick in earlier):
            return Reason.VENDOR_RULE
        return None


class MthreadsWalk(OneDeviceWalk):
    """One container's request of Moore Threads' GPUs."""

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return the indices of the last container's devices, and when and where that was said."""
        last = next((picks for picks in reversed(scene.taken) if picks), ())
        return {
            INDEX_KEY: ",".join(str(pick.usage.device.index) for pick in last),
            TIME_KEY: str(scene.clock_ns()),
            NODE_KEY: scene.node.name,
        }


class MetaxWalk(OneDeviceWalk):
    """One container's request of whole Metax GPUs."""

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return how little is lost, or won, by giving away so many GPUs of this node."""
        spreads = scene.node_policy == "spread"
        key = nodenotes.METAX_SCORES if spreads else nodenotes.METAX_LOSSES
        text = scene.node.annotations.get(key)
        if text is None:
            return 0.0
        found = nodenotes.decode_topology(text)
        number = sum(map(len, scene.taken))
        return float(_BEST - (0 if isinstance(found, Undecodable) else found.get(number, 0)))
