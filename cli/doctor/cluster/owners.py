"""Checks of others who give GPUs away or have a say in how: each counts by itself alone.

Side by side on different nodes they are no trouble, which is how clusters are migrated; on one node
a GPU is given away twice, or by nobody because we withhold what another offers.
"""

from dataclasses import dataclass
from typing import Final

from cli.doctor.cluster.gpunodes import (
    agent_nodes,
    driver_of,
    registered_devices,
    slice_node,
    slice_nodes,
)
from cli.doctor.cluster.hooks import MUTATING, Hook, hooks
from cli.doctor.cluster.view import (
    NAME_LABEL,
    OURS,
    Cluster,
    label,
    name_of,
    namespace_of,
    node_name,
)
from cli.doctor.model import Check, Verdict, counted, failed, listed, ok, skipped, warning
from cli.nodeagent.mode import LABEL, Mode
from dra.rivals import PluginResources
from kube import paths
from kube.errors import NotFoundError
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

_RESOURCES: Final = PluginResources()
_DRIVERS: Final = ("gpu.nvidia.com", "hami-core-gpu.project-hami.io")
_DEPLOYS: Final = "nvidia.com/gpu.deploy.device-plugin"
_CLIQUE: Final = "compute-domain"
_APART: Final = "keep the two on different nodes: a nodeSelector for one, another for the other"


@dataclass(frozen=True, slots=True)
class Product:
    """A program of others, and how its DaemonSet is known."""

    name: str
    words: tuple[str, ...]
    """Of which one is in the DaemonSet's name or in an image's."""


PRODUCTS: Final = (
    Product("HAMi's device plugin", ("hami-device-plugin", "hami-vgpu-device-plugin")),
    Product("HAMi's DRA driver", ("hami-dra-driver", "projecthami/k8s-dra-driver")),
    Product("HAMi", ("projecthami/hami",)),
    Product(
        "NVIDIA's DRA driver", ("dra-driver-nvidia-gpu", "nvidia-dra-driver", "k8s-dra-driver-gpu")
    ),
    Product("NVIDIA's MPS control daemon", ("mps-control-daemon",)),
    Product("NVIDIA's device plugin", ("nvidia-device-plugin", "k8s-device-plugin")),
    Product("GKE's device plugin", ("nvidia-gpu-device-plugin",)),
)


def daemonsets(cluster: Cluster) -> Verdict:
    """Look for DaemonSets that are known to give GPUs away."""
    found: list[str] = []
    active: list[str] = []
    own, apart = agent_nodes(cluster) | slice_nodes(cluster), True
    for each in cluster.items(paths.resource("apps/v1", "daemonsets")):
        product = product_of(each)
        if product is None or label(each, NAME_LABEL) == OURS:
            continue
        number = int((each.get("status") or {}).get("desiredNumberScheduled") or 0)
        said = f"{product.name}: {namespace_of(each)}/{name_of(each)}"
        said += f" on {counted(number, 'node')}"
        (active if number else found).append(said)
        apart = apart and (number == 0 or _is_apart(cluster, each, own))
    if not active:
        return ok("no DaemonSet of another GPU product runs", *found)
    named = listed([text.partition(":")[0] for text in active])
    if own and apart:
        return ok(f"{named}: on none of our nodes", *active)
    remedy = _APART if own else "give their GPUs back before our agent gets these nodes"
    return warning(named, remedy, *active)


def _is_apart(cluster: Cluster, daemonset: JsonObject, own: set[str]) -> bool:
    """Tell whether its pods are seen, and none of them on a node of ours."""
    uid = (daemonset.get("metadata") or {}).get("uid")
    on = {
        node_name(pod)
        for pod in cluster.wished(paths.pods(namespace_of(daemonset)))
        for owner in (pod.get("metadata") or {}).get("ownerReferences") or ()
        if owner.get("uid") == uid
    }
    return bool(on) and not on & own


def product_of(daemonset: JsonObject) -> Product | None:
    """Return whose DaemonSet it is, `None` where it is of nobody known."""
    template = ((daemonset.get("spec") or {}).get("template") or {}).get("spec") or {}
    texts = [name_of(daemonset)]
    texts += [str(each.get("image", "")) for each in template.get("containers") or ()]
    joined = " ".join(texts).lower()
    if _CLIQUE in joined:
        return None
    return next((it for it in PRODUCTS if any(word in joined for word in it.words)), None)


def advertisers(cluster: Cluster) -> Verdict:
    """Look for nodes on which a device plugin of others has GPUs too."""
    ours, agents = slice_nodes(cluster), agent_nodes(cluster)
    both, apart = list[str](), list[str]()
    for node in cluster.items(paths.nodes()):
        offered = sorted(_offered(node))
        if not offered or _is_own_offer(node, agents):
            continue
        said = f"{name_of(node)}: {', '.join(offered)}"
        (both if name_of(node) in ours else apart).append(said)
    if both:
        said = f"a device plugin offers the GPUs of {counted(len(both), 'node')} of ours too"
        return failed(said, _APART, *both)
    if apart:
        return ok(
            f"only {counted(len(apart), 'other node')} with a device plugin of others", *apart
        )
    return ok("no node has GPUs of a device plugin of others")


def _offered(node: JsonObject) -> list[str]:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return [str(name) for name, amount in amounts.items() if _is_gpu(str(name)) and _some(amount)]


def _is_gpu(name: str) -> bool:
    return name in _RESOURCES.gpus or name.startswith(_RESOURCES.partition_prefixes)


def _some(amount: object) -> bool:
    try:
        return parse(str(amount)).nanos > 0
    except QuantityError:
        return True


def _is_own_offer(node: JsonObject, agents: set[str]) -> bool:
    """Tell whether what the node offers as extended resources is by our agent."""
    registered = name_of(node) in agents and registered_devices(node) is not None
    return registered or label(node, LABEL) == Mode.DEVICE_PLUGIN


def drivers(cluster: Cluster) -> Verdict:
    """Look for slices of other drivers with NVIDIA's GPUs on our nodes."""
    slices = cluster.items(paths.resource_slices())
    ours = slice_nodes(cluster)
    both: dict[str, set[str]] = {}
    apart: dict[str, set[str]] = {}
    for each in slices:
        if driver_of(each) in _DRIVERS and _devices(each):
            node = slice_node(each)
            (both if node in ours else apart).setdefault(driver_of(each), set()).add(node)
    if both:
        details = [f"{driver} on {listed(sorted(nodes))}" for driver, nodes in both.items()]
        return failed(f"{listed(list(both))} offers GPUs of our nodes too", _APART, *details)
    details = [f"{driver} on {listed(sorted(nodes))}" for driver, nodes in apart.items()]
    return ok("no other driver offers GPUs of our nodes", *details)


def _devices(each: JsonObject) -> list[JsonObject]:
    found = (each.get("spec") or {}).get("devices") or ()
    return [device for device in found if isinstance(device, dict)]


def operator(cluster: Cluster) -> Verdict:
    """Look what the GPU Operator is told to run besides the driver."""
    path = paths.resource("nvidia.com/v1", "clusterpolicies")
    try:
        policies = cluster.items(path)
    except NotFoundError:
        return skipped("no GPU Operator is installed")
    if not policies:
        return skipped("the GPU Operator has no ClusterPolicy")
    spec = policies[0].get("spec") or {}
    cdi = spec.get("cdi") or {}
    said = f"ClusterPolicy {name_of(policies[0])}: CDI {_on(cdi.get('enabled'))}"
    if (spec.get("devicePlugin") or {}).get("enabled", True) is False:
        return ok(f"{said}, its device plugin is off")
    ours = agent_nodes(cluster) | slice_nodes(cluster)
    nodes = {name_of(node): node for node in cluster.items(paths.nodes())}
    let_in = [name for name in sorted(ours & set(nodes)) if label(nodes[name], _DEPLOYS) != "false"]
    if ours and not let_in:
        return ok(f"{said}, its device plugin is kept from our nodes")
    remedy = f"set devicePlugin.enabled=false, or label our nodes {_DEPLOYS}=false"
    where = f"our nodes, too: {listed(let_in)}" if let_in else "wherever it is not kept away"
    return warning(f"{said}, its device plugin is on {where}", remedy, *let_in)


def _on(said: object) -> str:
    if said is None:
        return "by default"
    return "on" if said is True else "off"


_HOOK_WORDS: Final = ("hami", "vgpu", "gpu", "nvidia", "volcano")


def webhooks(cluster: Cluster) -> Verdict:
    """Look for webhooks of others that change pods with GPUs."""
    found = [hook for hook in hooks(cluster, MUTATING) if not hook.is_ours and _is_about_gpus(hook)]
    if not found:
        return ok("no other webhook changes pods with GPUs")
    named = [f"{hook.configuration}/{hook.name}" for hook in found]
    if any("hami" in text for text in named):
        remedy = "exempt our namespaces there (hami.io/webhook: ignore), or remove it"
        return warning(f"HAMi's webhook changes pods too: {listed(named)}", remedy, *named)
    remedy = "see that it leaves pods with nvidia.com/ limits alone"
    return warning(f"changes pods too: {listed(named)}", remedy, *named)


def _is_about_gpus(hook: Hook) -> bool:
    words = f"{hook.configuration} {hook.name}".lower()
    return any(word in words for word in _HOOK_WORDS) and any(
        {"pods", "*", "*/*"} & set(rule.get("resources") or ())
        for rule in hook.raw.get("rules") or ()
    )


CHECKS: Final = (
    Check(id="other-daemonsets", run=daemonsets),
    Check(id="other-device-plugins", run=advertisers),
    Check(id="other-drivers", run=drivers),
    Check(id="gpu-operator", run=operator),
    Check(id="other-webhooks", run=webhooks),
)
