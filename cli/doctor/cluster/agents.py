"""Checks of what runs of ours on nodes with GPUs, and what it says that there is."""

from collections import Counter
from datetime import timedelta
from typing import Final

from cli.doctor.cluster.gpunodes import (
    HANDSHAKE,
    agent_nodes,
    gpu_nodes,
    labelled_nodes,
    own_slices,
    registered_devices,
    slice_node,
    slice_nodes,
)
from cli.doctor.cluster.view import (
    COMPONENT_LABEL,
    NODE_AGENT,
    Cluster,
    annotation,
    is_ready,
    label,
    name_of,
    namespace_of,
    node_name,
)
from cli.doctor.model import Check, Verdict, counted, failed, listed, ok, skipped, warning
from cli.nodeagent.mode import LABEL, Mode
from hami import handshake
from kube import paths
from kube.errors import KubeError, NotFoundError, NotServedError
from kube.objects import JsonObject

_OVERDUE: Final = timedelta(hours=15)
"""Times of questions name no zone: what is older is old in each of them."""
_POLICIES: Final = ("-own-slices", "-own-node", "-own-status")
_LOGS: Final = "`kubectl describe` and `kubectl logs` of these pods say why"


def node_agents(cluster: Cluster) -> Verdict:
    """Hold the agents that run against the nodes that have GPUs."""
    pods = cluster.own_pods(NODE_AGENT)
    published = slice_nodes(cluster)
    if not pods:
        if published:
            said = f"no pod labelled {COMPONENT_LABEL}={NODE_AGENT}, yet nodes offer GPUs"
            return warning(said, "see who serves these nodes", *sorted(published))
        return failed("no node agent runs", "install the chart; see its node affinity, too")
    waiting = [
        f"{name_of(pod)} on {node_name(pod) or 'no node'}" for pod in pods if not is_ready(pod)
    ]
    if waiting:
        said = f"{len(waiting)} of {counted(len(pods), 'agent')} not ready: {listed(waiting)}"
        return failed(said, _LOGS, *waiting)
    without = sorted(labelled_nodes(cluster) - agent_nodes(cluster))
    if without:
        said = f"nodes with GPUs and no agent: {listed(without)}"
        return warning(said, "see the agent's node affinity and tolerations", *without)
    return ok(f"{counted(len(pods), 'agent')}, all ready" + _daemonsets(cluster))


def _daemonsets(cluster: Cluster) -> str:
    try:
        found = [f"{namespace_of(each)}/{name_of(each)}" for each in cluster.own_daemonsets()]
    except KubeError:
        return ""
    return f" ({listed(found)})" if found else ""


def published(cluster: Cluster) -> Verdict:
    """Hold what nodes offer against the nodes with an agent of ours, whichever way they serve."""
    nodes = {name_of(node): node for node in cluster.items(paths.nodes())}
    try:
        slices = own_slices(cluster)
    except NotServedError:
        slices = []
    devices: Counter[str] = Counter()
    problems = _incomplete(slices)
    for each in slices:
        devices[slice_node(each)] += len((each.get("spec") or {}).get("devices") or ())
    problems += [
        f"{name}: slices of a node that is gone" for name in devices if name and name not in nodes
    ]
    registered = 0
    for name in sorted(agent_nodes(cluster) & set(nodes)):
        number = registered_devices(nodes[name])
        registered += number or 0
        if label(nodes[name], LABEL) == Mode.DEVICE_PLUGIN:
            problems += [] if number else [f"{name}: no registration annotation"]
        elif not devices[name] and not number:
            problems.append(f"{name}: an agent and no device")
    if problems:
        said = f"{listed(problems, most=1)}"
        return failed(said, "the agent's log and the events of the node say why", *problems)
    if not devices and not registered:
        return skipped("no node agent is seen, and no GPU is offered")
    said = f"{counted(devices.total(), 'device')} of {counted(len(devices), 'node')} in slices"
    return ok(said + (f", {counted(registered, 'GPU')} in annotations" if registered else ""))


def tainted(cluster: Cluster) -> Verdict:
    """Look for devices of ours that get no new work, and why."""
    found = [
        f"{slice_node(each)}/{device.get('name')}: {taint.get('key')}={taint.get('value', '')}"
        for each in own_slices(cluster)
        for device in (each.get("spec") or {}).get("devices") or ()
        for taint in device.get("taints") or ()
    ]
    if not found:
        return ok("no device of ours is tainted")
    remedy = "see the events of these nodes: a GPU is ill, or another program offers it too"
    return warning(f"{counted(len(found), 'taint')} on devices: {listed(found)}", remedy, *found)


def _incomplete(slices: list[JsonObject]) -> list[str]:
    """Name the pools of which a slice is missing: the scheduler takes nothing of them."""
    pools: dict[str, list[tuple[int, int]]] = {}
    for each in slices:
        pool = (each.get("spec") or {}).get("pool") or {}
        said = (int(pool.get("generation") or 0), int(pool.get("resourceSliceCount") or 0))
        pools.setdefault(str(pool.get("name")), []).append(said)
    found = []
    for name, slices_of in pools.items():
        generation, wanted = max(slices_of)
        there = sum(1 for number, _ in slices_of if number == generation)
        if there != wanted:
            found.append(f"{name}: {there} of {counted(wanted, 'slice')} of the newest generation")
    return found


def registrations(cluster: Cluster) -> Verdict:
    """Look at what device plugins have written on nodes, and whether they answer."""
    seen, silent = list[str](), list[str]()
    for node in cluster.items(paths.nodes()):
        if registered_devices(node) is None:
            continue
        seen.append(name_of(node))
        stamp = handshake.read(annotation(node, HANDSHAKE))
        waited = stamp.at is not None and cluster.now - stamp.at > _OVERDUE
        if stamp.kind is handshake.Kind.REQUESTING and waited:
            silent.append(name_of(node))
    if not seen:
        return skipped("no node registers GPUs by an annotation")
    if silent:
        said = f"nodes whose device plugin does not answer the scheduler: {listed(silent)}"
        return warning(said, "see whether their agent runs; else remove their annotations", *silent)
    return ok(f"{counted(len(seen), 'node')} registered by annotation, none overdue")


def slice_policy(cluster: Cluster) -> Verdict:
    """Look whether an agent is kept from the slices and nodes of others."""
    if not gpu_nodes(cluster):
        return skipped("no node with GPUs is known")
    path = paths.resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
    try:
        bindings = cluster.items(path)
    except NotFoundError:
        return skipped("policies are served from Kubernetes 1.30 on: agents are trusted here")
    found = [name for each in bindings if (name := name_of(each)).endswith(_POLICIES)]
    if found:
        return ok(f"{counted(len(found), 'policy binding')} of ours: {listed(found)}")
    return warning(
        "no ValidatingAdmissionPolicyBinding of ours: an agent may write slices of any node",
        "apply the chart's policies",
    )


CHECKS: Final = (
    Check(id="node-agents", run=node_agents),
    Check(id="published-gpus", run=published),
    Check(id="tainted-gpus", run=tainted),
    Check(id="registrations", run=registrations),
    Check(id="slice-policies", run=slice_policy),
)
