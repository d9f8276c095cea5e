"""What the chart says of the webhook, and what an API server would make of it.

The conditions are evaluated as CEL, and selectors by the rules of label selectors, so a test says
which object is asked about and not how that is written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sim.apiserver.expressions import answer_of
from tests.charts.rendering import Object, container, of_kind, one, render
from tests.webhook.manifests import denial
from tests.webhook.translating import a_container, a_pod
from webhook.settings import WebhookSettings

PODS = "pods.gpuslice.io"
KEYS = "annotations.gpuslice.io"
CLAIMS = "claims.gpuslice.io"
TEMPLATES = "templates.gpuslice.io"
SHARE = "share.gpuslice.io"
DIRECT = ("ValidatingAdmissionPolicy", "gpuslice-direct-claims")
NAME = "gpuslice-webhook"
SELECTED = {
    "app.kubernetes.io/name": "gpuslice",
    "app.kubernetes.io/instance": "gpuslice",
    "app.kubernetes.io/component": "webhook",
}


def configurations(objects: Sequence[Object]) -> list[Object]:
    """Return both webhook configurations."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return [each for kind in kinds for each in of_kind(objects, kind)]


def hooks(objects: Sequence[Object]) -> dict[str, Object]:
    """Return the webhooks by name."""
    return {hook["name"]: hook for each in configurations(objects) for hook in each["webhooks"]}


def is_asked(
    hook: Object,
    item: Object,
    *,
    old: Object | None = None,
    namespace: Mapping[str, str] | None = None,
) -> bool:
    """Tell whether a webhook is asked about a write of *item* in a namespace with these labels."""
    labels = {"kubernetes.io/metadata.name": "team"} | dict(namespace or {})
    if not selects(hook.get("namespaceSelector") or {}, labels):
        return False
    if not selects(hook.get("objectSelector") or {}, item["metadata"].get("labels") or {}):
        return False
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {"operation": "CREATE" if old is None else "UPDATE", "resource": resource}
    known = {"object": item, "oldObject": old, "request": request}
    answers = [answer_of(each["expression"], known) for each in hook.get("matchConditions", ())]
    assert all(isinstance(answer, bool) for answer in answers), answers
    return all(answers)


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector selects."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions", ()))


def _holds(rule: Object, labels: Mapping[str, str]) -> bool:
    key, values = rule["key"], rule.get("values", ())
    match rule["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            raise AssertionError(rule)


def settings_of(objects: Sequence[Object], name: str = "gpuslice-webhook") -> WebhookSettings:
    """Return what the program makes of its arguments."""
    command, *arguments = container(one(objects, "Deployment", name), "webhook")["args"]
    assert command == "webhook"
    return WebhookSettings.from_arguments(arguments, program="gpuslice webhook")


def rights(role: Object) -> set[tuple[str, str, str]]:
    """Return (resource, name, verb) of all that a role grants; an empty name is any."""
    return {
        (resource, name, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def claim(*classes: str, **devices: Any) -> Object:
    """Return a claim that asks for one device of each class."""
    requests = [
        {"name": f"r{index}", "exactly": {"deviceClassName": name}}
        for index, name in enumerate(classes)
    ]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **devices}}}


def template(of: Object, name: str = "t") -> Object:
    """Return a template of a claim."""
    return {"metadata": {"name": name}, "spec": {"spec": of["spec"]}}


def deployment(values: dict[str, Any] | None = None, kubernetes: str = "1.37.2") -> Object:
    """Return the webhook's Deployment."""
    return one(render(values, kubernetes=kubernetes), "Deployment", NAME)


def pod_of(workload: Object) -> Object:
    """Return the spec of its pods."""
    return dict(workload["spec"]["template"]["spec"])


def asking(key: str, kind: str = "limits", section: str = "containers") -> Object:
    """Return a pod with a container that asks for a resource."""
    pod = a_pod(a_container("plain"))
    pod["spec"].setdefault(section, []).append({"name": "it", "resources": {kind: {key: "1"}}})
    return pod


def denied(
    policy: Object, item: Object, *, hard: dict[str, str], user: str = "alice", labels: Any = None
) -> bool:
    """Tell whether a user may not create a claim where a quota says *hard*."""
    said = denial(
        policy,
        object=item,
        request={"resource": {"resource": "resourceclaims"}, "userInfo": {"username": user}},
        params={"metadata": {"name": "q"}, "spec": {"hard": hard}},
        namespaceObject={"metadata": {"name": "team", "labels": labels or {}}},
    )
    return said is not None
