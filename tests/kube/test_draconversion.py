"""Objects of `resource.k8s.io` in the shapes of its older versions."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.draconversion import event_to_v1, to_v1, to_version
from kube.objects import JsonObject

OLDER = ["v1beta2", "v1beta1"]

SLICE_V1: JsonObject = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s", "managedFields": [{"apiVersion": "resource.k8s.io/v1"}]},
    "spec": {
        "driver": "gpuslice.io",
        "nodeName": "node-a",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"uuid": {"string": "GPU-0"}},
                "capacity": {"memory": {"value": "1Gi"}},
                "taints": [{"key": "k", "effect": "NoSchedule"}],
                "ofTomorrow": {"name": "x"},
            },
            {"name": "gpu-1"},
        ],
        "ofTomorrow": 1,
    },
}
SLICE_V1BETA1: JsonObject = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s", "managedFields": [{"apiVersion": "resource.k8s.io/v1"}]},
    "spec": {
        "driver": "gpuslice.io",
        "nodeName": "node-a",
        "devices": [
            {
                "name": "gpu-0",
                "basic": {
                    "attributes": {"uuid": {"string": "GPU-0"}},
                    "capacity": {"memory": {"value": "1Gi"}},
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                    "ofTomorrow": {"name": "x"},
                },
            },
            {"name": "gpu-1", "basic": {}},
        ],
        "ofTomorrow": 1,
    },
}
EXACTLY: JsonObject = {
    "deviceClassName": "gpu.gpuslice.io",
    "allocationMode": "ExactCount",
    "count": 2,
    "selectors": [{"cel": {"expression": "true"}}],
    "capacity": {"requests": {"memory": "1Gi"}},
    "ofTomorrow": [1],
}
EITHER: JsonObject = {"name": "either", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}
STATUS: JsonObject = {
    "allocation": {"devices": {"results": [{"request": "one", "exactly": {"not": "a request"}}]}}
}


def a_claim(version: str, *requests: JsonObject) -> JsonObject:
    """Build a claim with a status."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"devices": {"requests": list(requests), "constraints": [{"requests": ["one"]}]}},
        "status": STATUS,
    }


CLAIM_V1 = a_claim("v1", {"name": "one", "exactly": EXACTLY}, EITHER)
CLAIM_V1BETA1 = a_claim("v1beta1", {"name": "one", **EXACTLY}, EITHER)


def a_template(claim: JsonObject) -> JsonObject:
    """Build a template of *claim*."""
    return {
        "apiVersion": claim["apiVersion"],
        "kind": "ResourceClaimTemplate",
        "spec": {"metadata": {}, "spec": claim["spec"]},
    }


SHAPES = [
    pytest.param("resourceslices", SLICE_V1, SLICE_V1BETA1, id="slice"),
    pytest.param("resourceclaims", CLAIM_V1, CLAIM_V1BETA1, id="claim"),
    pytest.param(
        "resourceclaimtemplates", a_template(CLAIM_V1), a_template(CLAIM_V1BETA1), id="template"
    ),
]


@pytest.mark.parametrize(("plural", "of_v1", "of_v1beta1"), SHAPES)
def test_v1beta1_has_its_shape(plural: str, of_v1: JsonObject, of_v1beta1: JsonObject) -> None:
    """Devices go below `basic` and requests lose `exactly`, and back; nothing given is changed."""
    before = copy.deepcopy((of_v1, of_v1beta1))
    assert to_version(of_v1, plural, "v1beta1") == of_v1beta1
    assert to_v1(of_v1beta1, plural, "v1beta1") == of_v1
    assert (of_v1, of_v1beta1) == before


@pytest.mark.parametrize(("plural", "of_v1", "_of_v1beta1"), SHAPES)
def test_v1beta2_differs_in_name_only(
    plural: str, of_v1: JsonObject, _of_v1beta1: JsonObject
) -> None:
    """A v1beta2 object is that of v1 under another version."""
    older = to_version(of_v1, plural, "v1beta2")
    assert older == of_v1 | {"apiVersion": "resource.k8s.io/v1beta2"}
    assert to_v1(older, plural, "v1beta2") == of_v1


def test_lists_are_translated_item_by_item() -> None:
    """Items of a list have no version of their own, and the list's metadata stay."""
    metadata = {"resourceVersion": "7", "continue": "t"}
    items = [{"spec": SLICE_V1BETA1["spec"]}]
    listed = {"apiVersion": "resource.k8s.io/v1beta1", "metadata": metadata, "items": items}
    assert to_v1(listed, "resourceslices", "v1beta1") == {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": metadata,
        "items": [{"spec": SLICE_V1["spec"]}],
    }


def test_empty_class_beside_alternatives_means_nothing() -> None:
    """What a 1.33 server fills in beside `firstAvailable` does not become a request."""
    filled = a_claim("v1beta1", EITHER | {"deviceClassName": ""})
    assert to_v1(filled, "resourceclaims", "v1beta1") == a_claim("v1", EITHER)


@pytest.mark.parametrize("version", OLDER)
def test_watch_events_are_translated(version: str) -> None:
    """Objects and bookmarks become those of v1; an error of the server stays."""
    older = to_version(SLICE_V1, "resourceslices", version)
    event = {"type": "ADDED", "object": older}
    assert event_to_v1(event, "resourceslices", version) == {"type": "ADDED", "object": SLICE_V1}
    bookmark = {"kind": "ResourceSlice", "metadata": {"resourceVersion": "9"}}
    marked = bookmark | {"apiVersion": f"resource.k8s.io/{version}"}
    assert event_to_v1({"type": "BOOKMARK", "object": marked}, "resourceslices", version) == {
        "type": "BOOKMARK",
        "object": bookmark | {"apiVersion": "resource.k8s.io/v1"},
    }
    error = {"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "code": 410}}
    assert event_to_v1(error, "resourceslices", version) == error


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = st.dictionaries(st.text(max_size=6), json_values, max_size=4)
devices = st.builds(
    lambda name, known, unknown: {**unknown, **known, "name": name},
    st.text(max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "attributes": fields,
            "capacity": fields,
            "taints": st.lists(fields, max_size=2),
            "nodeName": st.text(max_size=3),
            "allowMultipleAllocations": st.booleans(),
        },
    ),
    fields.map(lambda each: {key: value for key, value in each.items() if key != "basic"}),
)
_taken = {"name", "exactly", "firstAvailable"}
exact_requests = st.builds(
    lambda name, device_class, unknown: {
        "name": name,
        "exactly": {
            **{key: value for key, value in unknown.items() if key not in _taken},
            "deviceClassName": device_class,
        },
    },
    st.text(max_size=4),
    st.text(min_size=1, max_size=4),
    fields,
)
requests = exact_requests | st.builds(
    lambda name, alternatives: {"name": name, "firstAvailable": alternatives},
    st.text(max_size=4),
    st.lists(fields, min_size=1, max_size=2),
)


@pytest.mark.parametrize("version", OLDER)
@given(offered=st.lists(devices, max_size=3), unknown=fields)
def test_slices_come_back_as_they_were(
    version: str, offered: list[JsonObject], unknown: JsonObject
) -> None:
    """A slice of v1 is the same after it has been in an older version, unknown fields too."""
    before = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": unknown,
        "spec": {**unknown, "devices": offered},
    }
    older = to_version(before, "resourceslices", version)
    assert to_v1(older, "resourceslices", version) == before


@pytest.mark.parametrize("version", OLDER)
@given(asked=st.lists(requests, max_size=3), unknown=fields)
def test_claims_come_back_as_they_were(
    version: str, asked: list[JsonObject], unknown: JsonObject
) -> None:
    """A claim of v1 is the same after it has been in an older version, unknown fields too."""
    before = a_claim("v1", *asked) | {"status": unknown}
    older = to_version(before, "resourceclaims", version)
    assert to_v1(older, "resourceclaims", version) == before


@pytest.mark.parametrize("plural", ["resourceslices", "resourceclaims", "resourceclaimtemplates"])
@given(item=fields, inner=json_values)
def test_odd_shapes_go_through(plural: str, item: JsonObject, inner: Any) -> None:
    """What does not look as the API documents it is left for its reader to complain about."""
    for odd in (
        item,
        item | {"spec": inner},
        item | {"spec": {"devices": inner}},
        item | {"spec": {"devices": [inner, {"basic": inner}]}},
        item | {"spec": {"devices": {"requests": [inner, {"exactly": inner}]}}},
        item | {"items": [inner, None]},
    ):
        to_version(odd, plural, "v1beta1")
        to_v1(odd, plural, "v1beta1")
        event_to_v1({"object": odd}, plural, "v1beta1")
