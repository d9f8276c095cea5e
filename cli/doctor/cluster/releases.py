"""Checks of releases: which go together, which are too old, which have known faults.

kube-scheduler's release can be seen only where it runs as a pod; elsewhere the API server's stands
for it, because both are updated together.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cli.doctor.cluster.gpunodes import gpu_nodes
from cli.doctor.cluster.view import Cluster, name_of
from cli.doctor.model import Check, Verdict, counted, failed, listed, ok, skipped, unknown, warning
from cli.doctor.release import Release, lacks_cdi, lets_pods_override, release_of
from kube import paths
from kube.errors import KubeError
from kube.objects import JsonObject

_SKEW_MAX: Final = 3
_SERVES_CLAIMS: Final = 34
_SHARES_BY_DEFAULT: Final = 36
_SCHEDULER: Final = {"labelSelector": "component=kube-scheduler"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A fault of releases from *since* on and before *until*."""

    of: str
    """`kubelet` or `kube-scheduler`."""
    since: Release
    until: Release
    what: str


FAULTS: Final = (
    KnownFault(
        of="kubelet",
        since=Release(1, 34, 0),
        until=Release(1, 34, 2),
        what="hangs after a plugin's connection was idle for 30 minutes",
    ),
    KnownFault(
        of="kubelet",
        since=Release(1, 34, 0),
        until=Release(1, 35, 1),
        what="may leave the second claim of a pod unprepared after a restart",
    ),
    KnownFault(
        of="kube-scheduler",
        since=Release(1, 34, 0),
        until=Release(1, 35, 0),
        what="ends at a request for more devices than a node has, with DRAConsumableCapacity on",
    ),
)
"""Kubernetes issues 133926 and 135919; dynamic-resource-allocation: `allocateDevice`."""


class Skew(StrEnum):
    """What may be wrong with a kubelet's release, the worst first."""

    NEWER = "newer than the API server"
    OLD = f"more than {_SKEW_MAX} minors behind the API server"
    NO_CLAIMS = "too old for claims"
    BY_GATE = "that serve shares by a feature gate alone"


_REMEDIES: Final = {
    Skew.NEWER: "update the control plane first",
    Skew.OLD: "update these kubelets",
    Skew.NO_CLAIMS: "update them to 1.34, or have these nodes serve the device plugin",
    Skew.BY_GATE: "update them to 1.36, or switch on DRAConsumableCapacity there",
}


def skew_of(kubelet: Release, server: Release, *, has_gpus: bool) -> Skew | None:
    """Return what is wrong with the release of a *kubelet*, if anything is."""
    if kubelet[:2] > server[:2]:
        return Skew.NEWER
    if server.minor - kubelet.minor > _SKEW_MAX:
        return Skew.OLD
    if has_gpus and server.minor >= _SERVES_CLAIMS > kubelet.minor:
        return Skew.NO_CLAIMS
    if has_gpus and server.minor >= _SHARES_BY_DEFAULT > kubelet.minor:
        return Skew.BY_GATE
    return None


def kubelet_skew(cluster: Cluster) -> Verdict:
    """Hold the kubelets' releases against the server's and against what claims need."""
    server = release_of(cluster.version)
    if server is None:
        return unknown(f"the server's version `{cluster.version}` cannot be read")
    with_gpus, kubelets = gpu_nodes(cluster), _kubelets(cluster)
    found: dict[Skew, list[str]] = {}
    for name, release in kubelets.items():
        skew = skew_of(release, server, has_gpus=name in with_gpus)
        if skew is not None:
            found.setdefault(skew, []).append(f"{name} ({release})")
    for skew in Skew:
        if nodes := found.get(skew):
            tell = warning if skew is Skew.BY_GATE else failed
            return tell(f"kubelets {skew}: {listed(nodes)}", _REMEDIES[skew])
    seen = sorted({f"{each.major}.{each.minor}" for each in kubelets.values()})
    said = f"API server {server}, {counted(len(kubelets), 'kubelet')}"
    return ok(f"{said} of {', '.join(seen)}" if seen else said)


def known_faults(cluster: Cluster) -> Verdict:
    """Name the faults that the releases here are known for."""
    found: dict[str, list[str]] = {}
    with_gpus = gpu_nodes(cluster)
    kubelets = {name: it for name, it in _kubelets(cluster).items() if name in with_gpus}
    scheduler = _scheduler(cluster)
    for fault in FAULTS:
        releases = kubelets.values() if fault.of == "kubelet" else scheduler
        hit = sorted({str(it) for it in releases if fault.since <= it < fault.until})
        if hit:
            said = f"{fault.of} {listed(hit)} {fault.what}; gone in {fault.until}"
            found.setdefault(fault.of, []).append(said)
    texts = [text for each in found.values() for text in each]
    if not texts:
        return ok("none of the releases here is known for a fault that matters")
    remedy = f"update {' and '.join(found)}"
    return warning(f"{counted(len(texts), 'known fault')} of the releases here", remedy, *texts)


def runtime_releases(cluster: Cluster) -> Verdict:
    """Hold the container runtimes of GPU nodes against what limits need."""
    with_gpus = gpu_nodes(cluster)
    lacking, open_ones, seen = list[str](), list[str](), set[str]()
    for node in cluster.items(paths.nodes()):
        text = _info(node, "containerRuntimeVersion")
        name, _, version = text.partition("://")
        release = release_of(version)
        if name_of(node) not in with_gpus or release is None:
            continue
        seen.add(f"{name} {release.major}.{release.minor}")
        said = f"{name_of(node)} ({name} {release})"
        if lacks_cdi(name, release):
            lacking.append(said)
        elif lets_pods_override(name, release):
            open_ones.append(said)
    if lacking:
        return failed(f"runtimes without CDI: {listed(lacking)}", "update containerd to 2.0")
    if open_ones:
        said = f"runtimes that let a pod's variables replace its limits: {listed(open_ones)}"
        return warning(said, "update CRI-O to 1.34.0, 1.33.3, 1.32.7 or 1.31.11")
    if not seen:
        return skipped("no node with GPUs is known")
    return ok(f"on nodes with GPUs: {', '.join(sorted(seen))}")


def _kubelets(cluster: Cluster) -> dict[str, Release]:
    found = {}
    for node in cluster.items(paths.nodes()):
        release = release_of(_info(node, "kubeletVersion"))
        if release is not None:
            found[name_of(node)] = release
    return found


def _info(node: JsonObject, key: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(key) or "")


def _scheduler(cluster: Cluster) -> list[Release]:
    """Return the releases of kube-scheduler, by the tags of its images or the server's."""
    try:
        pods = cluster.items(paths.pods("kube-system"), _SCHEDULER)
    except KubeError:
        pods = []
    images = [str(each.get("image", "")) for pod in pods for each in pod["spec"]["containers"]]
    tags = [image.partition("@")[0].rpartition(":")[2] for image in images]
    found = [release for tag in tags if (release := release_of(tag))]
    server = release_of(cluster.version)
    return found or ([server] if server else [])


CHECKS: Final = (
    Check(id="kubelet-skew", run=kubelet_skew),
    Check(id="known-faults", run=known_faults),
    Check(id="runtime-releases", run=runtime_releases),
)
