"""The webhook's pods as the chart renders them."""

from typing import Any

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
)
from tests.charts.webhooks import (
    NAME,
    SELECTED,
    configurations,
    deployment,
    pod_of,
    rights,
    settings_of,
)
from webhook.settings import WebhookSettings


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
