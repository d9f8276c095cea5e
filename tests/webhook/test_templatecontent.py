"""A template is what its name says, or it is not used."""

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.refusal import Refusal
from kube.objects import JsonObject
from tests.webhook.translating import a_container, a_pod, only_spec, stored, translated
from webhook.rendering import claim_spec
from webhook.requestannotation import ANNOTATION
from webhook.sharerequest import ShareRequest
from webhook.templatecontent import (
    expected_templates,
    is_genuine,
    is_template_name,
    template_name,
)

PLAIN = ShareRequest(memory_mib=5000, cores=0)


def _translated(pod: JsonObject) -> JsonObject:
    after: JsonObject = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    return after


def _ours() -> JsonObject:
    return _translated(a_pod(a_container(gpu=1, gpumem=5000)))


def test_the_format_is_pinned() -> None:
    """Whoever changes what a request becomes must raise the version: pods out there name it."""
    name = template_name(claim_spec(PLAIN))
    assert name == "gpuslice-3244b2f3d482abc9f0efe69f72a56bccb4885333"
    rich = ShareRequest(
        count=2,
        memory_percent=50,
        sizes_mib=(23028, 81920),
        cores=30,
        shares=(10,),
        use_types=("a10",),
        priority=0,
        core_policy="force",
    )
    assert template_name(claim_spec(rich)) == "gpuslice-69c8295853a77e740a385e31c004cb2236b7e784"
    free = ShareRequest(memory_mib=5000, cores=0, enforcement="none")
    assert template_name(claim_spec(free)) == "gpuslice-00040222f2546ef0af585a7ff6d90a3eeb964eb1"


def test_a_name_is_a_label() -> None:
    """It has room for a prefix and 160 bits."""
    name = template_name(claim_spec(PLAIN))
    assert is_template_name(name)
    assert len(name) <= 63
    assert not is_template_name(name + "\n")
    assert not is_template_name("gpuslice-" + "g" * 40)
    assert not is_template_name("other")


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_stored_template_is_genuine(version: str) -> None:
    """The API server fills nothing in and writes no quantity differently."""
    for memory_mib in (1, 1024, 5000, 81920, 1 << 24):
        spec = claim_spec(ShareRequest(memory_mib=memory_mib, cores=0))
        kept = stored(spec, version)
        assert kept == spec
        assert is_genuine(template_name(spec), kept)


@given(data=st.data())
def test_any_change_makes_it_another(data: st.DataObject) -> None:
    """A template of our name with other content is foreign."""
    spec = only_spec(translated(a_pod(a_container(gpu=1, gpumem=5000, cores=20, priority=0))))
    name = template_name(spec)
    altered = copy.deepcopy(spec)
    paths = list(_paths(altered))
    path = data.draw(st.sampled_from(paths))
    at: Any = altered
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = data.draw(st.sampled_from([None, "x", 7, {}, [], "1Mi"]))
    assert is_genuine(name, altered) is (altered == spec)
    assert is_genuine(name, {**spec, "more": 1}) is False


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from _paths(inner, (*path, key))


@pytest.mark.parametrize("spec", [{1: {}, "a": {}}, {"a": {1, 2}}, None])
def test_what_is_no_json_is_not_genuine(spec: Any) -> None:
    """And no exception."""
    assert is_genuine(template_name(claim_spec(PLAIN)), spec) is False


def test_the_templates_of_a_pod_come_from_its_annotation() -> None:
    """They are those of the translation."""
    pod = a_pod(a_container("a", gpu=1, gpumem=5000), a_container("b", gpu=2))
    assert expected_templates(_translated(pod)) == translated(pod).templates


def test_a_pod_that_is_not_ours_needs_none() -> None:
    """Claims of the user stay his own."""
    entries = [{"name": "own", "resourceClaimTemplateName": "own"}, {"name": "x"}, "y", None]
    assert expected_templates(a_pod(a_container(), resourceClaims=entries)) == {}
    assert expected_templates({}) == {}


def _refusal(pod: JsonObject) -> Refusal:
    found = expected_templates(pod)
    assert isinstance(found, Refusal)
    return found


def test_a_request_that_is_not_the_template_is_refused() -> None:
    """Nobody gets a template made of other content than its name."""
    pod = _ours()
    said = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    said["claims"]["gpu-main"]["memoryMib"] = 4000
    pod["metadata"]["annotations"][ANNOTATION] = json.dumps(said)
    assert _refusal(pod).code == "TemplateNotNamed"


def test_a_request_without_its_claim_is_refused() -> None:
    """A template that the pod does not name would never be used."""
    pod = _ours()
    pod["spec"]["resourceClaims"] = []
    assert _refusal(pod).code == "TemplateNotNamed"


def test_a_template_without_its_request_is_refused() -> None:
    """The pod would wait for ever, so somebody has to say so."""
    pod = _ours()
    del pod["metadata"]["annotations"][ANNOTATION]
    assert _refusal(pod).code == "RequestMissing"
    assert _refusal(pod).value == "gpu-main"


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    """With the reason of its reading."""
    pod = _ours()
    pod["metadata"]["annotations"][ANNOTATION] = "{}"
    assert _refusal(pod).code == "RequestsAnnotationInvalid"


def test_an_absurd_claim_is_refused() -> None:
    """An annotation of a few KiB could ask for megabytes otherwise."""
    absurd = ShareRequest(
        count=32,
        count_is_distinct=False,
        memory_percent=1,
        sizes_mib=tuple(range(1, 9)),
        cores=0,
        use_types=("x" * 2000,),
    )
    name = template_name(claim_spec(absurd))
    text = json.dumps(
        {
            "version": 1,
            "claims": {
                "gpu-main": absurd.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            },
        }
    )
    pod = a_pod(
        a_container(),
        annotations={ANNOTATION: text},
        resourceClaims=[{"name": "gpu-main", "resourceClaimTemplateName": name}],
    )
    assert _refusal(pod).code == "ClaimTooLarge"
