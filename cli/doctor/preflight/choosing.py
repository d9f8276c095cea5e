"""On which nodes a preflight runs, by which way each gives GPUs away, and with which image."""

from collections.abc import Sequence
from typing import Final

from cli.doctor.cluster.gpunodes import own_slices, registered_devices, slice_node
from cli.doctor.cluster.hooks import MUTATING, PODS_HOOK, hooks
from cli.doctor.cluster.view import SCHEDULER, Cluster, flags, name_of
from cli.doctor.preflight.objects import Image, Way
from gpu.names import MODE_EXCLUSIVE, MODE_MIG, MODE_SHARED
from kube import paths
from kube.errors import KubeError, NotServedError
from kube.objects import JsonObject

_FLAG: Final = "--scheduler-name="
_SCHEDULER: Final = "hami-scheduler"
_BY_MODE: Final = {MODE_SHARED: Way.SHARE, MODE_EXCLUSIVE: Way.WHOLE, MODE_MIG: Way.MIG}


def ways(cluster: Cluster, wanted: Sequence[str]) -> dict[str, Way | None]:
    """Return how each node gives GPUs away; those *wanted*, or all that do; raises `KubeError`.

    A wanted node that gives none away has no way.
    """
    found: dict[str, Way | None] = {}
    for node in cluster.items(paths.nodes()):
        if registered_devices(node):
            found[name_of(node)] = Way.LIMITS
    modes: dict[str, set[str]] = {}
    for each in _slices(cluster):
        modes.setdefault(slice_node(each), set()).update(_modes(each))
    for node_name, there in modes.items():
        way = next((way for mode, way in _BY_MODE.items() if mode in there), None)
        if node_name and way is not None:
            found[node_name] = way
    return {name: found.get(name) for name in wanted} if wanted else dict(sorted(found.items()))


def image(cluster: Cluster, named: str | None) -> Image | None:
    """Return the image *named*, else the node agent's own; `None` where it is not known.

    Raises `KubeError` where the agent's cannot be read.
    """
    if named:
        return Image(name=named, has_shell=True)
    for each in cluster.own_daemonsets():
        template = ((each.get("spec") or {}).get("template") or {}).get("spec") or {}
        for container in template.get("containers") or ():
            if container.get("image"):
                return Image(name=str(container["image"]), has_shell=False)
    return None


def scheduler_name(cluster: Cluster) -> str:
    """Return the scheduler of pods with limits where no webhook names it; else nothing."""
    try:
        if any(hook.name == PODS_HOOK for hook in hooks(cluster, MUTATING)):
            return ""
        pods = cluster.own_pods(SCHEDULER)
    except KubeError:
        return ""
    return next((word for pod in pods for word in flags(pod, _FLAG)), _SCHEDULER)


def _slices(cluster: Cluster) -> list[JsonObject]:
    try:
        return own_slices(cluster)
    except NotServedError:
        return []


def _modes(each: JsonObject) -> set[str]:
    found = set()
    for device in (each.get("spec") or {}).get("devices") or ():
        mode = ((device.get("attributes") or {}).get("mode") or {}).get("string")
        if mode and not device.get("taints"):
            found.add(str(mode))
    return found
