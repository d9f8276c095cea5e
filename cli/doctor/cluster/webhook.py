"""Checks of our webhook: how the API server is told to ask it, and whether it answers."""

import json
from typing import Final

from cli.doctor.cluster.hooks import (
    MUTATING,
    PODS_HOOK,
    VALIDATING,
    Hook,
    exempt_namespaces,
    hooks,
    is_exempt,
    our_hooks,
)
from cli.doctor.cluster.trials import DRY_RUN
from cli.doctor.cluster.view import WEBHOOK, Cluster, is_ready
from cli.doctor.model import Check, Verdict, counted, failed, ok, skipped, unknown, warning
from cli.doctor.release import release_of
from kube import paths
from kube.errors import ApiError, KubeError, ServerError
from kube.objects import JsonObject

_CONDITIONS_SINCE: Final = 30
_DENIED: Final = "admission webhook"
_TRIAL_IMAGE: Final = "gpuslice-trial"
_INSTALL: Final = "install the chart with its webhook"
_AGAIN: Final = "apply the chart's webhook configurations again"


def configurations(cluster: Cluster) -> Verdict:
    """Hold both configurations against what the chart makes."""
    ours = our_hooks(cluster)
    if not ours:
        if _pods(cluster):
            return failed("the webhook runs, and the API server is not told to ask it", _INSTALL)
        said = "no webhook of ours: only claims that users write themselves are served"
        return warning(said, _INSTALL)
    kinds = {hook.plural for hook in ours}
    if MUTATING not in kinds or not any(hook.name == PODS_HOOK for hook in ours):
        return failed(f"no {PODS_HOOK}: requests in pods become no claims", _INSTALL)
    severe = [text for hook in ours for text in _severe(hook)]
    if severe:
        return failed(severe[0], _AGAIN, *severe[1:])
    light = [text for hook in ours for text in _light(hook, cluster)]
    if VALIDATING not in kinds:
        light.append("no ValidatingWebhookConfiguration: allocations can be forged in annotations")
    if light:
        return warning(light[0], f"{_AGAIN}, unless its values ask for this", *light[1:])
    policies = sorted({str(hook.raw.get("failurePolicy")) for hook in ours})
    return ok(f"{counted(len(ours), 'webhook')} as the chart has them, {'/'.join(policies)}")


def _severe(hook: Hook) -> list[str]:
    found = []
    needed = {"kube-system"} | ({hook.service[0]} if hook.service else set())
    fails = hook.raw.get("failurePolicy", "Fail") == "Fail"
    if fails and not needed <= exempt_namespaces(hook):
        missing = ", ".join(sorted(needed - exempt_namespaces(hook)))
        found.append(f"{hook.name} is asked about {missing} too: nothing starts while it is away")
    if not hook.has_authorities:
        found.append(f"{hook.name} has no caBundle: the API server does not trust the webhook")
    return found


def _light(hook: Hook, cluster: Cluster) -> list[str]:
    release = release_of(cluster.version)
    if release is None or release.minor < _CONDITIONS_SINCE:
        return []
    if hook.raw.get("failurePolicy", "Fail") != "Fail":
        return [f"{hook.name} has failurePolicy Ignore: while it is away pods pass without limits"]
    if not hook.raw.get("matchConditions"):
        return [f"{hook.name} has no matchConditions: pods without GPUs wait for it too"]
    return []


def endpoints(cluster: Cluster) -> Verdict:
    """Look whether somebody is ready behind the Service."""
    services = {hook.service for hook in our_hooks(cluster)} - {None}
    if not services:
        return skipped("no webhook of ours is asked by a Service")
    ready: list[str] = []
    for namespace, name, _ in sorted(each for each in services if each is not None):
        path = paths.resource("v1", "services", namespace=namespace, name=name)
        if cluster.item(path) is None:
            return failed(f"no Service {namespace}/{name}", "apply the chart again")
        ready += ready_addresses(cluster, namespace, name)
    if not ready:
        remedy = "look at the webhook's pods: `kubectl get pods` and `kubectl logs` say why"
        return failed("no endpoint of the webhook's Service is ready", remedy)
    return ok(f"{counted(len(set(ready)), 'ready endpoint')}")


def ready_addresses(cluster: Cluster, namespace: str, service: str) -> list[str]:
    """Return the addresses of ready endpoints; raises `KubeError`."""
    path = paths.resource("discovery.k8s.io/v1", "endpointslices", namespace=namespace)
    found = cluster.items(path, {"labelSelector": f"kubernetes.io/service-name={service}"})
    return [
        str(address)
        for each in found
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
        for address in endpoint.get("addresses") or ()
    ]


def answers(cluster: Cluster) -> Verdict:
    """Create a pod with limits as a dry run: it must not come back as it was sent."""
    hook = next((each for each in hooks(cluster, MUTATING) if each.name == PODS_HOOK), None)
    if hook is None:
        return skipped("the API server is not told to ask a webhook of ours about pods")
    namespace = cluster.trial_namespace
    there = cluster.item(paths.namespaces(namespace))
    if there is not None and is_exempt(hook, there):
        said = f"namespace {namespace} is exempt from the webhook"
        return unknown(said, "name another with --trial-namespace")
    try:
        made = json.loads(cluster.client.create(paths.pods(namespace), _pod(namespace), DRY_RUN))
    except ServerError as error:
        if "webhook" not in error.message:
            raise
        remedy = "see webhook-endpoints and webhook-certificate, and whether the API server's "
        return failed(error.message, f"{remedy}network reaches it")
    except ApiError as error:
        return _refused(error)
    return _judged(made)


def _refused(error: ApiError) -> Verdict:
    """Tell a refusal by the webhook, which is an answer, from one by somebody else."""
    if _DENIED in error.message and "gpuslice.io" in error.message:
        return ok("it answers: it refused a trial pod", error.message)
    return unknown(f"the trial pod was refused before the webhook was asked: {error.message}")


def _judged(made: JsonObject) -> Verdict:
    spec, metadata = made.get("spec") or {}, made.get("metadata") or {}
    if spec.get("resourceClaims"):
        return ok("it answers: a trial pod's limits became a claim")
    if spec.get("schedulerName", "default-scheduler") != "default-scheduler":
        return ok(f"it answers: a trial pod goes to {spec['schedulerName']}")
    if any(key.startswith("gpuslice.io/") for key in metadata.get("annotations") or ()):
        return ok("it answers: a trial pod was marked")
    return failed(
        "a trial pod with limits for GPUs came back unchanged",
        "see whether another webhook took its limits, and the webhook's --device-config",
    )


def _pod(namespace: str) -> JsonObject:
    """Return a pod that restricted namespaces take, too."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024"}
    container = {
        "name": "trial",
        "image": _TRIAL_IMAGE,
        "resources": {"limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpuslice-trial-", "namespace": namespace},
        "spec": {"containers": [container], "securityContext": security, "restartPolicy": "Never"},
    }


def _pods(cluster: Cluster) -> list[JsonObject]:
    try:
        return [pod for pod in cluster.own_pods(WEBHOOK) if is_ready(pod)]
    except KubeError:
        return []


CHECKS: Final = (
    Check(id="webhook-configured", run=configurations),
    Check(id="webhook-endpoints", run=endpoints),
    Check(id="webhook-answers", run=answers),
)
