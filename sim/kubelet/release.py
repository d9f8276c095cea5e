"""What differs between the kubelets of Kubernetes releases, seen from a plugin."""

from dataclasses import dataclass
from typing import Final

SERVICE_V1: Final = "v1.DRAPlugin"
SERVICE_V1BETA1: Final = "v1beta1.DRAPlugin"
HEALTH_V1: Final = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1: Final = "v1alpha1.DRAResourceHealth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The behaviour of one kubelet release."""

    git_version: str
    services: frozenset[str] = frozenset({SERVICE_V1, SERVICE_V1BETA1})
    """DRA services that it can call; the plugin's order chooses among them."""
    health_services: tuple[str, ...] = (HEALTH_V1, HEALTH_V1ALPHA1)
    """Health services by preference; empty where `ResourceHealthStatus` is off."""
    health_unasked: bool = False
    """Whether the stream is opened although the plugin did not advertise the service."""
    appends_devices: bool = False
    """Whether a repeated answer adds its devices to those of the earlier one, where newer
    kubelets replace them (up to 1.36; Kubernetes pull request 140274)."""
    unprepares_by_spec: bool = False
    """Whether a pod lets go of the claims that its spec names, prepared for it or not, where newer
    kubelets look up what was prepared for it (up to 1.36; pull request 140212)."""
    waits_for_unprepare: bool = True
    """Whether a pod is refused a claim that is being unprepared, where older kubelets let it in and
    then forget the claim (since 1.37; pull request 140527)."""
    health_ends_unimplemented: bool = True
    """Whether a health stream that the plugin does not implement is never asked for again."""
    knows_node_operations: bool = True
    """Whether a claim that skips node operations is refused for want of the feature gate."""
    knows_share_id: bool = True
    keeps_endpoints: bool = True
    """Whether several device plugins of a resource stand side by side, each known by its socket,
    where older kubelets know one, and take the end of any connection for the end of that (since
    1.37)."""
    spares_claim_resources: bool = True
    """Whether resources that a claim serves are none of the device plugins' (since 1.35)."""
    lists_active_pods: bool = True
    """Whether the pod resources of ended pods are left out of the list (since 1.34)."""
    tells_claims: bool = True
    """Whether pod resources name claims, and one pod can be asked for (by default since 1.34)."""


def release(version: str) -> Release:
    """Return the kubelet of *version*, such as `1.36`; raise `ValueError` below 1.32."""
    major, _, minor_text = version.removeprefix("v").partition(".")
    minor = int(minor_text.split(".")[0])
    if (int(major), minor) < (1, 32):
        message = f"no kubelet of version {version}: plugins of today need 1.32"
        raise ValueError(message)
    health: tuple[str, ...] = (HEALTH_V1, HEALTH_V1ALPHA1)
    if minor == 36:
        health = (HEALTH_V1ALPHA1,)
    if minor < 36:
        health = ()
    both = frozenset({SERVICE_V1, SERVICE_V1BETA1})
    return Release(
        git_version=f"v1.{minor}.0",
        services=both if minor >= 34 else frozenset({SERVICE_V1BETA1}),
        health_services=health,
        health_unasked=minor == 36,
        appends_devices=minor <= 36,
        unprepares_by_spec=minor <= 36,
        waits_for_unprepare=minor >= 37,
        health_ends_unimplemented=minor >= 37,
        knows_node_operations=minor >= 37,
        knows_share_id=minor >= 35,
        keeps_endpoints=minor >= 37,
        spares_claim_resources=minor >= 35,
        lists_active_pods=minor >= 34,
        tells_claims=minor >= 34,
    )
