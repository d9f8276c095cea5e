"""Checks of what should have gone: locks, claims and templates that hold something for nobody."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cli.doctor.cluster.gpunodes import agent_nodes, registered_devices, slice_nodes
from cli.doctor.cluster.view import Cluster, annotation, moment, name_of, namespace_of, node_name
from cli.doctor.model import Check, Verdict, counted, ok, warning
from gpu.names import DRIVER
from hami import nodelock
from hami.backends import NvidiaBackend
from hami.reading import Undecodable
from hami.vendor_rules.vendor import Lock
from kube import paths
from kube.errors import NotServedError
from kube.objects import JsonObject
from webhook.templatecontent import is_template_name

ALLOCATED: Final = NvidiaBackend(count_name="nvidia.com/gpu").support_key
_ALIVE: Final = ("Pending", "Running")
_PATIENCE: Final = timedelta(minutes=5)
NODE_LOCK: Final = Lock.SHARED.value


def node_locks(cluster: Cluster) -> Verdict:
    """Look for locks of nodes that are too old, or that nobody can read."""
    old = []
    for node in cluster.items(paths.nodes()):
        text = annotation(node, NODE_LOCK)
        if not text:
            continue
        lock = nodelock.parse(text)
        if isinstance(lock, Undecodable):
            old.append(f"{name_of(node)}: `{text[:80]}` cannot be read")
        elif cluster.now - lock.at > nodelock.TIMEOUT:
            owner = f" by {lock.owner.namespace}/{lock.owner.name}" if lock.owner else ""
            old.append(f"{name_of(node)}: since {lock.at:%Y-%m-%d %H:%M:%S}{owner}")
    if not old:
        return ok("no node is locked for longer than a binding takes")
    remedy = f"remove the annotation {NODE_LOCK} of these nodes"
    return warning(f"{counted(len(old), 'node')} locked for more than 5 minutes", remedy, *old)


def in_use(cluster: Cluster) -> Verdict:
    """Name who holds GPUs of ours: what has to end before they are taken away."""
    try:
        held = [claim for claim in cluster.items(paths.resource_claims()) if _pools(claim)]
    except NotServedError:
        held = []
    by_claims = [f"{_named(claim)}: {_holders(claim)}" for claim in held]
    by_annotations: list[str] = []
    if any(registered_devices(node) for node in cluster.items(paths.nodes())):
        by_annotations = [
            f"{_named(pod)}: on {node_name(pod)}"
            for pod in cluster.items(paths.pods())
            if annotation(pod, ALLOCATED) and (pod.get("status") or {}).get("phase") in _ALIVE
        ]
    if not by_claims and not by_annotations:
        return ok("no pod has a GPU of ours")
    said = [
        counted(len(found), what)
        for found, what in ((by_claims, "claim"), (by_annotations, "annotated pod"))
        if found
    ]
    return ok(f"in use by {' and '.join(said)}", *by_claims, *by_annotations)


def _holders(claim: JsonObject) -> str:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    pods = [str(each.get("name")) for each in reserved]
    on = ", ".join(sorted(_pools(claim)))
    return f"{'pod ' + ', '.join(pods) if pods else 'no pod'} on {on}"


def claims(cluster: Cluster) -> Verdict:
    """Look for claims of ours that do not go, or are on nodes where nobody serves them."""
    found = cluster.items(paths.resource_claims())
    ours = [claim for claim in found if _pools(claim)]
    served = agent_nodes(cluster) | slice_nodes(cluster)
    stuck = [_named(claim) for claim in ours if _overdue(claim, cluster.now)]
    lost = [
        f"{_named(claim)}: allocated on {', '.join(sorted(nodes))}, without an agent"
        for claim in ours
        if (nodes := _pools(claim) - served)
    ]
    problems = [*(f"{name}: being deleted for more than 5 minutes" for name in stuck), *lost]
    if not problems:
        if not ours:
            return ok("no claim has GPUs of ours")
        return ok(f"{counted(len(ours), 'claim')} with GPUs of ours, on nodes that serve them")
    remedy = "delete the pods that hold them while an agent runs there; see docs/node-agent.md"
    return warning(f"{counted(len(problems), 'claim')} left behind", remedy, *problems)


def templates(cluster: Cluster) -> Verdict:
    """Look for templates of translated pods that no pod uses."""
    made = [
        each
        for each in cluster.items(paths.resource_claim_templates())
        if is_template_name(name_of(each)) and _age(each, cluster.now) > _PATIENCE
    ]
    if not made:
        return ok("no template of a translated pod is left over")
    used = {key for pod in cluster.items(paths.pods()) for key in _templates(pod)}
    unused = [_named(each) for each in made if (namespace_of(each), name_of(each)) not in used]
    if not unused:
        return ok(f"{counted(len(made), 'template')} of translated pods, all used")
    remedy = "see that one webhook leads (its Lease): it deletes them a minute after their pods"
    return warning(f"{counted(len(unused), 'template')} that no pod uses", remedy, *unused)


def _pools(claim: JsonObject) -> set[str]:
    """Return the pools of ours from which a claim has devices; they are named after nodes."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return {str(each.get("pool")) for each in results if each.get("driver") == DRIVER}


def _overdue(item: JsonObject, now: datetime) -> bool:
    since = moment((item.get("metadata") or {}).get("deletionTimestamp"))
    return since is not None and now - since > _PATIENCE


def _age(item: JsonObject, now: datetime) -> timedelta:
    made = moment((item.get("metadata") or {}).get("creationTimestamp"))
    return now - made if made else timedelta(0)


def _templates(pod: JsonObject) -> Iterator[tuple[str, str]]:
    for each in (pod.get("spec") or {}).get("resourceClaims") or ():
        if name := each.get("resourceClaimTemplateName"):
            yield namespace_of(pod), str(name)


def _named(item: JsonObject) -> str:
    return f"{namespace_of(item)}/{name_of(item)}"


CHECKS: Final = (
    Check(id="gpus-in-use", run=in_use),
    Check(id="node-locks", run=node_locks),
    Check(id="claims-left", run=claims),
    Check(id="templates-left", run=templates),
)
