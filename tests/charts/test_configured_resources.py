"""What the API server asks the webhook follows the names in device-config.yaml."""

from typing import Any

import pytest

from hami.deviceconfig import DeviceConfig, NvidiaConfig
from hami.deviceconfig import parse as parse_device_config
from hami.vendors import from_sections
from tests.charts.rendering import Object, one, render
from tests.charts.webhooks import (
    DIRECT,
    KEYS,
    PODS,
    SHARE,
    asking,
    claim,
    denied,
    hooks,
    is_asked,
)
from tests.webhook.translating import a_container, a_pod

RENAMED = {
    "resourceCountName": "example.com/card",
    "resourceMemoryName": "example.com/card-memory",
    "resourceCoreName": "cores.example.com/part",
}


def sections(kind: str) -> dict[str, Any]:
    """Return values with the renamed keys, as `sections` or as `content` of the file."""
    if kind == "sections":
        return {"deviceConfig": {"sections": {"nvidia": RENAMED}}}
    if kind == "content":
        return {"deviceConfig": {"content": {"nvidia": RENAMED}}}
    lines = "".join(f"  {key}: {value}\n" for key, value in RENAMED.items())
    return {"deviceConfig": {"content": f"nvidia:\n{lines}"}}


@pytest.mark.parametrize("kind", ["sections", "content", "text"])
def test_renamed_resources_are_asked_about_and_limited(kind: str) -> None:
    """Conditions, the policy and the program's file have the same names of resources."""
    objects = render(sections(kind))
    found, policy = hooks(objects), one(objects, *DIRECT)
    config = device_config(objects)
    for key in RENAMED.values():
        assert is_asked(found[PODS], asking(key))
        assert denied(policy, claim(SHARE), hard={f"limits.{key}": "1"})
        assert denied(policy, claim(SHARE), hard={f"requests.{key}": "1"})
    assert set(RENAMED.values()) <= config.nvidia.keys
    assert not is_asked(found[PODS], asking("other.org/card"))
    assert not denied(policy, claim(SHARE), hard={"limits.nvidia.com/gpu": "1"})
    written = [each for each in config.nvidia.keys if each]
    assert all(is_asked(found[PODS], asking(key)) for key in written)


def device_config(objects: list[Object]) -> DeviceConfig:
    """Return what the program reads of the file that it is given."""
    text = one(objects, "ConfigMap", "gpuslice-device-config")["data"]["device-config.yaml"]
    return parse_device_config(text, ascend=True, iluvatar=True)


def test_other_vendors_are_asked_about_when_they_are_configured() -> None:
    """Their pods wait for the webhook only where it has something to write into them."""
    sections = {
        "hygon": {"resourceCountName": "hygon.com/dcunum"},
        "vnpus": {"configs": [{"commonWord": "A", "resourceName": "huawei.com/Ascend910A"}]},
        "iluvatars": [{"commonWord": "B", "resourceName": "iluvatar.ai/vgpu"}],
    }
    values: dict[str, Any] = {"deviceConfig": {"sections": sections}}
    found = hooks(render(values))
    assert is_asked(found[PODS], asking("hygon.com/dcunum"))
    assert not is_asked(found[PODS], asking("huawei.com/Ascend910A"))
    assert not is_asked(found[PODS], asking("iluvatar.ai/vgpu"))
    settings = {"enableAscend": True, "enableIluvatar": True}
    found = hooks(render({**values, "webhook": {"settings": settings}}))
    assert is_asked(found[PODS], asking("huawei.com/Ascend910A"))
    assert is_asked(found[PODS], asking("iluvatar.ai/vgpu"))


def test_the_annotations_of_every_configured_chip_are_guarded() -> None:
    """Of models that HAMi's default does not name as well."""
    chips = [
        {"commonWord": word, "chipName": word, "resourceName": f"huawei.com/{word}"}
        for word in ("Ascend910A", "Ascend999")
    ]
    iluvatar = {"commonWord": "BI-V999", "chipName": "V", "resourceCountName": "iluvatar.ai/v999"}
    sections = {"vnpus": {"configs": chips}, "iluvatars": [iluvatar]}
    objects = render(
        {
            "deviceConfig": {"sections": sections},
            "webhook": {"settings": {"enableAscend": True, "enableIluvatar": True}},
        }
    )
    guard = hooks(objects)[KEYS]
    vendors = device_config(objects).vendors
    assert {each.word for each in vendors} == {"Ascend910A", "Ascend999", "BI-V999"}
    for key in frozenset[str]().union(*(each.owned_keys for each in vendors)):
        assert is_asked(guard, a_pod(a_container("plain"), annotations={key: "x"})), key


def test_domains_can_be_added() -> None:
    """For a ConfigMap that the chart cannot read."""
    values = {
        "deviceConfig": {"existingConfigMap": "mine"},
        "webhook": {"resourceDomains": ["example.com", "hygon.com"]},
    }
    found = hooks(render(values))
    for key in ("nvidia.com/gpu", "example.com/card", "hygon.com/dcunum"):
        assert is_asked(found[PODS], asking(key))


def test_where_every_container_is_changed_every_pod_is_asked_about() -> None:
    """HAMi's overwriteEnv hides GPUs from containers that ask for none; other pods may not wait."""
    found = hooks(render({"deviceConfig": {"sections": {"nvidia": {"overwriteEnv": True}}}}))
    assert is_asked(found[PODS], a_pod(a_container("plain")))
    assert found[PODS]["failurePolicy"] == "Ignore"
    assert found[KEYS]["failurePolicy"] == "Fail"


def test_every_vendors_names_have_a_domain_that_is_found() -> None:
    """With HAMi's own names of all vendors each resource is asked about."""
    vendors = from_sections({}, ascend=True, iluvatar=True)
    keys = sorted(frozenset[str]().union(*(vendor.keys for vendor in vendors)))
    domains = sorted({key.partition("/")[0] for key in keys})
    found = hooks(render({"webhook": {"resourceDomains": domains}}))
    assert all(is_asked(found[PODS], asking(key)) for key in (*keys, *NvidiaConfig().keys))
