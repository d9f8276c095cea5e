"""What values of HAMi's chart come to mean."""

import json
from typing import Final

import pytest
import yaml

from tests.charts import schedulers
from tests.charts.hamivalues import given, rendered
from tests.charts.rendering import Object, RefusedError, container, merged, nested, of_kind, one

WORKLOADS: Final = {"DaemonSet", "Deployment"}
DIGEST: Final = f"sha256:{64 * '0'}"
CONTENT: Final = "nvidia:\n  resourceCountName: example.com/gpu\n"


def test_admission_may_be_off() -> None:
    """Then pods name the scheduler themselves."""
    off = nested("hamiCompat.scheduler.admissionWebhook.enabled", False)
    assert not of_kind(rendered(off), "MutatingWebhookConfiguration")
    assert of_kind(rendered({}), "MutatingWebhookConfiguration")


def test_the_scheduler_is_as_hami_was_told() -> None:
    """Name, port, replicas, lead and policies."""
    said = {
        "schedulerName": "shares",
        "scheduler": {
            "replicas": 3,
            "extenderPort": 9000,
            "nodeLockExpire": "1m30s",
            "metricsBindAddress": "[::1]:9001",
            "nodeLabelSelector": {"gpu": "on", "pool": "a"},
            "defaultSchedulerPolicy": {
                "nodeSchedulerPolicy": "spread",
                "gpuSchedulerPolicy": "binpack",
            },
        },
    }
    objects = rendered({"hamiCompat": said})
    settings = schedulers.settings(objects)
    assert one(objects, "Deployment", schedulers.NAME)["spec"]["replicas"] == 3
    assert (settings.scheduler_name, settings.port) == ("shares", 9000)
    assert (settings.metrics_address, settings.metrics_port) == ("::1", 9001)
    assert settings.node_lock_expire_s == 90
    assert settings.node_label_selector == "gpu=on,pool=a"
    assert settings.node_scheduler_policy == "spread"
    assert settings.gpu_scheduler_policy == "binpack"
    with pytest.raises(RefusedError, match=r"scheduler\.replicas"):
        rendered(merged({"hamiCompat": said}, nested("hamiCompat.scheduler.leaderElect", False)))
    alone = nested("hamiCompat.scheduler.kubeScheduler.enabled", False)
    assert schedulers.settings(rendered(alone)).address == "0.0.0.0"  # noqa: S104


def test_names_of_resources_are_those_of_hamis_values() -> None:
    """In device-config.yaml and in kube-scheduler's configuration."""
    objects = rendered(
        {"hamiCompat": {"resourceName": "a.com/gpu", "mluResourceName": "a.com/mlu"}}
    )
    managed = schedulers.managed(objects)
    assert {"a.com/gpu", "a.com/mlu", "nvidia.com/gpumem"} <= managed.keys()
    assert not {"nvidia.com/gpu", "cambricon.com/vmlu"} & managed.keys()


def test_vendors_may_be_off() -> None:
    """Then nobody is told of their resources."""
    vendors = {"kunlunxin.com", "enflame.com", "mthreads.com", "vastaitech.com", "birentech.com"}
    names = ("kunlun", "enflame", "mthreads", "vastai", "biren")
    off = rendered(nested("hamiCompat.devices", {name: {"enabled": False} for name in names}))
    domains = {name.partition("/")[0] for name in schedulers.managed(rendered({}))}
    left = {name.partition("/")[0] for name in schedulers.managed(off)}
    assert vendors <= domains
    assert left == domains - vendors


def test_nodes_are_configured_as_by_hami() -> None:
    """The example of HAMi's values is nobody's node; another ConfigMap wins."""
    example = {"name": "your-node-name", "devicesplitcount": 10}
    entry = {"name": "node-a", "devicesplitcount": 4}

    def config(*entries: Object) -> list[Object]:
        as_json = json.dumps({"nodeconfig": entries})
        return rendered(nested("hamiCompat.devicePlugin.nodeConfiguration.config", as_json))

    assert config(example) == rendered({})
    (found,) = [
        each["data"]["config.json"]
        for each in of_kind(config(example, entry), "ConfigMap")
        if "config.json" in each["data"]
    ]
    assert yaml.safe_load(found) == {"nodeconfig": [entry]}
    name = nested("hamiCompat.devicePlugin.nodeConfiguration.externalConfigName", "theirs")
    agent = container(one(rendered(name), "DaemonSet", "gpuslice-node-agent"), "node-agent")
    assert any(each.startswith("--external-node-config") for each in agent["args"])


def test_a_whole_device_config_wins_over_names() -> None:
    """It says all that the programs read."""
    objects = rendered(given("device-config.content", CONTENT))
    assert schedulers.managed(objects) == {"example.com/gpu": False}


def test_the_library_is_taken_from_hamis_image() -> None:
    """Unless another one is named."""
    agent = one(rendered({}), "DaemonSet", "gpuslice-node-agent")
    images = {each["image"] for each in agent["spec"]["template"]["spec"]["initContainers"]}
    assert "projecthami/hami:v2.10.0" in images
    other = nested("library.image", {"repository": "mine", "tag": "v1"})
    agent = one(rendered(other), "DaemonSet", "gpuslice-node-agent")
    images = {each["image"] for each in agent["spec"]["template"]["spec"]["initContainers"]}
    assert "mine:v1" in images


def _images(objects: list[Object]) -> set[str]:
    specs = [each["spec"]["template"]["spec"] for each in objects if each["kind"] in WORKLOADS]
    return {
        part["image"]
        for spec in specs
        for part in (*spec["containers"], *spec.get("initContainers", ()))
    }


def test_a_mirror_holds_all_images() -> None:
    """As `global.imageRegistry` does for HAMi, before what is said of each."""
    said = {
        "global": {"imageRegistry": "mirror.example.com"},
        "scheduler": {"extender": {"image": {"registry": "other.example.com"}}},
        "devicePlugin": {"image": {"registry": "other.example.com"}},
    }
    unnamed = nested("scheduler.kubeScheduler.image.repository", "")
    assert _images(rendered(merged(unnamed, {"hamiCompat": said}))) == {
        "mirror.example.com/gpuslice:0.1.0",
        "mirror.example.com/projecthami/hami:v2.10.0",
        "mirror.example.com/google_containers/kube-scheduler:v1.29.4",
    }


def test_images_that_are_named_in_our_words_stay() -> None:
    """Registries and tags of HAMi's values are of HAMi's images."""
    registry = {"image": {"registry": "hami.example.com", "tag": "v2.9.0"}}
    kube_scheduler = {"image": {"registry": "hami.example.com"}}
    said = {
        "global": {"imageRegistry": "mirror.example.com"},
        "scheduler": {"kubeScheduler": kube_scheduler},
        "devicePlugin": registry,
    }
    ours = {
        "image": {"repository": "ours.example.com/gpuslice"},
        "library": {"image": {"repository": "ours.example.com/hami-core", "digest": DIGEST}},
    }
    assert _images(rendered(merged(ours, {"hamiCompat": said}))) == {
        "ours.example.com/gpuslice:0.1.0",
        f"ours.example.com/hami-core@{DIGEST}",
        "kube-scheduler:v1.29.4",
    }
