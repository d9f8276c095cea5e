"""The webhook's pods, rights and Service as the chart renders them."""

from typing import Any, Final

import pytest

from tests.charts.rendering import (
    NAMESPACE,
    Object,
    RefusedError,
    container,
    nested,
    of_kind,
    one,
    render,
    render_text,
)
from tests.charts.webhooks import configurations, rights, settings_of
from webhook.settings import WebhookSettings

NAME = "gpuslice-webhook"
SELECTED = {
    "app.kubernetes.io/name": "gpuslice",
    "app.kubernetes.io/instance": "gpuslice",
    "app.kubernetes.io/component": "webhook",
}


def deployment(values: dict[str, Any] | None = None, kubernetes: str = "1.37.2") -> Object:
    """Return the Deployment."""
    return one(render(values, kubernetes=kubernetes), "Deployment", NAME)


def pod_of(workload: Object) -> Object:
    """Return the spec of its pods."""
    return dict(workload["spec"]["template"]["spec"])


def test_the_program_takes_its_arguments() -> None:
    """With no values they say what its own defaults say, but for the file that the chart makes."""
    found = settings_of(render({"mode": "dra"}))
    assert found == WebhookSettings(namespace=NAMESPACE, mode="dra")
    older = settings_of(render(kubernetes="1.33.0"))
    assert older.mode == "auto"


@pytest.mark.parametrize("helm", [3, 4])
def test_values_reach_the_program(helm: int) -> None:
    """Those of the chart by their flags, and each setting by its own."""
    values = {
        "mode": "hami",
        "scheduler": {"name": "gpus"},
        "kubeletPlugin": {"settings": {"unlimitedNamespaces": ["trusted"]}},
        "deviceClasses": {"extra": {"fast": "true"}},
        "deviceConfig": {"sections": {"nvidia": {"defaultMemory": 1000000}}},
        "webhook": {
            "exemptNamespaces": ["build", NAMESPACE],
            "settings": {
                "minimumShareMib": 1000000,
                "gpuSizesMib": ["16384", "24576"],
                "quota": False,
                "forceOverwrite": False,
                "logLevel": "debug",
                "deviceClasses": ["old"],
                "port": 10250,
            },
            "extraArgs": ["--log-format=text"],
        },
    }
    found = settings_of(render(values, helm=helm))
    assert (found.mode, found.scheduler_name) == ("hami", "gpus")
    assert found.uncontrolled_namespaces == ("trusted",)
    assert found.device_classes == ("fast", "old")
    assert str(found.device_config) == "/config/device-config.yaml"
    assert found.exempt_namespaces == ("build",)
    assert found.minimum_share_mib == 1000000
    assert found.sizes_mib == (16384, 24576)
    assert not found.quota
    assert not found.force_overwrite
    assert (found.log_level, found.log_format, found.port) == ("debug", "text", 10250)


def test_ports_follow_the_settings() -> None:
    """Containers, probes, the Service, the policy and Prometheus agree."""
    values = {
        "webhook": {"settings": {"port": 10250, "probePort": 10251}},
        "networkPolicy": {"enabled": True},
    }
    objects = render(values)
    workload = one(objects, "Deployment", NAME)
    ports = {
        each["name"]: each["containerPort"] for each in container(workload, "webhook")["ports"]
    }
    assert ports == {"https": 10250, "metrics": 10251}
    (port,) = one(objects, "Service", NAME)["spec"]["ports"]
    assert port["targetPort"] == 10250
    policy = one(objects, "NetworkPolicy", NAME)
    assert [each["ports"][0]["port"] for each in policy["spec"]["ingress"]] == [10250, 10251]
    annotations = workload["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "10251"


def test_probes_ask_the_program_where_it_answers() -> None:
    """Readiness decides about reviews; a restart needs more patience than the program's own."""
    found = container(deployment(), "webhook")
    paths = {name: found[name]["httpGet"] for name in found if name.endswith("Probe")}
    assert paths == {
        "startupProbe": {"path": "/healthz", "port": "metrics"},
        "livenessProbe": {"path": "/healthz", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }


def test_pods_are_known_to_one_another_by_name_and_address() -> None:
    """A replica sends what only the leader knows to the leader's own address."""
    found = container(deployment(), "webhook")
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in found["env"]}
    assert fields == {
        "GPUSLICE_POD_NAME": "metadata.name",
        "GPUSLICE_ADVERTISE_ADDRESS": "status.podIP",
    }
    prefix = "GPUSLICE_"
    names = {name.removeprefix(prefix).lower() for name in fields}
    assert names <= set(WebhookSettings.model_fields)


def test_pods_are_restricted_and_find_no_services_in_their_environment() -> None:
    """A Service's variables would be taken for settings."""
    workload = deployment()
    pod, found = pod_of(workload), container(workload, "webhook")
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in pod_of(deployment({"mode": "dra"}))


@pytest.mark.parametrize(
    ("values", "unavailable", "surge"),
    [
        ({}, 1, 1),
        ({"replicas": 3}, 1, 1),
        ({"replicas": 1}, 0, 1),
        ({"hostNetwork": True}, 1, 0),
        ({"hostNetwork": True, "replicas": 1}, 1, 0),
    ],
)
def test_replicas_are_replaced_on_two_nodes(
    values: dict[str, Any], unavailable: int, surge: int
) -> None:
    """Nothing forbids a node to have both, and where ports do, an old one goes first."""
    workload = deployment({"webhook": values})
    rolling = workload["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxUnavailable": unavailable, "maxSurge": surge}
    (kind,) = pod_of(workload)["affinity"].values()
    (strength,) = kind
    assert strength == "preferredDuringSchedulingIgnoredDuringExecution"
    wanted = {
        each["podAffinityTerm"]["topologyKey"]: each["podAffinityTerm"]["labelSelector"]
        for each in kind[strength]
    }
    assert set(wanted) == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert all(each == {"matchLabels": SELECTED} for each in wanted.values())
    assert workload["spec"]["template"]["metadata"]["labels"].items() >= SELECTED.items()


def test_an_affinity_of_the_administrator_takes_the_place_of_ours() -> None:
    """As do the other wishes about nodes."""
    values = {
        "affinity": {"nodeAffinity": {}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "mine",
    }
    pod = pod_of(deployment({"webhook": values}))
    assert values.items() <= pod.items()


def test_host_networked_pods_resolve_names_of_the_cluster() -> None:
    """Their node's resolver knows none."""
    pod = pod_of(deployment(nested("webhook.hostNetwork", value=True)))
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostNetwork" not in pod_of(deployment())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"terminationGracePeriodSeconds": 14}, "terminationGracePeriodSeconds: 14 is too short"),
        ({"settings": {"drainS": 25}}, "after the 25 s of settings.drainS"),
        ({"timeoutSeconds": 2}, "timeoutSeconds: 2 is too short"),
        ({"settings": {"timeBudgetS": 6}}, "settings.timeBudgetS"),
    ],
)
def test_times_that_do_not_fit_are_refused(values: dict[str, Any], said: str) -> None:
    """A pod that is killed while it drains drops reviews, and one that is late is not heard."""
    with pytest.raises(RefusedError, match=said):
        render({"webhook": values})


def test_times_that_fit_are_taken() -> None:
    """Up to the second."""
    values = {"terminationGracePeriodSeconds": 10, "settings": {"drainS": 0}}
    pod = pod_of(deployment({"webhook": values}))
    assert pod["terminationGracePeriodSeconds"] == 10
    assert pod_of(deployment())["terminationGracePeriodSeconds"] >= 15


def test_a_changed_device_config_replaces_the_pods() -> None:
    """It is read at the start; the checksum makes the template another."""

    def template_of(amount: int) -> Object:
        """Return the pod template with a default of so many MiB."""
        sections = {"nvidia": {"defaultMemory": amount}}
        return dict(deployment({"deviceConfig": {"sections": sections}})["spec"]["template"])

    one_template, other = template_of(1), template_of(2)
    assert one_template == template_of(1)
    key = "checksum/device-config"
    notes = [each["metadata"]["annotations"].pop(key) for each in (one_template, other)]
    assert notes[0] != notes[1]
    assert one_template == other


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"sections": {"nvidia": {"defaultMemory": 1}}}, "gpuslice-device-config"),
        ({"existingConfigMap": "mine"}, "mine"),
    ],
)
def test_the_device_config_is_mounted(config: dict[str, Any], name: str) -> None:
    """From the ConfigMap that the chart makes, or the administrator's."""
    objects = render({"mode": "dra", "deviceConfig": config})
    workload = one(objects, "Deployment", NAME)
    (volume,) = pod_of(workload)["volumes"]
    assert volume["configMap"] == {"name": name}
    (mount,) = container(workload, "webhook")["volumeMounts"]
    assert settings_of(objects).device_config is not None
    assert str(settings_of(objects).device_config).startswith(mount["mountPath"])
    made = {each["metadata"]["name"] for each in of_kind(objects, "ConfigMap")}
    assert (name in made) is (name != "mine")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"minAvailable": 1}),
        ({"podDisruptionBudget": {"minAvailable": "50%"}}, {"minAvailable": "50%"}),
        ({"podDisruptionBudget": {"enabled": False}}, None),
        ({"replicas": 1}, None),
    ],
)
def test_draining_leaves_one(values: dict[str, Any], expected: Object | None) -> None:
    """A budget for a single replica would keep its node from being drained for ever."""
    found = [
        each["spec"]
        for each in of_kind(render({"webhook": values}), "PodDisruptionBudget")
        if each["metadata"]["name"] == NAME
    ]
    if expected is None:
        assert found == []
    else:
        (budget,) = found
        assert budget.pop("selector") == {"matchLabels": SELECTED}
        assert budget.pop("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        assert budget == expected


def test_before_1_27_a_budget_has_no_eviction_policy() -> None:
    """The field was alpha then."""
    budget = one(render(kubernetes="1.26.9"), "PodDisruptionBudget", NAME)
    assert set(budget["spec"]) == {"minAvailable", "selector"}


def test_a_network_policy_lets_in_who_has_to_come() -> None:
    """API servers where they are known, the other replicas always, and readers of metrics."""
    assert not [
        each for each in of_kind(render(), "NetworkPolicy") if each["metadata"]["name"] == NAME
    ]
    (reviews, metrics) = ingress({})
    assert "from" not in reviews
    assert "from" not in metrics
    readers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
    (reviews, metrics) = ingress(
        {"apiServerCidrs": ["10.0.0.0/8", "fd00::/8"], "metricsFrom": readers}
    )
    assert reviews["from"] == [
        {"ipBlock": {"cidr": "10.0.0.0/8"}},
        {"ipBlock": {"cidr": "fd00::/8"}},
        {"podSelector": {"matchLabels": SELECTED}},
    ]
    assert metrics["from"] == readers


def ingress(values: dict[str, Any]) -> list[Object]:
    """Return the rules of the policy: for reviews, and for metrics and probes."""
    policy = one(render({"networkPolicy": {"enabled": True, **values}}), "NetworkPolicy", NAME)
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"] == {"matchLabels": SELECTED}
    return list(policy["spec"]["ingress"])


def test_the_service_leads_to_the_pods() -> None:
    """Its type, port and notes are values; metrics are read from the pods."""
    values = {"type": "NodePort", "nodePort": 30443, "annotations": {"a": "b"}}
    service = one(render({"webhook": {"service": values}}), "Service", NAME)
    assert service["spec"]["type"] == "NodePort"
    assert service["spec"]["selector"] == SELECTED
    assert service["metadata"]["annotations"] == {"a": "b"}
    (port,) = service["spec"]["ports"]
    assert port["nodePort"] == 30443


NAMED = {
    ("services", "gpuslice-webhook", "get"),
    ("leases", "gpuslice-webhook", "get"),
    ("leases", "gpuslice-webhook", "update"),
    ("leases", "", "create"),
}
SECRET = {
    ("secrets", "gpuslice-webhook-tls", "get"),
    ("secrets", "gpuslice-webhook-tls", "update"),
    ("secrets", "", "create"),
}


def test_it_changes_only_its_own_objects_and_templates() -> None:
    """Everything else is read, and what can be bound to a name is."""
    objects = render()
    found = rights(one(objects, "ClusterRole", NAME))
    writes = {each for each in found if each[2] not in {"get", "list", "watch"}}
    assert writes == {
        ("resourceclaimtemplates", "", "create"),
        ("resourceclaimtemplates", "", "delete"),
        ("events", "", "create"),
        ("events", "", "patch"),
        ("subjectaccessreviews", "", "create"),
        ("mutatingwebhookconfigurations", "gpuslice", "patch"),
        ("validatingwebhookconfigurations", "gpuslice", "patch"),
    }
    assert "secrets" not in {resource for resource, _, _ in found}
    assert rights(one(objects, "Role", NAME)) == NAMED | SECRET


_READ: Final = frozenset({"list", "watch"})
_MADE: Final = frozenset({*_READ, "create", "delete"})


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.16", _MADE),
        ("auto", "1.33.4", _MADE),
        ("auto", "1.37.0", _MADE),
        ("dra", "1.34.0", _MADE),
        ("hami", "1.25.16", _READ | {"delete"}),
        ("hami", "1.37.0", _READ | {"delete"}),
    ],
)
def test_templates_are_made_only_where_claims_may_serve(
    mode: str, kubernetes: str, expected: frozenset[str]
) -> None:
    """Whether they do is asked by a create, also of older servers: these can be upgraded."""
    role = rights(one(render({"mode": mode}, kubernetes=kubernetes), "ClusterRole", NAME))
    assert {verb for found, _, verb in role if found == "resourceclaimtemplates"} == expected
    read = {(found, verb) for found, _, verb in role}
    for kind in ("resourceslices", "resourceclaims"):
        assert {verb for found, verb in read if found == kind} == _READ


@pytest.mark.parametrize(
    ("values", "kubernetes"),
    [({}, "1.37.0"), ({}, "1.33.4"), ({"mode": "hami"}, "1.37.0")],
)
def test_every_right_says_why(values: dict[str, Any], kubernetes: str) -> None:
    """A comment stands before each rule."""
    lines = [line.strip() for line in render_text(values, kubernetes=kubernetes).splitlines()]
    rules = [index for index, line in enumerate(lines) if line.startswith("- apiGroups:")]
    roles = [index for index in rules if "verbs:" in "".join(lines[index : index + 4])]
    assert roles
    ours = [index for index in roles if role_at(lines, index) == NAME]
    assert ours
    assert all(lines[index - 1].startswith("#") for index in ours)


def role_at(lines: list[str], index: int) -> str:
    """Return the name of the object around a line."""
    while not lines[index].startswith("name: "):
        index -= 1
    return lines[index].removeprefix("name: ")


def test_bindings_name_the_account_and_the_roles() -> None:
    """Also an account of the administrator's, which is not made."""
    values = {"webhook": {"serviceAccount": {"create": False, "name": "hook"}}}
    objects = render(values)
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert not {NAME, "hook"} & accounts
    assert pod_of(one(objects, "Deployment", NAME))["serviceAccountName"] == "hook"
    for kind in ("ClusterRole", "Role"):
        binding = one(objects, f"{kind}Binding", NAME)
        assert binding["roleRef"]["kind"] == kind
        assert binding["roleRef"]["name"] == NAME
        (subject,) = binding["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "hook", "namespace": NAMESPACE}


def test_rights_can_be_somebody_elses_business() -> None:
    """Without rbac.create none are rendered for the webhook."""
    objects = render(nested("rbac.create", value=False))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
        assert NAME not in {each["metadata"]["name"] for each in of_kind(objects, kind)}


@pytest.mark.parametrize("helm", [3, 4])
def test_another_release_shares_no_name(helm: int) -> None:
    """Rights, arguments and configurations follow the name of the release."""
    objects = render(release="team", namespace="elsewhere", helm=helm)
    name = "team-gpuslice-webhook"
    found = settings_of(objects, name)
    assert (found.namespace, found.service_name) == ("elsewhere", name)
    assert found.configurations == ("team-gpuslice",)
    assert (found.lease_name, found.tls_secret) == (name, f"{name}-tls")
    assert {each["metadata"]["name"] for each in configurations(objects)} == {"team-gpuslice"}
    role = rights(one(objects, "Role", name))
    assert ("leases", found.lease_name, "update") in role
    assert ("secrets", found.tls_secret, "update") in role
    cluster = rights(one(objects, "ClusterRole", name))
    assert ("mutatingwebhookconfigurations", "team-gpuslice", "patch") in cluster
    for each in objects:
        assert each["metadata"]["name"].startswith(("team-gpuslice", "gpu.", "share.", "mig.")), (
            each
        )


def test_without_the_webhook_nothing_of_it_is_there() -> None:
    """Pods then name HAMi's scheduler themselves, and claims are written by hand."""
    objects = render({"webhook": {"enabled": False}})
    label = "app.kubernetes.io/component"
    assert not [
        each["metadata"]["name"]
        for each in objects
        if (each["metadata"].get("labels") or {}).get(label) == "webhook"
    ]
