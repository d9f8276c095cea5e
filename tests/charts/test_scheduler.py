"""kube-scheduler and the extender, as the chart renders them."""

import re
from typing import Any

import pytest
import yaml

from extender.routes import filtering
from hami import deviceconfig
from hami.vendor_rules import chart as hami_chart
from tests.charts import schedulers
from tests.charts.rendering import (
    NAMESPACE,
    Object,
    RefusedError,
    merged,
    nested,
    one,
    render,
)
from tests.charts.schedulers import ALONE, HAMI, NAME


@pytest.mark.parametrize(
    ("values", "kubernetes", "there"),
    [
        ({}, "1.25.0", True),
        ({}, "1.35.4", True),
        ({}, "1.36.0", False),
        ({}, "1.37.2", False),
        ({"mode": "dra"}, "1.34.0", False),
        (HAMI, "1.37.2", True),
        ({"scheduler": {"enabled": True}}, "1.37.2", True),
        ({"scheduler": {"enabled": False}}, "1.30.0", False),
    ],
)
def test_it_is_installed_where_shares_are_not_kept(
    values: Object, kubernetes: str, *, there: bool
) -> None:
    """By mode and minor, unless the administrator says."""
    names = {
        (each["kind"], each["metadata"]["name"])
        for each in render(values, kubernetes=kubernetes)
        if "scheduler" in each["metadata"]["name"] or "extender" in each["metadata"]["name"]
    }
    assert (("Deployment", NAME) in names) is there
    assert bool(names) is there


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize(
    ("kubernetes", "tag"),
    [
        ("1.25.3", "v1.25.3"),
        ("v1.31.2+k3s1", "v1.31.2"),
        ("v1.29.11-eks-56e63d8", "v1.29.11"),
        ("v1.30.5-gke.100", "v1.30.5"),
        ("v1.32.2-tke.2", "v1.32.2"),
    ],
)
def test_the_image_has_the_release_of_the_cluster_without_suffix(
    kubernetes: str, tag: str, helm: int
) -> None:
    """`v1.31.2+k3s1` is no tag, and nobody has an image of it."""
    assert (
        schedulers.image(render(HAMI, kubernetes=kubernetes, helm=helm)) == f"kube-scheduler:{tag}"
    )


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"tag": "v1.30.0"}, "kube-scheduler:v1.30.0"),
        ({"registry": "registry.example.com"}, "registry.example.com/kube-scheduler:v1.33.1"),
        (
            {"registry": "registry.example.com", "repository": ""},
            "registry.example.com/kube-scheduler:v1.33.1",
        ),
        ({"digest": "sha256:" + 64 * "0"}, f"kube-scheduler:v1.33.1@sha256:{64 * '0'}"),
    ],
)
def test_what_is_said_of_the_image_counts(image: Object, expected: str) -> None:
    """A registry alone has it under its usual name."""
    values = merged(HAMI, nested("scheduler.kubeScheduler.image", image))
    assert schedulers.image(render(values, kubernetes="1.33.1")) == expected


def test_an_image_that_nobody_named_and_nobody_sees_is_refused() -> None:
    """With the name of the value, and the other way out."""
    with pytest.raises(
        RefusedError, match=r"set scheduler\.kubeScheduler\.image\.repository"
    ) as no:
        render(
            merged(HAMI, nested("scheduler.kubeScheduler.image.repository", "")),
            kubernetes="v1.31.2+k3s1",
        )
    assert "v1.31.2 " in str(no.value).replace(")", " ")
    assert "scheduler.kubeScheduler.enabled=false" in str(no.value)


@pytest.mark.parametrize("kubernetes", ["1.25.0", "1.30.0", "1.34.1", "1.31.2-eks-1"])
def test_kube_scheduler_asks_where_the_extender_listens(kubernetes: str) -> None:
    """By loopback, in the form that all supported releases read."""
    objects = render(HAMI, kubernetes=kubernetes)
    asked, settings = schedulers.asked(objects), schedulers.settings(objects)
    assert schedulers.configuration(objects)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert asked["urlPrefix"] == f"http://127.0.0.1:{settings.port}"
    assert settings.address == "127.0.0.1"
    assert f"/{asked['filterVerb']}" == filtering.PATH
    assert asked["httpTimeout"] == f"{settings.http_timeout_s:.0f}s"
    assert asked["nodeCacheCapable"] is True
    assert asked["ignorable"] is False


def test_settings_of_the_extender_change_who_asks_it() -> None:
    """Port, patience and name are the same on both sides."""
    settings = {"port": 9555, "httpTimeoutS": 45}
    values = merged(HAMI, {"scheduler": {"settings": settings, "name": "shares"}})
    objects = render(values)
    assert schedulers.asked(objects)["urlPrefix"] == "http://127.0.0.1:9555"
    assert schedulers.asked(objects)["httpTimeout"] == "45s"
    (profile,) = schedulers.configuration(objects)["profiles"]
    assert profile["schedulerName"] == schedulers.settings(objects).scheduler_name == "shares"


def test_only_counts_are_counted_by_kube_scheduler() -> None:
    """Names are those of device-config.yaml, renamed or not."""
    nvidia = {"resourceCountName": "example.com/gpu", "resourceMemoryName": "example.com/mem"}
    renamed = schedulers.managed(
        render(merged(HAMI, nested("deviceConfig.sections.nvidia", nvidia)))
    )
    assert schedulers.managed(render(HAMI)) == {
        "nvidia.com/gpu": False,
        "nvidia.com/gpumem": True,
        "nvidia.com/gpumem-percentage": True,
        "nvidia.com/gpucores": True,
        "nvidia.com/priority": True,
    }
    assert renamed["example.com/gpu"] is False
    assert renamed["example.com/mem"] is True
    assert not renamed.keys() & {"nvidia.com/gpu", "nvidia.com/gpumem"}


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize("on", [False, True])
def test_kube_scheduler_is_told_of_all_names_that_the_extender_serves(
    *, on: bool, helm: int
) -> None:
    """Of all vendors; Ascend's and Iluvatar's with the extender's own settings for them."""
    settings = {"enableAscend": on, "enableIluvatar": on}
    sections = dict(hami_chart.SECTIONS)
    values = merged(
        HAMI, {"deviceConfig": {"sections": sections}, "scheduler": {"settings": settings}}
    )
    objects = render(values, helm=helm)
    text = one(objects, "ConfigMap", "gpuslice-device-config")["data"]["device-config.yaml"]
    config = deviceconfig.parse(text, ascend=on, iluvatar=on)
    managed = schedulers.managed(objects)
    assert managed.keys() == config.nvidia.keys | config.vendor_keys
    assert not any(managed[each.count_name] for each in config.vendors if each.count_name)


@pytest.mark.parametrize("as_text", [False, True])
def test_names_are_read_from_a_whole_file_too(*, as_text: bool) -> None:
    """Given as text or as a mapping."""
    content: Any = {"nvidia": {"resourceCountName": "example.com/gpu"}}
    given = yaml.safe_dump(content) if as_text else content
    objects = render(merged(HAMI, nested("deviceConfig.content", given)))
    assert schedulers.managed(objects) == {"example.com/gpu": False}


def test_what_is_said_of_kube_scheduler_is_merged_into_its_configuration() -> None:
    """What the chart says stays."""
    config = {"parallelism": 4, "leaderElection": {"leaseDuration": "30s"}}
    objects = render(merged(HAMI, nested("scheduler.kubeScheduler.config", config)))
    found = schedulers.configuration(objects)
    assert found["parallelism"] == 4
    assert found["leaderElection"]["leaseDuration"] == "30s"
    assert found["leaderElection"]["resourceName"] == "hami-scheduler"
    assert found["extenders"]


def test_pods_are_new_when_their_configuration_is() -> None:
    """By checksums of both files."""

    def sums(values: Object) -> dict[str, str]:
        template = one(render(merged(HAMI, values)), "Deployment", NAME)["spec"]["template"]
        notes = template["metadata"]["annotations"]
        return {key: value for key, value in notes.items() if key.startswith("checksum/")}

    before = sums({})
    config = sums(nested("scheduler.kubeScheduler.config.parallelism", 4))
    devices = sums(nested("deviceConfig.sections.nvidia.defaultMemory", 1000))
    assert before.keys() == {"checksum/config", "checksum/device-config"}
    assert config["checksum/config"] != before["checksum/config"]
    assert devices["checksum/device-config"] != before["checksum/device-config"]
    assert devices["checksum/config"] == before["checksum/config"]


@pytest.mark.parametrize("values", [HAMI, ALONE])
def test_everything_is_bound_to_the_one_account(values: Object) -> None:
    """Which exists, and all roles that are not Kubernetes' own do."""
    objects = render(values)
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects if "rules" in each}
    bindings = [
        each
        for each in objects
        if any(subject.get("name") == NAME for subject in each.get("subjects", ()))
    ]
    assert bindings
    for each in bindings:
        ref = each["roleRef"]
        ours = (ref["kind"], ref["name"]) in roles
        assert ours or re.match("system:|extension-apiserver", ref["name"])
        assert [subject["namespace"] for subject in each["subjects"]] == [NAMESPACE]
    assert one(objects, "ServiceAccount", NAME)


@pytest.mark.parametrize("values", [HAMI, ALONE])
def test_probes_and_service_lead_to_ports_that_are_served(values: Object) -> None:
    """By names of container ports, whose numbers are the program's."""
    objects = render(merged(values, nested("scheduler.settings", {"metricsPort": 9999})))
    settings = schedulers.settings(objects)
    served = {settings.port, settings.metrics_port, settings.refit_port, 10259}
    ports: dict[str, int] = {}
    for each in one(objects, "Deployment", NAME)["spec"]["template"]["spec"]["containers"]:
        ports |= {port["name"]: port["containerPort"] for port in each["ports"]}
        probes = [probe for key, probe in each.items() if key.endswith("Probe")]
        assert {probe["httpGet"]["port"] for probe in probes} <= ports.keys()
        assert "livenessProbe" in each
    assert set(ports.values()) <= served
    targets = {each["targetPort"] for each in one(objects, "Service", NAME)["spec"]["ports"]}
    assert targets <= ports.keys()
    notes = one(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["annotations"]
    assert notes["prometheus.io/port"] == "9999"


def test_openshift_chooses_the_user() -> None:
    """It refuses numbers that are not the namespace's own; elsewhere an image may be root's."""
    objects = render(nested("openshift.enabled", value=True), kubernetes="1.33.0")
    seen = one(objects, "Deployment", NAME)["spec"]["template"]["spec"]["securityContext"]
    assert seen == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    usual = one(render(kubernetes="1.33.0"), "Deployment", NAME)["spec"]["template"]["spec"]
    assert usual["securityContext"]["runAsUser"] == 65532
