"""Values that the server fills in when the client leaves them out.

Only those that something in a simulated cluster reads; sources: kubernetes
pkg/apis/core/v1/defaults.go, pkg/apis/resource/v1/defaults.go, the strategies of pkg/registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.json_values import timestamp

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_EVICTS = "NoExecute"
_STAYS_S = 300

# A Go struct is always there, so these have a spec even when the client sent none.
_WITH_SPEC = {
    "deviceclasses",
    "devicetaintrules",
    "leases",
    "namespaces",
    "nodes",
    "pods",
    "resourceclaims",
    "resourceslices",
}


def fill(plural: str, obj: JsonObject) -> None:
    """Fill the defaults of one object in place."""
    if plural in _WITH_SPEC:
        obj.setdefault("spec", {})
    for owner in obj["metadata"].get("ownerReferences", ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            owner.setdefault(field, "")
    filler = _FILLERS.get(plural)
    if filler is not None:
        filler(obj)


def _namespace(obj: JsonObject) -> None:
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")


def _pod(obj: JsonObject) -> None:
    spec = obj["spec"]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("securityContext", {})
    spec.setdefault("priority", 0)
    _tolerations(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _container(container)
    status = obj.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", "BestEffort")


def _tolerations(spec: JsonObject) -> None:
    """Let a pod stay on a node in trouble for a while, as the admission of all pods does."""
    tolerations = spec.get("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        said = any(
            each.get("key", key) == key and each.get("effect", _EVICTS) == _EVICTS
            for each in tolerations
        )
        if not said:
            added = {"key": key, "operator": "Exists", "effect": _EVICTS}
            tolerations = [*tolerations, {**added, "tolerationSeconds": _STAYS_S}]
    spec["tolerations"] = tolerations


def _container(container: JsonObject) -> None:
    image = str(container.get("image", ""))
    tagged = ":" in image.rsplit("/", maxsplit=1)[-1]
    latest = image.endswith(":latest") or not tagged
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _node(obj: JsonObject) -> None:
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status["allocatable"] = {**status["capacity"], **status.get("allocatable", {})}


def _secret(obj: JsonObject) -> None:
    obj.setdefault("type", "Opaque")


def _slice(obj: JsonObject) -> None:
    obj["spec"].setdefault("driver", "")
    pool = obj["spec"].setdefault("pool", {})
    for field, zero in (("name", ""), ("generation", 0), ("resourceSliceCount", 0)):
        pool.setdefault(field, zero)
    for device in obj.get("spec", {}).get("devices", ()):
        device.setdefault("name", "")
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", timestamp())


def _rule(obj: JsonObject) -> None:
    taint = obj["spec"].setdefault("taint", {})
    for field in ("key", "effect"):
        taint.setdefault(field, "")
    taint.setdefault("timeAdded", timestamp())


def _claim(obj: JsonObject) -> None:
    _claim_spec(obj.get("spec", {}))


def _template(obj: JsonObject) -> None:
    _claim_spec(obj.setdefault("spec", {}).setdefault("spec", {}))


def _claim_spec(spec: JsonObject) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for exact in (request.get("exactly"), *request.get("firstAvailable", ())):
            if exact is not None:
                _device_request(exact)


def _device_request(request: JsonObject) -> None:
    request.setdefault("allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations", ()):
        toleration.setdefault("operator", "Equal")


def _webhooks(obj: JsonObject) -> None:
    for hook in obj.get("webhooks", ()):
        hook.setdefault("sideEffects", "")
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        for rule in hook.get("rules", ()):
            rule.setdefault("scope", "*")
        service = hook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def _mutating_webhooks(obj: JsonObject) -> None:
    _webhooks(obj)
    for hook in obj.get("webhooks", ()):
        hook.setdefault("reinvocationPolicy", "Never")


_FILLERS = {
    "mutatingwebhookconfigurations": _mutating_webhooks,
    "validatingwebhookconfigurations": _webhooks,
    "namespaces": _namespace,
    "nodes": _node,
    "pods": _pod,
    "secrets": _secret,
    "resourceslices": _slice,
    "resourceclaims": _claim,
    "resourceclaimtemplates": _template,
    "devicetaintrules": _rule,
}
