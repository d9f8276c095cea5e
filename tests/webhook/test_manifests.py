"""What the API server asks the webhook about, and what the webhook may do."""

import itertools
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.names import CLASS_MIG, CLASS_SHARE, CLASS_WHOLE
from hami.deviceconfig import DeviceConfig
from hami.keys import SCHEDULER_OWNED, SCHEDULER_OWNED_LABELS
from hami.vendors import from_sections
from kube.objects import JsonObject
from sim.apiserver.expressions import answer_of
from tests.webhook.manifests import (
    FOLDER,
    condition,
    denial,
    documents,
    hooks,
    is_asked,
    only,
    texts,
)
from tests.webhook.translating import a_container, a_pod
from webhook.guard import touched
from webhook.requestannotation import ANNOTATION, LABEL
from webhook.review import Review, UserInfo
from webhook.settings import WebhookSettings

PODS = "pods.gpuslice.io"
KEYS = "annotations.gpuslice.io"
CLAIMS = "claims.gpuslice.io"
TEMPLATES = "templates.gpuslice.io"
NAMESPACE = "gpuslice-system"
CHIP = "hami.io/Ascend999-devices-allocated"


@pytest.mark.parametrize("release", ["1.30", "1.34", "1.36", "1.37"])
def test_manifests_are_what_the_api_server_takes(release: str) -> None:
    """By the official schemas, without unknown fields."""
    for each in documents():
        kubernetes_validate.validate(each, release, strict=True)


def test_reviews_go_where_the_program_serves_and_fail_closed() -> None:
    """The names fit the settings, and a webhook that is away refuses."""
    settings = WebhookSettings(namespace=NAMESPACE)
    service = only("Service")
    assert service["metadata"]["name"] == settings.service_name
    assert service["metadata"]["namespace"] == NAMESPACE
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] == settings.port
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert only(kind)["metadata"]["name"] in settings.configurations
    for name, hook in hooks().items():
        assert hook["clientConfig"] == {
            "service": {
                "namespace": NAMESPACE,
                "name": settings.service_name,
                "path": "/webhook" if name == PODS else "/validate",
                "port": port["port"],
            }
        }
        assert hook["failurePolicy"] == "Fail"
        assert hook["sideEffects"] == "None"
        assert hook["timeoutSeconds"] == 5
        assert hook["timeoutSeconds"] > settings.time_budget_s
        assert len(hook["matchConditions"]) <= 64
    assert hooks()[PODS]["reinvocationPolicy"] == "IfNeeded"


def test_what_is_asked_about() -> None:
    """Every way by which pods get annotations, and the creation of claims and templates."""
    found = {
        name: sorted(
            (resource, operation)
            for rule in hook["rules"]
            for resource in rule["resources"]
            for operation in rule["operations"]
        )
        for name, hook in hooks().items()
    }
    assert found == {
        PODS: [("pods", "CREATE")],
        KEYS: [
            ("bindings", "CREATE"),
            ("pods", "CREATE"),
            ("pods", "UPDATE"),
            ("pods/binding", "CREATE"),
            ("pods/status", "UPDATE"),
        ],
        CLAIMS: [("resourceclaims", "CREATE")],
        TEMPLATES: [("resourceclaimtemplates", "CREATE"), ("resourceclaimtemplates", "UPDATE")],
    }


@pytest.mark.parametrize(
    ("labels", "asked"),
    [
        ({"kubernetes.io/metadata.name": "team"}, True),
        ({"kubernetes.io/metadata.name": "kube-system"}, False),
        ({"kubernetes.io/metadata.name": NAMESPACE}, False),
        ({"kubernetes.io/metadata.name": "team", "gpuslice.io/webhook": "ignore"}, False),
        ({"kubernetes.io/metadata.name": "team", "hami.io/webhook": "ignore"}, False),
        ({"kubernetes.io/metadata.name": "team", "gpuslice.io/webhook": "x"}, True),
    ],
)
def test_own_and_exempt_namespaces_are_left_alone(labels: dict[str, str], *, asked: bool) -> None:
    """A restart of the webhook never waits for the webhook, and no pod can exempt itself."""
    for hook in hooks().values():
        rules = hook["namespaceSelector"]["matchExpressions"]
        assert all(rule["operator"] == "NotIn" for rule in rules)
        assert all(labels.get(rule["key"]) not in rule["values"] for rule in rules) is asked
        assert "objectSelector" not in hook


NVIDIA_KEYS = sorted(DeviceConfig().nvidia.keys)
OTHER_KEYS = sorted(
    frozenset[str]().union(
        *(vendor.keys for vendor in from_sections({}, ascend=True, iluvatar=True))
    )
)


def listed_domains() -> list[str]:
    """Return the domains that a comment of the manifest lists for administrators to add."""
    lines = (FOLDER / "configurations.yaml").read_text().splitlines()
    rest = itertools.dropwhile(lambda line: "other vendors" not in line, lines)
    comment = itertools.takewhile(lambda line: line.lstrip().startswith("#"), rest)
    return [text for line in comment for text in texts(line)]


def with_all_domains(expression: str) -> str:
    """Return the condition about pods as an administrator of all vendors has it."""
    both = ", ".join(f'"{each}"' for each in ["nvidia.com", *listed_domains()])
    assert expression.count('["nvidia.com"]') == 1
    return expression.replace('["nvidia.com"]', f"[{both}]")


@pytest.mark.parametrize("section", ["initContainers", "containers"])
@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_a_pod_that_asks_for_a_device_is_asked_about(section: str, kind: str) -> None:
    """In limits or requests, in whatever container; others' once their domains were added."""
    for key in (*NVIDIA_KEYS, *OTHER_KEYS):
        pod = a_pod(a_container("main"))
        pod["spec"].setdefault(section, []).append({"name": "it", "resources": {kind: {key: "1"}}})
        assert is_asked(PODS, pod) is (key in NVIDIA_KEYS), key
        asked = {"object": pod, "oldObject": None, "request": {"operation": "CREATE"}}
        assert answer_of(with_all_domains(condition(PODS)), asked) is True, key


def test_the_domains_to_add_are_those_of_hamis_vendors() -> None:
    """Without a device configuration nobody serves them, and their pods need not wait."""
    domains = {key.partition("/")[0] for key in OTHER_KEYS}
    assert listed_domains() == sorted(domains)


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"limits": {}},
        {"limits": {"cpu": "1", "memory": "1Gi", "example.com/fpga": "1"}},
        {"requests": {"hugepages-2Mi": "1", "ephemeral-storage": "1"}},
        {"limits": {"hygon.com/dcunum": "1"}},
    ],
)
def test_a_pod_without_devices_is_never_held_up(resources: JsonObject | None) -> None:
    """It is created also while the webhook is away."""
    container = a_container("main")
    if resources is not None:
        container["resources"] = resources
    pod = a_pod(container, inits=[a_container("before")], annotations={"note": "nvidia.com/gpu"})
    assert not is_asked(PODS, pod)
    assert not is_asked(KEYS, pod)


def test_a_pod_with_claims_is_asked_about() -> None:
    """It may be a share."""
    claim = {"name": "gpu", "resourceClaimName": "mine"}
    assert is_asked(PODS, a_pod(a_container("main"), resourceClaims=[claim]))
    assert not is_asked(PODS, a_pod(a_container("main"), resourceClaims=[]))


def test_the_guarded_keys_are_those_of_hami() -> None:
    """Exactly the list that the webhook has, and our own."""
    before, _, listed = condition(KEYS).rpartition("|| [")
    assert len(texts(listed)) == len(SCHEDULER_OWNED)
    assert set(texts(listed)) == SCHEDULER_OWNED
    assert set(texts(before)) >= {ANNOTATION, LABEL, *SCHEDULER_OWNED_LABELS}


def noted(annotations: dict[str, str] | None, labels: dict[str, str] | None = None) -> JsonObject:
    """Return a pod with notes."""
    pod = a_pod(a_container("main"), annotations=annotations)
    if labels is not None:
        pod["metadata"]["labels"] = labels
    return pod


@pytest.mark.parametrize("key", sorted({*SCHEDULER_OWNED, CHIP}))
def test_a_guarded_annotation_is_asked_about(key: str) -> None:
    """When it is set, changed or removed, and by a Binding."""
    with_it, without, other = noted({key: "x"}), noted({"a": "b"}), noted({key: "y"})
    assert is_asked(KEYS, with_it)
    assert is_asked(KEYS, with_it, without)
    assert is_asked(KEYS, with_it, noted(None))
    assert is_asked(KEYS, without, with_it)
    assert is_asked(KEYS, other, with_it)
    assert not is_asked(KEYS, with_it, with_it)
    binding = {"metadata": {"name": "pod", "annotations": {key: "x"}}, "target": {"name": "n"}}
    assert is_asked(KEYS, binding, subResource="binding")


def test_a_status_update_that_leaves_them_alone_is_not_asked_about() -> None:
    """Kubelet's updates of a pod that HAMi has placed stay off the hot path."""
    old = noted({"hami.io/vgpu-node": "n", "note": "a"}, {"hami.io/vgpu-node": "n"})
    new = noted({"hami.io/vgpu-node": "n", "note": "b"}, {"hami.io/vgpu-node": "n", "c": "d"})
    new["status"] = {"phase": "Running"}
    assert not is_asked(KEYS, new, old, subResource="status")
    assert not is_asked(KEYS, {"metadata": {"name": "pod"}, "target": {}}, subResource="binding")


def test_our_own_record_is_guarded_only_after_creation() -> None:
    """The webhook writes it on new pods itself."""
    pod = noted({ANNOTATION: "{}"}, {LABEL: "true"})
    assert not is_asked(KEYS, pod)
    assert is_asked(KEYS, pod, noted({}, {LABEL: "true"}))
    assert is_asked(KEYS, noted({ANNOTATION: "{}"}), pod)
    group = {"group": "", "version": "v1", "resource": "bindings"}
    assert is_asked(KEYS, pod, resource=group)
    assert is_asked(KEYS, pod, subResource="binding")


NOTES = st.none() | st.dictionaries(
    st.sampled_from(
        [*sorted(SCHEDULER_OWNED)[:6], CHIP, "hami.io/vgpu-node", ANNOTATION, LABEL, "a"]
    ),
    st.sampled_from(["", "x", "y"]),
    max_size=3,
)
WAYS = st.sampled_from(
    [
        ("CREATE", "pods", ""),
        ("UPDATE", "pods", ""),
        ("UPDATE", "pods", "status"),
        ("CREATE", "pods", "binding"),
        ("CREATE", "bindings", ""),
    ]
)


@given(WAYS, st.tuples(NOTES, NOTES), st.tuples(NOTES, NOTES))
def test_the_condition_and_the_webhook_agree(
    way: tuple[str, str, str], new: tuple[Any, Any], old: tuple[Any, Any]
) -> None:
    """Whatever the webhook would look into is asked about, and hardly more."""
    operation, resource, subresource = way
    item = noted(*new)
    before = noted(*old) if operation == "UPDATE" else None
    review = Review(
        api_version="admission.k8s.io/v1",
        uid="u",
        operation=operation,
        group="",
        resource=resource,
        subresource=subresource,
        namespace="default",
        name="pod",
        user=UserInfo(username="user"),
        item=item,
        old_item=before,
        dry_run=False,
    )
    about: dict[str, Any] = {"resource": {"group": "", "version": "v1", "resource": resource}}
    if subresource:
        about["subResource"] = subresource
    asked = is_asked(KEYS, item, before, operation=operation, **about)
    assert asked == any(touched(review))


def a_claim(*requests: JsonObject, **devices: Any) -> JsonObject:
    """Return a claim."""
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests), **devices}}}


def exactly(name: str) -> JsonObject:
    """Return a request of one class."""
    return {"name": "a", "exactly": {"deviceClassName": name}}


OURS = (CLASS_WHOLE, CLASS_SHARE, CLASS_MIG)
OPAQUE = {"config": [{"opaque": {"driver": "gpuslice.io", "parameters": {}}}]}
OTHER = {"config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": {}}}]}
CLAIMS_OF_OURS = [
    *(a_claim(exactly("gpu.nvidia.com"), exactly(name)) for name in OURS),
    *(
        a_claim(
            {"name": "a", "firstAvailable": [{"deviceClassName": "x"}, {"deviceClassName": name}]}
        )
        for name in OURS
    ),
    a_claim(exactly("x"), **OPAQUE),
]
CLAIMS_OF_OTHERS = [
    a_claim(),
    a_claim(exactly("gpu.nvidia.com"), **OTHER),
    a_claim({"name": "a", "firstAvailable": [{"deviceClassName": "x"}]}),
    {"metadata": {"name": "c"}, "spec": {}},
]


@pytest.mark.parametrize("claim", CLAIMS_OF_OURS)
def test_claims_for_our_devices_are_asked_about(claim: JsonObject) -> None:
    """Each class, in each shape of a request, and each configuration for our driver."""
    assert is_asked(CLAIMS, claim)
    assert is_asked(TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim["spec"]}})


@pytest.mark.parametrize("claim", CLAIMS_OF_OTHERS)
def test_claims_for_other_devices_are_never_held_up(claim: JsonObject) -> None:
    """Other drivers work on while the webhook is away; only names like ours are looked at."""
    assert not is_asked(CLAIMS, claim)
    template: JsonObject = {"metadata": {"name": "t"}, "spec": {"spec": claim["spec"]}}
    assert not is_asked(TEMPLATES, template)
    template["metadata"]["name"] = "gpuslice-" + "0" * 40
    assert is_asked(TEMPLATES, template)


KUBERNETES = (
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:serviceaccount:kube-system:resource-claim-controller",
)
US = f"system:serviceaccount:{NAMESPACE}:gpuslice-webhook"


def direct(user: str, claim: JsonObject, *, hard: JsonObject, labels: JsonObject) -> str | None:
    """Return why a user may not create *claim* himself in a namespace with a quota."""
    return denial(
        only("ValidatingAdmissionPolicy"),
        object=claim,
        request={"resource": {"resource": "resourceclaims"}, "userInfo": {"username": user}},
        params={"metadata": {"name": "team-quota"}, "spec": {"hard": hard}},
        namespaceObject={"metadata": {"name": "team", "labels": labels}},
    )


GPU_QUOTA = {"limits.nvidia.com/gpumem": "1000"}


@pytest.mark.parametrize("claim", CLAIMS_OF_OURS[:-1])
def test_where_a_quota_limits_gpus_users_make_no_claims(claim: JsonObject) -> None:
    """The message names the quota and both ways out."""
    said = direct("alice", claim, hard=GPU_QUOTA, labels={})
    assert said is not None
    assert "team-quota" in said
    assert "gpuslice.io/direct-claims=allowed" in said


@pytest.mark.parametrize("user", [*KUBERNETES, US])
def test_kubernetes_and_the_webhook_make_claims_everywhere(user: str) -> None:
    """Generated claims are what pods are made of."""
    assert direct(user, CLAIMS_OF_OURS[0], hard=GPU_QUOTA, labels={}) is None


def test_users_make_claims_where_nothing_is_limited_or_it_is_allowed() -> None:
    """Quotas on other things, claims for other devices, and labelled namespaces."""
    ours, other = CLAIMS_OF_OURS[0], CLAIMS_OF_OTHERS[1]
    assert direct("alice", ours, hard={"pods": "3"}, labels={}) is None
    assert direct("alice", other, hard=GPU_QUOTA, labels={}) is None
    labels = {"gpuslice.io/direct-claims": "allowed"}
    assert direct("alice", ours, hard=GPU_QUOTA, labels=labels) is None
    assert direct("alice", ours, hard=GPU_QUOTA, labels={"gpuslice.io/direct-claims": "no"})


def test_templates_are_held_to_the_same() -> None:
    """Otherwise Kubernetes would make the claim in the user's place."""
    template = {"metadata": {"name": "t"}, "spec": {"spec": CLAIMS_OF_OURS[1]["spec"]}}
    said = denial(
        only("ValidatingAdmissionPolicy"),
        object=template,
        request={
            "resource": {"resource": "resourceclaimtemplates"},
            "userInfo": {"username": "alice"},
        },
        params={"metadata": {"name": "q"}, "spec": {"hard": GPU_QUOTA}},
        namespaceObject={"metadata": {"name": "team"}},
    )
    assert said is not None


def test_the_policy_is_bound_to_the_quotas_of_the_namespace() -> None:
    """Without any quota it does not apply."""
    policy, binding = only("ValidatingAdmissionPolicy"), only("ValidatingAdmissionPolicyBinding")
    assert policy["spec"]["paramKind"] == {"apiVersion": "v1", "kind": "ResourceQuota"}
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["paramRef"] == {"selector": {}, "parameterNotFoundAction": "Allow"}
    assert binding["spec"]["validationActions"] == ["Deny"]
