"""What the chart makes for Prometheus and Grafana."""

import json
from typing import Any, Final

import pytest
import yaml

from tests.charts.rendering import (
    NAMESPACE,
    Object,
    RefusedError,
    merged,
    nested,
    of_kind,
    one,
    pod_templates,
    render,
    render_text,
)
from tests.cluster.cluster import REPOSITORY

_FILES: Final = REPOSITORY / "charts" / "gpuslice" / "files"
_COMPONENTS: Final = ("node-agent", "webhook", "scheduler")
_MONITORS: Final = nested("metrics.serviceMonitor.enabled", value=True)
_RULE: Final = nested("metrics.prometheusRule.enabled", value=True)
_DASHBOARD: Final = nested("metrics.dashboard.enabled", value=True)
_ALL: Final = merged(merged(_MONITORS, _RULE), _DASHBOARD)


def pods(objects: list[Object], component: str) -> list[Object]:
    """Return the pod templates of a component."""
    key = "app.kubernetes.io/component"
    return [
        template
        for _, template in pod_templates(objects)
        if template["metadata"]["labels"].get(key) == component
    ]


def test_nothing_is_made_unless_asked_for() -> None:
    """Most clusters do not know the kinds."""
    kinds = {each["kind"] for each in render()}
    assert not kinds & {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    assert not any("dashboard" in each["metadata"]["name"] for each in render())


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize(
    ("kubernetes", "components"),
    [("1.34.2", _COMPONENTS), ("1.37.2", ("node-agent", "webhook")), ("1.31.2-eks-1", _COMPONENTS)],
)
def test_monitors_find_the_pods_and_their_port(
    helm: int, kubernetes: str, components: tuple[str, ...]
) -> None:
    """Each selects the pods of one component, which have a port of that name."""
    objects = render(_MONITORS, kubernetes=kubernetes, helm=helm)
    monitors = of_kind(objects, "PodMonitor")
    assert {each["metadata"]["name"] for each in monitors} == {f"gpuslice-{c}" for c in components}
    for component in components:
        spec = one(objects, "PodMonitor", f"gpuslice-{component}")["spec"]
        assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}
        (template,) = pods(objects, component)
        labels = template["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        (endpoint,) = spec["podMetricsEndpoints"]
        ports = [
            port
            for container in template["spec"]["containers"]
            for port in container.get("ports", ())
            if port["name"] == endpoint["port"]
        ]
        assert len(ports) == 1
        annotations = template["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(ports[0]["containerPort"])


def test_series_keep_the_labels_that_name_users_pods() -> None:
    """And get those by which alerts and dashboard know programs and nodes."""
    (endpoint,) = one(render(_MONITORS), "PodMonitor", "gpuslice-node-agent")["spec"][
        "podMetricsEndpoints"
    ]
    assert endpoint["honorLabels"] is True
    relabelings = {
        each.get("targetLabel", each["action"]): each for each in endpoint["relabelings"]
    }
    assert relabelings["job"]["replacement"] == "gpuslice-node-agent"
    assert relabelings["node"]["sourceLabels"] == ["__meta_kubernetes_pod_node_name"]
    assert relabelings["labeldrop"]["regex"] == "pod|container|endpoint"


def test_a_component_that_is_not_installed_is_not_monitored() -> None:
    """Nor is anybody alarmed by its absence."""
    without = merged(_ALL, nested("webhook.enabled", value=False))
    objects = render(merged(without, nested("kubeletPlugin.enabled", value=False)))
    assert of_kind(objects, "PodMonitor") == []
    assert group_names(objects) == ["gpuslice.configuration"]


def group_names(objects: list[Object]) -> list[str]:
    """Return the names of the groups of rules."""
    return [each["name"] for each in rule(objects)["spec"]["groups"]]


def rule(objects: list[Object]) -> Object:
    """Return the PrometheusRule."""
    return one(objects, "PrometheusRule", "gpuslice")


def groups_of_the_file() -> list[dict[str, Any]]:
    """Return what the file of alerts has."""
    return list(yaml.safe_load((_FILES / "alerts.yaml").read_text())["groups"])


@pytest.mark.parametrize("helm", [3, 4])
def test_the_rule_is_the_file(helm: int) -> None:
    """With the templates of Prometheus as they are; the DaemonSet is the release's own."""
    objects = render(merged(_RULE, {"fullnameOverride": "gpus"}), kubernetes="1.34.2", helm=helm)
    expected = json.dumps(groups_of_the_file()).replace(".*gpuslice-node-agent", "gpus-node-agent")
    made = one(objects, "PrometheusRule", "gpus")
    assert made["spec"]["groups"] == json.loads(expected)
    assert one(objects, "DaemonSet", "gpus-node-agent")


def test_the_schedulers_alerts_come_with_it() -> None:
    """An absent scheduler is an alarm only where there should be one."""
    assert "gpuslice.scheduler" not in group_names(render(_RULE, kubernetes="1.37.2"))
    assert "gpuslice.scheduler" in group_names(render(_RULE, kubernetes="1.35.0"))


def test_alerts_are_left_out_by_name() -> None:
    """A group of which nothing is left goes with them."""
    gone = ["GpusliceConfigChanged", "GpusliceAgentDown"]
    objects = render(merged(_RULE, nested("metrics.prometheusRule.disabled", gone)))
    names = [each["alert"] for group in rule(objects)["spec"]["groups"] for each in group["rules"]]
    assert names
    assert not set(names) & set(gone)
    assert group_names(objects) == ["gpuslice.node-agent", "gpuslice.webhook"]


def test_an_alert_that_does_not_exist_cannot_be_left_out() -> None:
    """A misspelt name would leave the alert in."""
    with pytest.raises(RefusedError, match="there is no alert GpusliceAgentDwn"):
        render(merged(_RULE, nested("metrics.prometheusRule.disabled", ["GpusliceAgentDwn"])))


@pytest.mark.parametrize("helm", [3, 4])
def test_the_dashboard_is_found_by_grafanas_sidecar(helm: int) -> None:
    """It is the file, in a ConfigMap with the label that the sidecar looks for."""
    made = one(render(_DASHBOARD, helm=helm), "ConfigMap", "gpuslice-dashboard")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(made["data"]["gpuslice.json"]) == json.loads(
        (_FILES / "dashboard.json").read_text()
    )


def test_namespaces_labels_and_annotations_are_those_of_the_values() -> None:
    """Operators look for some labels, and in some namespaces, only."""
    told = {
        "metrics": {
            "serviceMonitor": {"interval": "7s", "labels": {"a": "m"}, "namespace": "monitors"},
            "prometheusRule": {"labels": {"a": "r"}, "namespace": "rules"},
            "dashboard": {
                "labels": {"a": "d"},
                "annotations": {"folder": "GPUs"},
                "namespace": "boards",
            },
        },
        "commonAnnotations": {"team": "x"},
    }
    objects = render(merged(_ALL, told))
    monitor = one(objects, "PodMonitor", "gpuslice-webhook")
    board = one(objects, "ConfigMap", "gpuslice-dashboard")
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "7s"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    found = [
        (each["metadata"]["namespace"], each["metadata"]["labels"]["a"])
        for each in (monitor, rule(objects), board)
    ]
    assert found == [("monitors", "m"), ("rules", "r"), ("boards", "d")]
    assert board["metadata"]["annotations"] == {"team": "x", "folder": "GPUs"}
    assert monitor["metadata"]["annotations"] == {"team": "x"}


def test_pods_can_be_without_annotations_for_scraping() -> None:
    """Whoever has monitors would read everything twice."""
    objects = render(nested("metrics.scrapeAnnotations", value=False), kubernetes="1.34.2")
    for _, template in pod_templates(objects):
        notes = template["metadata"].get("annotations") or {}
        assert not any(key.startswith("prometheus.io/") for key in notes)


def test_what_is_said_of_pods_goes_before_their_annotations() -> None:
    """Whoever has one component left alone says so on its pods, and no key stands there twice."""
    key = "prometheus.io/scrape"
    said = {"podAnnotations": {key: "false"}}
    values = {"kubeletPlugin": said, "webhook": said, "scheduler": said}
    text = render_text(values, kubernetes="1.34.2")
    assert text.count(f'{key}: "false"') == text.count(key) == len(_COMPONENTS)
