"""Whether a pod of this node has ended for good.

A watch may be behind, and then lacks a pod that is new. So it is asked first, since that costs
nothing, and whoever it does not know as alive is looked up in the API. A pod that is being deleted
still runs, until it is gone or says that it has ended.
"""

from collections.abc import Callable, Collection
from typing import Final

from hami.plugin.finding import Finder
from kube.objects import ObjectKey

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class PodEnds:
    """Tells it of any pod."""

    def __init__(self, finder: Finder, alive: Callable[[], Collection[str] | None]) -> None:
        """Prepare; *alive* gives the UIDs of pods, `None` while they are not known."""
        self._finder, self._alive = finder, alive

    def has_ended(self, key: ObjectKey, uid: str) -> bool:
        """Tell whether the pod with *uid* is gone or has ended; raises `KubeError`."""
        alive = self._alive()
        if alive is None or uid in alive:
            return False
        pod = self._finder.pod(key)
        if pod is None or pod["metadata"].get("uid") != uid:
            return True
        return (pod.get("status") or {}).get("phase") in _ENDED
