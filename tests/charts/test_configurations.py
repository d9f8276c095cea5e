"""What the rendered webhook configurations have the API server ask, by release and by values."""

from typing import Any

import pytest

from hami.deviceconfig import DeviceConfig
from kube.draconversion import to_version
from tests.charts.rendering import NAMESPACE, nested, of_kind, one, render
from tests.charts.webhooks import (
    CLAIMS,
    DIRECT,
    KEYS,
    PODS,
    SHARE,
    TEMPLATES,
    asking,
    claim,
    configurations,
    denied,
    hooks,
    is_asked,
    settings_of,
    template,
)
from tests.webhook.translating import a_container, a_pod
from webhook.settings import WebhookSettings

OLD = ["1.25.16", "1.28.3", "1.29.11-eks-56e63d8"]
NEW = ["1.30.5-gke.100", "1.31.2-eks-1", "1.34.0", "1.36.1", "1.37.0"]
FORGED = {"hami.io/vgpu-node": "n"}


@pytest.mark.parametrize("kubernetes", NEW)
def test_only_what_concerns_gpus_waits_where_conditions_are_served(kubernetes: str) -> None:
    """So a webhook that is away refuses, and pods without GPUs are created all the same."""
    found = hooks(render(kubernetes=kubernetes))
    assert {each["failurePolicy"] for each in found.values()} == {"Fail"}
    for key in DeviceConfig().nvidia.keys:
        for kind in ("limits", "requests"):
            for section in ("containers", "initContainers"):
                assert is_asked(found[PODS], asking(key, kind, section))
    for pod in (a_pod(a_container("plain")), asking("cpu"), asking("hygon.com/dcunum")):
        assert not is_asked(found[PODS], pod)
        assert not is_asked(found[KEYS], pod)
    forged = a_pod(a_container("plain"), annotations=FORGED)
    assert is_asked(found[KEYS], forged)
    assert is_asked(found[KEYS], a_pod(a_container("plain")), old=forged)
    assert not is_asked(found[KEYS], forged, old=forged)


@pytest.mark.parametrize("kubernetes", OLD)
def test_without_conditions_no_pod_is_held_up(kubernetes: str) -> None:
    """All are asked about, a webhook that is away is ignored, and kubelet's hot path is spared."""
    found = hooks(render(kubernetes=kubernetes))
    assert sorted(found) == [KEYS, PODS]
    for each in found.values():
        assert each["failurePolicy"] == "Ignore"
        assert "matchConditions" not in each
        assert {name for rule in each["rules"] for name in rule["resources"]} == {"pods"}
        assert is_asked(each, a_pod(a_container("plain")))


@pytest.mark.parametrize("kubernetes", ["1.28.3", "1.37.0"])
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_the_failure_policy_is_the_administrators(kubernetes: str, policy: str) -> None:
    """A value of his counts for all webhooks."""
    found = hooks(render({"webhook": {"failurePolicy": policy}}, kubernetes=kubernetes))
    assert {each["failurePolicy"] for each in found.values()} == {policy}


@pytest.mark.parametrize(
    ("kubernetes", "mode", "served"),
    [
        ("1.33.4", "auto", False),
        ("1.34.0", "auto", True),
        ("1.37.0", "auto", True),
        ("1.37.0", "dra", True),
        ("1.37.0", "hami", False),
    ],
)
def test_claims_are_asked_about_where_they_may_serve(
    kubernetes: str, mode: str, *, served: bool
) -> None:
    """Nothing is registered for a kind that the server does not have, or nobody here serves."""
    objects = render({"mode": mode}, kubernetes=kubernetes)
    assert ({CLAIMS, TEMPLATES} <= set(hooks(objects))) is served
    policies = {each["metadata"]["name"] for each in of_kind(objects, "ValidatingAdmissionPolicy")}
    assert ("gpuslice-direct-claims" in policies) is served


@pytest.mark.parametrize(
    ("kubernetes", "version"), [("1.32.2", "v1beta1"), ("1.33.4", "v1beta2"), ("1.34.1", "v1beta1")]
)
def test_claims_of_older_versions_are_asked_about_where_these_are_chosen(
    kubernetes: str, version: str
) -> None:
    """In the shape that they have there, by both webhooks and the policy."""
    values = {"mode": "dra", "resourceApiVersion": version}
    objects = render(values, kubernetes=kubernetes)
    found, policy = hooks(objects), one(objects, *DIRECT)
    assert settings_of(objects).resource_api_version == version
    for name in (CLAIMS, TEMPLATES):
        assert [rule["apiVersions"] for rule in found[name]["rules"]] == [[version]]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["apiVersions"] == [version]
    for device_class, ours in ((SHARE, True), ("gpu.nvidia.com", False)):
        item = to_version(claim(device_class), "resourceclaims", version)
        made = to_version(template(claim(device_class)), "resourceclaimtemplates", version)
        assert is_asked(found[CLAIMS], item) is ours
        assert is_asked(found[TEMPLATES], made) is ours
        assert denied(policy, item, hard={"limits.nvidia.com/gpu": "1"}) is ours


def test_claims_for_our_classes_are_asked_about() -> None:
    """Also for classes that the values add, which the program is told of and the policy knows."""
    values = {
        "deviceClasses": {"extra": {"fast.example.com": "true"}},
        "webhook": {"settings": {"deviceClasses": ["old.example.com"]}},
    }
    objects = render(values)
    found, policy = hooks(objects), one(objects, *DIRECT)
    names = ("gpu.gpuslice.io", SHARE, "mig.gpuslice.io", "fast.example.com", "old.example.com")
    for name in names:
        item = claim("gpu.nvidia.com", name)
        assert is_asked(found[CLAIMS], item)
        assert is_asked(found[TEMPLATES], template(item))
        assert denied(policy, item, hard={"limits.nvidia.com/gpu": "1"})
    other = claim("gpu.nvidia.com")
    assert not is_asked(found[CLAIMS], other)
    assert not is_asked(found[TEMPLATES], template(other))
    assert is_asked(found[TEMPLATES], template(other, "gpuslice-0123"))
    assert not denied(policy, other, hard={"limits.nvidia.com/gpu": "1"})


def test_the_policy_lets_the_webhook_in_whatever_its_account_is_called() -> None:
    """The account is in the namespace that the chart was put into."""
    values = {
        "namespaceOverride": "gpus",
        "webhook": {"serviceAccount": {"create": False, "name": "hook"}},
    }
    policy = one(render(values), *DIRECT)
    hard = {"limits.nvidia.com/gpumem": "1"}
    assert not denied(policy, claim(SHARE), hard=hard, user="system:serviceaccount:gpus:hook")
    other = f"system:serviceaccount:{NAMESPACE}:hook"
    assert denied(policy, claim(SHARE), hard=hard, user=other)
    allowed = {"gpuslice.io/direct-claims": "allowed"}
    assert not denied(policy, claim(SHARE), hard=hard, labels=allowed)


def test_the_policy_can_be_left_out() -> None:
    """By its value, and with the webhook, without which nobody else may make templates."""
    for values in ({"policies": {"directClaims": False}}, {"webhook": {"enabled": False}}):
        assert "gpuslice-direct-claims" not in {
            each["metadata"]["name"] for each in of_kind(render(values), DIRECT[0])
        }


@pytest.mark.parametrize("kubernetes", ["1.25.16", "1.37.0"])
@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gpu"]}]},
        {"matchLabels": {"tier": "gpu"}},
        {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["kube-system"]}
            ]
        },
    ],
)
def test_own_and_system_namespaces_are_never_asked_about(
    kubernetes: str, selector: dict[str, Any]
) -> None:
    """Whatever is selected besides: the webhook must never wait for itself."""
    values = {"webhook": {"namespaceSelector": selector, "exemptNamespaces": ["build", NAMESPACE]}}
    objects = render(values, kubernetes=kubernetes)
    pod = asking("nvidia.com/gpu")
    for hook in (hooks(objects)[PODS],):
        for name in ("kube-system", NAMESPACE, "build"):
            labels = {"kubernetes.io/metadata.name": name, "tier": "gpu"}
            assert not is_asked(hook, pod, namespace=labels)
        for key in ("gpuslice.io/webhook", "hami.io/webhook"):
            assert not is_asked(hook, pod, namespace={key: "ignore", "tier": "gpu"})
    selectors = [each["namespaceSelector"] for each in hooks(objects).values()]
    assert all(each == selectors[0] for each in selectors)


def test_the_namespace_that_is_exempt_is_the_one_the_pods_are_in() -> None:
    """Not that of the release, when another is given."""
    for hook in hooks(render({"namespaceOverride": "gpus"})).values():
        expressions = hook["namespaceSelector"]["matchExpressions"]
        assert expressions[0]["values"] == ["kube-system", "gpus"]


def test_a_namespace_selector_narrows() -> None:
    """Only namespaces that it selects are asked about."""
    values = nested("webhook.namespaceSelector", {"matchLabels": {"tier": "gpu"}})
    hook = hooks(render(values))[PODS]
    assert is_asked(hook, asking("nvidia.com/gpu"), namespace={"tier": "gpu"})
    assert not is_asked(hook, asking("nvidia.com/gpu"))


def test_an_object_selector_leaves_the_guard_of_allocations() -> None:
    """A user writes the labels of his pods, and must not get out of the guard by one."""
    selector = {"matchExpressions": [{"key": "gpus", "operator": "DoesNotExist"}]}
    found = hooks(render(nested("webhook.objectSelector", selector)))
    pod = asking("nvidia.com/gpu")
    pod["metadata"] |= {"labels": {"gpus": "no"}, "annotations": FORGED}
    assert not is_asked(found[PODS], pod)
    assert is_asked(found[PODS], asking("nvidia.com/gpu"))
    assert is_asked(found[KEYS], pod)


def test_reviews_go_to_the_service_at_the_programs_paths() -> None:
    """The names fit, and the API server waits longer than the program takes."""
    objects = render({"webhook": {"service": {"port": 8443}, "timeoutSeconds": 7}})
    service = one(objects, "Service", "gpuslice-webhook")
    assert [each["port"] for each in service["spec"]["ports"]] == [8443]
    for name, hook in hooks(objects).items():
        assert hook["clientConfig"] == {
            "service": {
                "namespace": NAMESPACE,
                "name": "gpuslice-webhook",
                "path": "/webhook" if name == PODS else "/validate",
                "port": 8443,
            }
        }
        assert hook["timeoutSeconds"] == 7 > WebhookSettings(namespace="x").time_budget_s
        assert hook["sideEffects"] == "None"
    assert hooks(objects)[PODS]["reinvocationPolicy"] == "IfNeeded"
    never = hooks(render({"webhook": {"reinvocationPolicy": "Never"}}))
    assert never[PODS]["reinvocationPolicy"] == "Never"


def test_configurations_go_with_the_webhook() -> None:
    """A cluster without it must not ask for it."""
    assert not configurations(render({"webhook": {"enabled": False}}))
