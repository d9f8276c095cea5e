"""Resources of other names than NVIDIA's: all that reads names of resources reads the same ones.

Who renames a resource in one place and not in another has pods that one program waits for and
another never sees, so the names are said once and followed through every object here.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml

from hami import deviceconfig
from tests.charts.rendering import (
    CHART,
    Object,
    container,
    merged,
    of_kind,
    one,
    render,
)

_NAMES: Final = {
    "resourceCountName": "gpus.example.com/vgpu",
    "resourceMemoryName": "gpus.example.com/mem",
    "resourceMemoryPercentageName": "gpus.example.com/mem-percent",
    "resourceCoreName": "gpus.example.com/cores",
    "resourcePriorityName": "gpus.example.com/urgency",
}
_OLD: Final = re.compile(r"nvidia\.com/(gpu|gpumem|gpumem-percentage|gpucores|priority)(?![-\w.])")
_DEFAULT: Final = yaml.safe_load((CHART / "files" / "device-config.yaml").read_text())
_WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sections": {"deviceConfig": {"sections": {"nvidia": _NAMES}}},
    "content": {"deviceConfig": {"content": merged(_DEFAULT, {"nvidia": _NAMES})}},
    "text": {"deviceConfig": {"content": yaml.safe_dump(merged(_DEFAULT, {"nvidia": _NAMES}))}},
    "HAMi's values": {
        "hamiCompat": {
            "resourceName": _NAMES["resourceCountName"],
            "resourceMem": _NAMES["resourceMemoryName"],
            "resourceMemPercentage": _NAMES["resourceMemoryPercentageName"],
            "resourceCores": _NAMES["resourceCoreName"],
            "resourcePriority": _NAMES["resourcePriorityName"],
        }
    },
}
"""The ways in which names can be given."""
_EVERY_WAY = pytest.mark.parametrize("values", _WAYS.values(), ids=list(_WAYS))
_SECRET: Final = {"scheduler": {"refit": {"tls": {"mode": "secret", "secret": {"name": "refit"}}}}}


def _objects(values: Mapping[str, Any], kubernetes: str = "1.35.0") -> list[Object]:
    return render(merged(_SECRET, values), kubernetes=kubernetes)


def _programs(objects: list[Object]) -> dict[str, Object]:
    return {
        "node-agent": one(objects, "DaemonSet", "gpuslice-node-agent"),
        "webhook": one(objects, "Deployment", "gpuslice-webhook"),
        "extender": one(objects, "Deployment", "gpuslice-scheduler"),
    }


@_EVERY_WAY
@pytest.mark.parametrize("kubernetes", ["1.25.0", "1.31.2-eks-1", "1.35.0"])
def test_nothing_has_the_old_names(values: Mapping[str, Any], kubernetes: str) -> None:
    """No object speaks of a resource of NVIDIA's; all five new names are there."""
    text = json.dumps(_objects(values, kubernetes))
    assert [found.group() for found in _OLD.finditer(text)] == []
    assert [name for name in _NAMES.values() if name not in text] == []


@_EVERY_WAY
def test_each_program_reads_the_file_with_the_new_names(values: Mapping[str, Any]) -> None:
    """Agents, webhook and extender are given one ConfigMap, at the path that they are told."""
    objects = _objects(values)
    (told,) = [
        each for each in of_kind(objects, "ConfigMap") if "device-config.yaml" in each["data"]
    ]
    read = deviceconfig.parse(told["data"]["device-config.yaml"])
    assert read.nvidia.keys == set(_NAMES.values())
    for name, workload in _programs(objects).items():
        program = container(workload, name)
        (path,) = [
            each.partition("=")[2]
            for each in program["args"]
            if each.startswith("--device-config=")
        ]
        (mount,) = [
            each
            for each in program["volumeMounts"]
            if path == f"{each['mountPath']}/device-config.yaml"
        ]
        volumes = workload["spec"]["template"]["spec"]["volumes"]
        (volume,) = [each for each in volumes if each["name"] == mount["name"]]
        assert volume["configMap"]["name"] == told["metadata"]["name"]


@_EVERY_WAY
def test_the_webhook_is_asked_about_the_new_names(values: Mapping[str, Any]) -> None:
    """Its condition lets pods with the new domain through, and those of NVIDIA's no more."""
    hook = one(_objects(values), "MutatingWebhookConfiguration", "gpuslice")["webhooks"][0]
    (condition,) = [each["expression"] for each in hook["matchConditions"]]
    (domains,) = re.findall(r"in (\[.*?\])\)", condition)
    assert "gpus.example.com" in json.loads(domains)
    assert "nvidia.com" not in json.loads(domains)


@_EVERY_WAY
def test_kube_scheduler_asks_about_the_new_names(values: Mapping[str, Any]) -> None:
    """Its managedResources are what the programs serve by that file, and nothing else."""
    objects = _objects(values)
    config = one(objects, "ConfigMap", "gpuslice-scheduler")["data"]["config.yaml"]
    (extender,) = yaml.safe_load(config)["extenders"]
    managed = {each["name"]: each["ignoredByScheduler"] for each in extender["managedResources"]}
    told = one(objects, "ConfigMap", "gpuslice-device-config")["data"]["device-config.yaml"]
    read = deviceconfig.parse(told)
    assert set(managed) == read.nvidia.keys | read.vendor_keys
    assert {name for name in _NAMES.values() if not managed[name]} == {_NAMES["resourceCountName"]}


@_EVERY_WAY
def test_quotas_of_the_new_names_keep_claims_out(values: Mapping[str, Any]) -> None:
    """A namespace whose quota limits the new names is one in which nobody makes claims himself."""
    policy = one(_objects(values), "ValidatingAdmissionPolicy", "gpuslice-direct-claims")
    (limits,) = [
        each["expression"] for each in policy["spec"]["variables"] if each["name"] == "limitsGpus"
    ]
    counted = ("resourceCountName", "resourceMemoryName", "resourceCoreName")
    wanted = {f"{verb}.{_NAMES[key]}" for verb in ("limits", "requests") for key in counted}
    assert set(re.findall(r'"([^"]+)"', limits)) == wanted


def test_all_ways_of_renaming_are_one() -> None:
    """Sections and a whole file make equal objects; HAMi's values bring its other vendors too."""
    ways = ("sections", "content", "text")
    first, *others = (_comparable(_objects(_WAYS[each])) for each in ways)
    assert all(each == first for each in others)


def _comparable(objects: list[Object]) -> list[Object]:
    """Return objects with device-config.yaml read, since it may be written in several ways."""
    return [
        {**each, "data": {key: yaml.safe_load(text) for key, text in each["data"].items()}}
        if each["kind"] == "ConfigMap"
        else each
        for each in objects
    ]


def test_one_renamed_resource_leaves_the_others() -> None:
    """A single name is replaced; the rest of the section stays as it was."""
    values = {"deviceConfig": {"sections": {"nvidia": {"resourceMemoryName": "example.com/mem"}}}}
    objects = _objects(values)
    told = one(objects, "ConfigMap", "gpuslice-device-config")["data"]["device-config.yaml"]
    keys = deviceconfig.parse(told).nvidia.keys
    assert "example.com/mem" in keys
    assert "nvidia.com/gpumem" not in keys
    assert {"nvidia.com/gpu", "nvidia.com/gpucores"} <= keys
    hook = one(objects, "MutatingWebhookConfiguration", "gpuslice")["webhooks"][0]
    (condition,) = [each["expression"] for each in hook["matchConditions"]]
    assert '"example.com"' in condition
    assert '"nvidia.com"' in condition
