"""Checks of the API server: its versions of `resource.k8s.io`, and what it keeps."""

import json
from dataclasses import dataclass
from typing import Final

from cli.doctor.cluster import gates, trials
from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Check, Status, Verdict, ok, unknown, warning
from cli.doctor.release import release_of
from dra.sharing import FEATURE_GATE, sharing_losses
from dra.sharing_state import remedy as sharing_remedy
from kube import paths
from kube.errors import KubeError, NotFoundError, NotServedError

_GROUP: Final = "/apis/resource.k8s.io"
_SPOKEN: Final = ("v1", "v1beta2", "v1beta1")
_DRA_MINOR: Final = 34
_STATUS_GATE: Final = "DRAResourceClaimDeviceStatus"


def served(cluster: Cluster) -> list[str]:
    """Return the versions of the group that the server has; raises `KubeError`."""

    def ask() -> list[str]:
        try:
            document = json.loads(cluster.client.get(_GROUP))
        except NotFoundError:
            return []
        return [str(each["version"]) for each in document["versions"]]

    return cluster.once("versions", ask)


def api_versions(cluster: Cluster) -> Verdict:
    """Say which versions of the group there are, and which is spoken."""
    versions = served(cluster)
    spoken = next((each for each in _SPOKEN if each in versions), None)
    if spoken == "v1":
        return ok(f"{cluster.version} serves {', '.join(versions)}; v1 is spoken")
    if spoken is not None:
        return ok(f"{cluster.version} serves {', '.join(versions)}; {spoken} is spoken, translated")
    release = release_of(cluster.version)
    if release is not None and release.minor < _DRA_MINOR:
        said = "serves no resource.k8s.io: device plugin and extender serve this cluster"
        return ok(f"{cluster.version} {said}")
    return warning(
        f"{cluster.version} serves no version of resource.k8s.io that is spoken here",
        "take resource.k8s.io/v1=false out of the API server's --runtime-config",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature of the server: how to ask for it, and what its absence costs."""

    id: str
    gate: str
    make: trials.TrialMaker
    kept: str
    losing: str
    is_used: bool
    """Something of ours works worse without it."""


FEATURES: Final = (
    Feature(
        id="keeps-alternatives",
        gate="DRAPrioritizedList",
        make=lambda cluster: trials.claim_alternatives(cluster.trial_namespace),
        kept="claims may name alternatives",
        losing="percentages of whichever GPU and preferences cannot be claimed",
        is_used=True,
    ),
    Feature(
        id="keeps-counters",
        gate="DRAPartitionableDevices",
        make=lambda _: trials.slice_counters(),
        kept="slices may have counters that devices share",
        losing="nothing of ours needs it yet",
        is_used=False,
    ),
    Feature(
        id="keeps-extended-name",
        gate="DRAExtendedResource",
        make=lambda _: trials.class_resource(),
        kept="DeviceClasses may have an extendedResourceName",
        losing="only that option of the whole-GPU class needs it",
        is_used=False,
    ),
)


def _feature(feature: Feature) -> Check[Cluster]:
    def run(cluster: Cluster) -> Verdict:
        _need_group(cluster)
        if trials.keeps(cluster, feature.make(cluster)):
            return ok(feature.kept)
        said = f"dropped without the gate {feature.gate}: {feature.losing}"
        return warning(said, _switch(feature.gate)) if feature.is_used else ok(said)

    return Check(id=feature.id, run=run)


def keeps_shares(cluster: Cluster) -> Verdict:
    """Say whether GPUs can be offered in parts, and parts be claimed."""
    _need_group(cluster)
    slices = trials.sharing(cluster)
    claims = trials.keeps(cluster, trials.claim_amount(cluster.trial_namespace))
    if slices.kept and claims:
        return ok("slices may offer parts of a GPU, and claims may ask for amounts")
    dropped = [*sharing_losses(slices.dropped), *(() if claims else ("claims: capacity",))]
    # Only slices were compared; what a claim loses has the same gate.
    return warning(
        f"dropped without the gate {FEATURE_GATE}: only whole GPUs can be claimed",
        f"{sharing_remedy(slices)} on API server, scheduler, controller manager and kubelets",
        *dropped,
    )


def keeps_taints(cluster: Cluster) -> Verdict:
    """Say whether a GPU that fails can be tainted."""
    _need_group(cluster)
    if trials.sharing(cluster).taints_kept:
        return ok("devices may be tainted, so that a GPU that fails gets no new work")
    return warning(
        "dropped without the gate DRADeviceTaints: a GPU that fails is withdrawn, nobody evicted",
        _switch("DRADeviceTaints"),
    )


def keeps_device_status(cluster: Cluster) -> Verdict:
    """Say whether claims can tell how their devices are."""
    _need_group(cluster)
    trial = trials.status_update(cluster.wished(paths.resource_claims()))
    if trial is not None:
        kept: bool | None = trials.keeps_update(cluster, trial)
    else:
        try:
            kept = gates.enabled(cluster, _STATUS_GATE)
        except KubeError as error:
            return unknown(f"no allocated claim to try it on, and no metrics: {error}")
    if kept is None:
        return unknown("no allocated claim to try it on, and the metrics do not name the gate")
    if kept:
        return ok("claims may say how their devices are")
    said = f"dropped without the gate {_STATUS_GATE}: claims do not say that a GPU has failed"
    return warning(said, _switch(_STATUS_GATE))


def mode(cluster: Cluster) -> Verdict:
    """Say what becomes of requests here, as `--mode auto` of the webhook decides it."""
    if not _has_group(cluster):
        return ok("older path: HAMi's annotations, extender and device plugin")
    shares = keeps_shares(cluster)
    if shares.status is Status.OK:
        return ok("claims for shares of GPUs and for whole ones")
    return warning(
        "claims for whole GPUs only; requests for shares take the older path", shares.remedy
    )


def _need_group(cluster: Cluster) -> None:
    if not _has_group(cluster):
        message = "the cluster serves no resource.k8s.io"
        raise NotServedError(message)


def _has_group(cluster: Cluster) -> bool:
    return any(each in _SPOKEN for each in served(cluster))


def _switch(gate: str) -> str:
    return f"switch on the feature gate {gate} on API server, scheduler and controller manager"


CHECKS: Final = (
    Check(id="api-versions", run=api_versions),
    Check(id="keeps-shares", run=keeps_shares),
    Check(id="keeps-taints", run=keeps_taints),
    *(_feature(feature) for feature in FEATURES),
    Check(id="keeps-device-status", run=keeps_device_status),
    Check(id="mode", run=mode),
)
