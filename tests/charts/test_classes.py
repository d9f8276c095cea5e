"""The DeviceClasses that the chart makes."""

from typing import Any, Final

import pytest
import yaml

from gpu.names import CLASS_MIG, CLASS_SHARE, CLASS_WHOLE, DRIVER
from tests.charts.nodeagent import rendered, settings
from tests.charts.rendering import Object, RefusedError, nested, of_kind
from tests.cluster.cluster import REPOSITORY

OWN: Final = {CLASS_WHOLE, CLASS_MIG, CLASS_SHARE}


def _classes(values: dict[str, Any] | None = None, **options: Any) -> dict[str, Object]:
    found = of_kind(rendered(values, **options), "DeviceClass")
    return {each["metadata"]["name"]: each for each in found}


def _expressions(item: Object) -> list[str]:
    return [each["cel"]["expression"] for each in item["spec"]["selectors"]]


@pytest.mark.parametrize("helm", [3, 4])
def test_the_classes_are_those_of_the_examples(helm: int) -> None:
    """Same names and same expressions."""
    text = (REPOSITORY / "examples/device-classes/classes.yaml").read_text()
    examples = {each["metadata"]["name"]: each for each in yaml.safe_load_all(text)}
    found = _classes(helm=helm)
    assert set(found) == set(examples) == OWN
    for name, each in examples.items():
        assert found[name]["spec"] == each["spec"]
        assert found[name]["apiVersion"] == each["apiVersion"]


@pytest.mark.parametrize(
    ("values", "kubernetes", "version"),
    [
        ({"mode": "dra", "resourceApiVersion": "v1beta1"}, "1.32.2-tke.2", "v1beta1"),
        ({"mode": "dra", "resourceApiVersion": "v1beta2"}, "v1.33.4+k3s1", "v1beta2"),
        ({"mode": "dra"}, "1.34.0", "v1"),
        ({"mode": "auto"}, "1.34.0", "v1"),
        ({"mode": "auto"}, "1.37.2", "v1"),
    ],
)
def test_classes_are_written_in_a_version_that_the_server_has(
    values: dict[str, Any], kubernetes: str, version: str
) -> None:
    """v1, which is served from 1.34 on; older servers serve what they were told to serve."""
    versions = {each["apiVersion"] for each in _classes(values, kubernetes=kubernetes).values()}
    assert versions == {f"resource.k8s.io/{version}"}
    assert settings(values, kubernetes=kubernetes).resource_api_version in {"auto", version}


def test_there_are_no_classes_where_there_are_no_claims() -> None:
    """On older clusters, with HAMi's protocol alone, and when one makes them oneself."""
    for values, kubernetes in (
        ({}, "1.25.0"),
        ({}, "v1.31.2+k3s1"),
        ({}, "1.33.0"),
        ({"mode": "hami"}, "1.37.2"),
        ({"deviceClasses": {"create": False}}, "1.37.2"),
    ):
        assert _classes(values, kubernetes=kubernetes) == {}


@pytest.mark.parametrize("kubernetes", ["1.36.0", "1.37.2"])
def test_whole_gpus_answer_for_an_extended_resource(kubernetes: str) -> None:
    """The class of whole GPUs alone, where the scheduler knows what that is."""
    values = nested("deviceClasses.extendedResourceName", "nvidia.com/gpu")
    names = {
        name: each["spec"].get("extendedResourceName")
        for name, each in _classes(values, kubernetes=kubernetes).items()
    }
    assert names == {CLASS_WHOLE: "nvidia.com/gpu", CLASS_SHARE: None, CLASS_MIG: None}
    assert not any("extendedResourceName" in each["spec"] for each in _classes().values())


@pytest.mark.parametrize(
    ("mode", "kubernetes"), [("auto", "1.35.0"), ("auto", "1.30.0"), ("hami", "1.37.2")]
)
def test_an_extended_resource_is_refused_where_no_class_answers_for_it(
    mode: str, kubernetes: str
) -> None:
    """The sentence says from which version on it works."""
    values = nested("deviceClasses.extendedResourceName", "nvidia.com/gpu") | {"mode": mode}
    with pytest.raises(RefusedError, match=r"extendedResourceName: .*1\.36"):
        rendered(values, kubernetes=kubernetes)


def test_further_classes_are_of_this_driver() -> None:
    """The driver is tested before an expression that may know attributes of it alone."""
    big = 'device.capacity["gpuslice.io"].memory.compareTo(quantity("40Gi")) >= 0 || false'
    found = _classes(nested("deviceClasses.extra", {"big.example.com": big}))
    assert set(found) == OWN | {"big.example.com"}
    assert _expressions(found["big.example.com"]) == [f'device.driver == "{DRIVER}" && ({big})']


def test_a_further_class_has_a_name_of_its_own() -> None:
    """The chart's own are not replaced."""
    with pytest.raises(RefusedError, match="choose another name"):
        rendered(nested("deviceClasses.extra", {CLASS_WHOLE: "true"}))
