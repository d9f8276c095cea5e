"""Whether a node may run a pod at all, devices apart.

Covers what a simulated cluster uses of the scheduler's other plugins: cordoning, taints, node
selector and required node affinity, and extended resources that device plugins offer.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from kube.objects import JsonObject
from kube.quantity import parse
from sim.scheduler.extended import offers
from sim.scheduler.nodes import parse_node, selects
from sim.scheduler.taints import taint_text, untolerated

_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def unfit(
    pod: JsonObject,
    node: JsonObject,
    pods: Iterable[JsonObject],
    *,
    by_claims: Collection[str] = (),
    uncounted: Collection[str] = (),
) -> str:
    """Return why *node* cannot run *pod* beside *pods*, in the scheduler's words, or nothing.

    *by_claims* are resources that claims serve on nodes that do not offer them; *uncounted* are
    those that an extender counts.
    """
    spec, node_spec = pod["spec"], node.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    if node_spec.get("unschedulable") and untolerated([_CORDONED], tolerations):
        return "node(s) were unschedulable"
    taint = untolerated(node_spec.get("taints") or (), tolerations)
    if taint:
        return f"node(s) had untolerated taint {taint_text(taint)}"
    if not _chosen(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    asked = {
        resource: nanos
        for resource, nanos in _extended(pod).items()
        if resource not in uncounted and (resource not in by_claims or offers(node, resource))
    }
    return _lacking(asked, node, pods)


def _chosen(spec: JsonObject, node: JsonObject) -> bool:
    here = parse_node(node)
    wanted = spec.get("nodeSelector") or {}
    if any(here.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selects(required, here)


def _lacking(asked: Mapping[str, int], node: JsonObject, pods: Iterable[JsonObject]) -> str:
    if not asked:
        return ""
    offered = (node.get("status") or {}).get("allocatable") or {}
    name = node["metadata"]["name"]
    taken: Counter[str] = Counter()
    for other in pods:
        if other["spec"].get("nodeName") == name and not finished(other):
            taken.update(_extended(other))
    for resource, nanos in asked.items():
        free = parse(str(offered.get(resource, "0"))).nanos - taken[resource]
        if nanos > free:
            return f"Insufficient {resource}"
    return ""


def finished(pod: JsonObject) -> bool:
    """Tell whether *pod* has run and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _extended(pod: JsonObject) -> dict[str, int]:
    """Return the extended resources of *pod* in billionths: the most it asks for at any moment.

    Init containers run one after another, each beside the ones before it that run on.
    """
    spec = pod["spec"]
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(dict(_asked(container)))
    peak: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        mine = Counter(dict(_asked(container)))
        if container.get("restartPolicy") == "Always":
            total.update(mine)
            running.update(mine)
            peak |= running
        else:
            peak |= running + mine
    return {name: nanos for name, nanos in (total | peak).items() if nanos}


def _asked(container: JsonObject) -> Iterator[tuple[str, int]]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    for name, text in asked.items():
        if "/" in name and not name.startswith("kubernetes.io/"):
            yield name, parse(str(text)).nanos
