"""The chart for each release of Kubernetes, each mode, and with everything switched on.

What is asked here holds of every object, whoever made its template.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.charts.matrix import CASES, MODES, RICH, Case
from tests.charts.official import WITHOUT_SCHEMA, violations
from tests.charts.rendering import (
    CHART,
    NAMESPACE,
    RELEASE,
    Object,
    merged,
    of_kind,
    pod_templates,
    render,
    run,
)

_CLUSTER_WIDE: Final = {
    "ClusterRole",
    "ClusterRoleBinding",
    "DeviceClass",
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "SecurityContextConstraints",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_EVERY = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.mark.ahead(by=Case.objects)
@_EVERY
def test_each_object_is_one_of_that_release(case: Case) -> None:
    """Kubernetes' published schemas know every field and miss none; each kind is served."""
    objects = case.objects()
    assert [line for each in objects for line in violations(each, case.minor)] == []
    assert objects


def _by_helm_3(case: Case) -> list[Object]:
    return case.objects(3)


@pytest.mark.ahead(by=_by_helm_3)
@pytest.mark.parametrize("case", [each for each in CASES if each.values != "plain"], ids=str)
def test_both_majors_of_helm_render_the_same(case: Case) -> None:
    """Helm 3 and 4 make equal objects, but for keys that are made anew each time."""
    ours, theirs = (_without_keys(made) for made in (case.objects(), _by_helm_3(case)))
    assert ours == theirs


def _without_keys(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Return objects by kind and name: the majors have another order of kinds."""
    return {
        (each["kind"], each["metadata"]["name"]): (
            {**each, "data": sorted(each["data"])} if each["kind"] == "Secret" else each
        )
        for each in objects
    }


@_EVERY
def test_names_and_labels_are_allowed(case: Case) -> None:
    """Names and labels are not too long, labels are those that people look for, no name twice."""
    seen = []
    for each in case.objects():
        metadata = each["metadata"]
        assert len(metadata["name"]) <= 63
        assert _NAME.fullmatch(metadata["name"]), metadata["name"]
        for value in metadata["labels"].values():
            assert len(value) <= 63
            assert _LABEL.fullmatch(value), value
        assert metadata["labels"]["app.kubernetes.io/instance"] == RELEASE
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert ("namespace" in metadata) is (each["kind"] not in _CLUSTER_WIDE), metadata["name"]
        seen.append((each["kind"], metadata.get("namespace"), metadata["name"]))
    assert len(seen) == len(set(seen))


@_EVERY
def test_common_labels_and_annotations_are_on_every_object(case: Case) -> None:
    """What was said of all objects is on all of them, and on the pods."""
    if case.values == "plain":
        return
    pods = [template["metadata"] for _, template in pod_templates(case.objects())]
    missing = [
        f"{each['kind']}/{each['metadata']['name']}"
        for each in case.objects()
        if each["metadata"]["labels"].get("example.com/team") != "ml"
        or each["metadata"].get("annotations", {}).get("example.com/contact") != "ml"
    ]
    assert missing == []
    assert [each["labels"] for each in pods if "example.com/team" not in each["labels"]] == []


@_EVERY
def test_selectors_find_pods(case: Case) -> None:
    """Workloads own the pods that they make, and what selects pods selects those of a workload."""
    pods = [template["metadata"]["labels"] for _, template in pod_templates(case.objects())]
    for each in case.objects():
        spec = each.get("spec", {})
        match each["kind"]:
            case "DaemonSet" | "Deployment":
                made = spec["template"]["metadata"]["labels"]
                assert spec["selector"]["matchLabels"].items() <= made.items()
                assert [one for one in pods if _fits(spec["selector"], one)] == [made]
            case "Service":
                assert len([one for one in pods if _selected(each) <= one.items()]) == 1
            case "PodDisruptionBudget":
                assert len([one for one in pods if _fits(spec["selector"], one)]) == 1
            case "NetworkPolicy":
                assert len([one for one in pods if _fits(spec["podSelector"], one)]) == 1
            case _:
                pass


_WHILE_IT_RUNS: Final = {"gpuslice.io/leads": "the extender labels the pod of the one that decides"}
"""Labels that a pod gets later."""


def _selected(service: Object) -> set[tuple[str, str]]:
    selector = service["spec"]["selector"]
    return {pair for pair in selector.items() if pair[0] not in _WHILE_IT_RUNS}


def _fits(selector: Object, labels: dict[str, str]) -> bool:
    return bool(selector["matchLabels"].items() <= labels.items())


@_EVERY
def test_services_lead_to_ports_that_containers_have(case: Case) -> None:
    """The target of each port is one of the pods that the Service selects."""
    templates = [template for _, template in pod_templates(case.objects())]
    for service in of_kind(case.objects(), "Service"):
        (pod,) = [
            each for each in templates if _selected(service) <= each["metadata"]["labels"].items()
        ]
        ports = [port for each in pod["spec"]["containers"] for port in each.get("ports", [])]
        known = {port.get("name") for port in ports} | {port["containerPort"] for port in ports}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= known


@_EVERY
def test_probes_ask_ports_that_containers_have(case: Case) -> None:
    """Each program is asked whether it lives; what others ask says when it is ready."""
    for _, template in pod_templates(case.objects()):
        for each in template["spec"]["containers"]:
            names = {port["name"] for port in each["ports"]}
            probes = [each["startupProbe"], each["livenessProbe"]]
            if each["name"] != "kube-scheduler":
                probes.append(each["readinessProbe"])
            assert {probe["httpGet"]["port"] for probe in probes} <= names


@_EVERY
def test_monitors_find_metrics(case: Case) -> None:
    """A PodMonitor selects the pods of one workload and names a port that they have."""
    templates = [template for _, template in pod_templates(case.objects())]
    monitors = of_kind(case.objects(), "PodMonitor")
    for monitor in monitors:
        selector = monitor["spec"]["selector"]
        (pod,) = [each for each in templates if _fits(selector, each["metadata"]["labels"])]
        ports = [port for each in pod["spec"]["containers"] for port in each["ports"]]
        names = {port["name"] for port in ports}
        assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= names
    assert len(monitors) == (0 if case.values == "plain" else len(templates))


_BY_CERT_MANAGER: Final = {
    ("Secret", f"{RELEASE}-{name}") for name in ("webhook-tls", "scheduler-tls", "scheduler-ca")
}
_ELSEWHERE: Final = {
    ("Secret", "pull"): "the administrator's, by imagePullSecrets",
    ("ConfigMap", "by-hand"): "the administrator's, by nodeConfiguration.externalConfigName",
    ("ClusterRole", "system:kube-scheduler"): "Kubernetes' own",
    ("ClusterRole", "system:volume-scheduler"): "Kubernetes' own",
    ("Role", "extension-apiserver-authentication-reader"): "Kubernetes' own",
}
"""What objects of the chart name and the chart does not make."""


@_EVERY
def test_what_is_named_is_there(case: Case) -> None:
    """ConfigMaps, Secrets, accounts, roles, Services and policies that are named are made too."""
    objects = case.objects()
    made = {(each["kind"], each["metadata"]["name"]) for each in objects}
    if case.values == "signed":
        made |= _BY_CERT_MANAGER
    named = {name for each in objects for name in _named(each)}
    assert named - made - set(_ELSEWHERE) == set()


@_EVERY
def test_keys_that_pods_mount_are_there(case: Case) -> None:
    """Of a ConfigMap or Secret that the chart makes each key that is named exists."""
    made = {
        (each["kind"], each["metadata"]["name"]): set(each.get("data", {}))
        for each in case.objects()
        if each["kind"] in {"ConfigMap", "Secret"}
    }
    for _, template in pod_templates(case.objects()):
        for each in template["spec"].get("volumes", []):
            secret, told = each.get("secret", {}), each.get("configMap", {})
            name = (
                ("Secret", secret.get("secretName")) if secret else ("ConfigMap", told.get("name"))
            )
            keys = {item["key"] for item in (secret or told).get("items", [])}
            assert keys <= made.get(name, keys), name


def _named(obj: Object) -> Iterator[tuple[str, str]]:
    spec = obj.get("spec", {})
    match obj["kind"]:
        case "DaemonSet" | "Deployment":
            yield from _named_by_pod(spec["template"]["spec"])
        case "RoleBinding" | "ClusterRoleBinding":
            yield obj["roleRef"]["kind"], obj["roleRef"]["name"]
            yield from ((each["kind"], each["name"]) for each in obj["subjects"])
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            yield from (
                ("Service", each["clientConfig"]["service"]["name"]) for each in obj["webhooks"]
            )
        case "ValidatingAdmissionPolicyBinding":
            yield "ValidatingAdmissionPolicy", spec["policyName"]
        case "Certificate":
            yield spec["issuerRef"]["kind"], spec["issuerRef"]["name"]
        case _:
            pass


def _named_by_pod(pod: Object) -> Iterator[tuple[str, str]]:
    yield "ServiceAccount", pod["serviceAccountName"]
    yield from (("Secret", each["name"]) for each in pod.get("imagePullSecrets", []))
    volumes = pod.get("volumes", [])
    for each in volumes:
        if "configMap" in each:
            yield "ConfigMap", each["configMap"]["name"]
        if "secret" in each:
            yield "Secret", each["secret"]["secretName"]
    mounts = [
        mount["name"]
        for each in [*pod["containers"], *pod.get("initContainers", [])]
        for mount in each.get("volumeMounts", [])
    ]
    assert set(mounts) == {each["name"] for each in volumes}


@_EVERY
def test_pods_are_replaced_when_their_configuration_changes(case: Case) -> None:
    """A pod that reads a ConfigMap of the chart has a checksum of it."""
    for name, template in pod_templates(case.objects()):
        reads = [
            each["configMap"]["name"]
            for each in template["spec"].get("volumes", [])
            if "configMap" in each and each["configMap"]["name"] != "by-hand"
        ]
        annotations = template["metadata"].get("annotations", {})
        checksums = [key for key in annotations if key.startswith("checksum/")]
        assert len(checksums) >= len(set(reads)), name


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize("mode", MODES)
def test_helm_lint_has_nothing_to_say(helm: int, mode: str) -> None:
    """`helm lint --strict` passes for each mode."""
    output = run(
        helm,
        *("lint", "--strict", str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.37.0"),
        *("--set", f"mode={mode},scheduler.kubeScheduler.image.repository=kube-scheduler"),
    )
    assert "0 chart(s) failed" in output
    assert "[WARNING]" not in output
    assert "[ERROR]" not in output


@pytest.mark.parametrize("values", [{"fullnameOverride": "n" * 40}, {}], ids=["name", "release"])
def test_the_longest_names_are_short_enough(values: dict[str, Any]) -> None:
    """Every name fits with the longest name of a release that helm takes; roles may have longer."""
    objects = render(
        merged(RICH, {**values, "mode": "auto"}), kubernetes="1.34.0", release="r" * 53
    )
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert [name for kind, name in names if len(name) > 63 and "Role" not in kind] == []
    assert [line for each in objects for line in violations(each, 34)] == []
    assert len(names) == len(set(names))


def test_kinds_without_a_schema_are_all_seen() -> None:
    """Each kind that is let pass unseen is one that the chart makes."""
    made = {(each["apiVersion"], each["kind"]) for case in CASES for each in case.objects()}
    assert set(WITHOUT_SCHEMA) <= made
