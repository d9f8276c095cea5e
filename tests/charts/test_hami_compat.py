"""Each value of HAMi's chart below `hamiCompat` acts, or is refused with what to use."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from charts.values import migration, schema
from hami.vendor_rules import chart as hami_chart
from tests.charts.hamivalues import ROWS, TABLE, given, rendered, whole
from tests.charts.rendering import Object, RefusedError, merged, nested, one, render

ACTING: Final = sorted(key for key, row in ROWS.items() if "to" in row or "part" in row)
REFUSED: Final = sorted(key for key, row in ROWS.items() if "refuse" in row or "same" in row)
CUSTOM_URL: Final = "scheduler.admissionWebhook.customURL"
CONTENT: Final = "nvidia:\n  resourceCountName: example.com/gpu\n"
FLIPPED: Final[dict[str, Any]] = {
    "global.labels": {"team": "gpu"},
    "global.annotations": {"example.com/by": "gpu"},
    "global.imagePullSecrets": ["mine"],
    "scheduler.extender.image.pullSecrets": ["mine"],
    "scheduler.kubeScheduler.image.pullSecrets": ["mine"],
    "devicePlugin.image.pullSecrets": ["mine"],
    "devicePlugin.monitor.image.pullSecrets": ["mine"],
    "scheduler.extender.image.pullPolicy": "Always",
    "scheduler.kubeScheduler.image.pullPolicy": "Always",
    "devicePlugin.image.pullPolicy": "Always",
    "scheduler.nodeLabelSelector": {"gpu": "on", "pool": "a"},
    "scheduler.nodeSelector": {"pool": "a"},
    "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy": "spread",
    "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy": "binpack",
    "scheduler.metricsBindAddress": "127.0.0.1:9000",
    "scheduler.replicas": 3,
    "scheduler.kubeScheduler.resources": {"limits": {"memory": "1Gi"}},
    "scheduler.extender.resources": {"limits": {"memory": "2Gi"}},
    "scheduler.kubeScheduler.extraNewArgs": ["--config=/config/config.yaml", "-v=2"],
    "scheduler.nodeLockExpire": "1h2m3s",
    "scheduler.nodeLockRetryTimeout": "10s",
    "scheduler.kubeTimeout": 9,
    "scheduler.podAnnotations": {"example.com/by": "gpu"},
    "scheduler.tolerations": [{"operator": "Exists"}],
    f"{CUSTOM_URL}.host": "192.0.2.1",
    "scheduler.admissionWebhook.whitelistNamespaces": ["istio-system"],
    "scheduler.admissionWebhook.namespaceSelector.matchLabels": {"team": "gpu"},
    "scheduler.admissionWebhook.namespaceSelector.matchExpressions": [
        {"key": "team", "operator": "Exists"}
    ],
    "scheduler.admissionWebhook.objectSelector.matchLabels": {"team": "gpu"},
    "scheduler.admissionWebhook.objectSelector.matchExpressions": [
        {"key": "team", "operator": "Exists"}
    ],
    "scheduler.admissionWebhook.reinvocationPolicy": "IfNeeded",
    "scheduler.admissionWebhook.failurePolicy": "Fail",
    "scheduler.service.type": "LoadBalancer",
    "scheduler.service.annotations": {"example.com/by": "gpu"},
    "devicePlugin.extraEnvs": {"NAME": "value"},
    "devicePlugin.monitor.extraEnvs": [{"name": "NAME", "value": "value"}],
    "devicePlugin.nodeConfiguration.config": '{"nodeconfig": [{"name": "node-a"}]}',
    "devicePlugin.deviceListStrategy": "envvar,cdi-cri",
    "devicePlugin.nvidiaHookPath": "/usr/bin/nvidia-cdi-hook",
    "devicePlugin.nvidiaDriverRoot": "/run/nvidia/driver",
    "devicePlugin.gdrcopyEnabled": True,
    "devicePlugin.gdsEnabled": True,
    "devicePlugin.mofedEnabled": True,
    "devicePlugin.pluginPath": "/data/kubelet/device-plugins",
    "devicePlugin.podAnnotations": {"example.com/by": "gpu"},
    "devicePlugin.securityContext": {"privileged": False},
    "devicePlugin.tolerations": [{"key": "gpu", "operator": "Exists"}],
    "devicePlugin.updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}},
    "devicePlugin.resources": {"limits": {"memory": "1Gi"}},
    "device-config.content": CONTENT,
    "devices.nvidia.gpuCorePolicy": "force",
}
"""What is put in the place of the default; others are flipped by their kind."""
UNNAMED: Final = nested(
    "scheduler.kubeScheduler.image", {"repository": "", "registry": "ours.example.com"}
)
BESIDE: Final[dict[str, Object]] = {
    f"{CUSTOM_URL}.{part}": nested(f"hamiCompat.{CUSTOM_URL}.enabled", True)
    for part in ("host", "port")
} | {
    "scheduler.admissionWebhook.reinvocationPolicy": nested("webhook.reinvocationPolicy", "Never"),
    "scheduler.kubeScheduler.image.registry": UNNAMED,
    "scheduler.kubeScheduler.image.repository": UNNAMED,
    "devices.ascend.runtimeClassName": nested("hamiCompat.devices.ascend.enabled", True),
    "scheduler.podDisruptionBudget.minAvailable": nested("hamiCompat.scheduler.replicas", 3),
    "scheduler.serviceAccountName": nested("scheduler.serviceAccount.create", False),
    "prometheus.enabled": {},
}
"""What else is said where a key alone means nothing, or what ours already is."""


def _flipped(row: Object) -> Any:
    if row["key"] in FLIPPED:
        return FLIPPED[row["key"]]
    default = row.get("default", "")
    by_kind: dict[type, Any] = {
        bool: default is False,
        int: default + 1 if isinstance(default, int) else 0,
        str: "true" if default == "false" else "changed",
        list: ["changed"],
        dict: {"changed": "yes"},
    }
    return by_kind.get(type(default), "changed")


def _paths(row: Object) -> Iterator[str]:
    targets = row.get("to", [])
    for each in targets if isinstance(targets, list) else [targets]:
        yield each if isinstance(each, str) else each["path"]
    yield from row.get("also", {})


@pytest.mark.parametrize(
    ("kubernetes", "helm"), [("1.25.0", 4), ("v1.31.2+k3s1", 3), ("1.34.1", 4), ("1.37.2", 3)]
)
def test_a_whole_values_file_of_hami_renders(kubernetes: str, helm: int) -> None:
    """And the sections of other vendors are there, as HAMi's chart has them."""
    objects = render(whole(), kubernetes=kubernetes, helm=helm)
    text = one(objects, "ConfigMap", "gpuslice-device-config")["data"]["device-config.yaml"]
    sections = yaml.safe_load(text)
    assert sections.pop("nvidia")
    assert sections == hami_chart.SECTIONS


def test_a_part_of_it_means_the_same_as_the_whole() -> None:
    """What is left out is HAMi's default."""
    part = nested("hamiCompat.scheduler.replicas", 2)
    assert rendered(merged(whole(), part)) == rendered(part)


def _with(key: str) -> list[Object]:
    return rendered(merged(BESIDE.get(key, {}), given(key, _flipped(ROWS[key]))))


@pytest.mark.ahead(by=_with)
@pytest.mark.parametrize("key", ACTING)
def test_each_value_that_acts_changes_what_is_rendered(key: str) -> None:
    """By itself, or beside what it needs to mean something."""
    assert _with(key) != rendered(BESIDE.get(key, {}))


def test_each_value_that_cannot_act_is_refused_with_what_to_use() -> None:
    """All at once, so that a file is mended in one go."""
    values: Object = {}
    for key in REFUSED:
        values = merged(values, given(key, _flipped(ROWS[key])))
    with pytest.raises(RefusedError) as refused:
        rendered(values)
    said = str(refused.value)
    for key in REFUSED:
        reason = ROWS[key].get("refuse") or "no such image is used"
        assert f"- {key}: {reason}" in said


def test_hamis_defaults_are_refused_nowhere() -> None:
    """Of the keys that cannot act."""
    values: Object = {}
    for key in REFUSED:
        if "default" in ROWS[key]:
            values = merged(values, given(key, ROWS[key]["default"]))
    assert rendered(values) == rendered({})


def test_all_rows_say_one_thing() -> None:
    """What a key becomes or why it cannot, and never both."""
    assert len(ROWS) == len(TABLE["keys"])
    for key, row in ROWS.items():
        assert len({"to", "refuse", "same", "part"} & row.keys()) == 1, key
    assert all(ROWS[key].get("same", key) in ROWS for key in REFUSED)


def test_the_document_has_the_table() -> None:
    """`make manifests` writes it anew."""
    text = migration.text()
    assert migration.FILE.read_text() == text
    assert not [key for key in ROWS if f"| `{key}`" not in text]


def test_what_keys_become_are_values_of_this_chart() -> None:
    """By the schema, settings of the programs included."""
    whole = schema.document()
    for key, row in ROWS.items():
        for path in _paths(row):
            part: Any = whole
            for name in path.split("."):
                inside = part.get("properties", {})
                assert name in inside or part.get("additionalProperties") is not False, (key, path)
                part = inside.get(name, {})


@pytest.mark.parametrize("helm", [3, 4])
def test_what_hami_does_not_know_is_refused(helm: int) -> None:
    """With what may be meant; all at once."""
    values = {
        "Scheduler": {},
        "scheduler": {
            "leaderelect": True,
            "leaderElect": "maybe",
            "patch": {"colour": 1},
            "extender": {"image": "a:b"},
            "nodeLockExpire": "long",
            "defaultSchedulerPolicy": {"nodeSchedulerPolicy": "pack"},
        },
        "devicePlugin": {
            "splitCount": 2,
            "pluginPath": "/plugins",
            "nodeConfiguration": {"config": "your-node-name"},
        },
    }
    sentences = [
        "Scheduler is no value of HAMi's chart; did you mean scheduler?",
        "scheduler.leaderelect is no value of HAMi's chart; did you mean scheduler.leaderElect?",
        "scheduler.leaderElect: `maybe` is neither true nor false",
        "scheduler.patch.colour is no value of HAMi's chart; there are enabled, image, imageNew, ",
        "scheduler.extender.image is a mapping in HAMi's chart, of pullPolicy, pullSecrets, ",
        "scheduler.nodeLockExpire: `long` is no time such as 5m or 28s",
        "nodeSchedulerPolicy: `pack` is none of binpack, spread",
        "splitCount is no value of HAMi's chart; did you mean devicePlugin.deviceSplitCount?",
        "devicePlugin.pluginPath: it is device-plugins below kubelet's --root-dir",
        "devicePlugin.nodeConfiguration.config: no JSON",
    ]
    with pytest.raises(RefusedError) as refused:
        render({"hamiCompat": values}, helm=helm)
    assert not [each for each in sentences if each not in str(refused.value)]


def test_nothing_said_is_nothing() -> None:
    """A key without a value is HAMi's default."""
    values = {"scheduler": {"nodeName": None, "kubeScheduler": None}, "devicePlugin": None}
    assert rendered({"hamiCompat": values}) == rendered({})
