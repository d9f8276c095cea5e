"""What is read of lists and events in a hurry is what would be read of the whole of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.state import parsing
from extender.state.reading import read_node, read_pod
from hami.containers import JsonObject
from kube.reflector import Parsing
from tests.extender.statemachine import container, gpu, node, pod

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    [
        *("name", "namespace", "uid", "resourceVersion", "annotations", "labels"),
        *("deletionTimestamp", "nodeName", "containers", "initContainers", "schedulingGroup"),
        *("phase", "initContainerStatuses", "state", "terminated", "exitCode", "resources"),
        *("limits", "requests", "restartPolicy", "capacity", "allocatable", "podGroupName"),
        *("hami.io/vgpu-node", "scheduling.x-k8s.io/pod-group", "nvidia.com/gpu", "other"),
    ]
)
_LIKELY = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "Always", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=25,
)
_PARTS = st.dictionaries(_KEYS, _LIKELY, max_size=6)


def _full_pod() -> JsonObject:
    stays = container("side") | {"restartPolicy": "Always"}
    asking = pod(
        "p",
        container(gpu=1, gpumem=1000),
        inits=[container("first", gpu=1), stays],
        annotations={"hami.io/vgpu-node": "n", "hami.io/bind-phase": "success"},
    )
    asking["metadata"] |= {
        "labels": {"scheduling.x-k8s.io/pod-group": "crowd"},
        "deletionTimestamp": "2026-05-01T12:00:00Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}],
    }
    asking["spec"] |= {"nodeName": "n", "schedulingGroup": {"podGroupName": "gang"}}
    ended = {"name": "first", "state": {"terminated": {"exitCode": 0}}}
    asking["status"] = {"phase": "Running", "initContainerStatuses": [ended]}
    return asking


def _page(*items: object) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


def _made(read: Callable[[JsonObject], object], item: JsonObject) -> object:
    """Return what is made of an object, or the kind of error for which it is left out."""
    try:
        return read(item)
    except (TypeError, AttributeError) as error:
        return type(error)


def test_nothing_that_is_looked_at_is_left_out() -> None:
    """A pod and a node with all that is kept of them are read as if they had been whole."""
    asking, worker = _full_pod(), node("n", [gpu("GPU-a")], hami__device_cordon="GPU-a")
    worker["status"]["capacity"] = {"nvidia.com/gpu": "10"}
    worker["metadata"]["labels"] = {"node.kubernetes.io/instance-type": "large"}
    found = read_pod(*parsing.PODS.page(_page(asking))["items"])
    assert found == read_pod(asking)
    assert (found.group, found.inits_done, found.sidecars) == ("crowd", True, (1,))
    assert found.is_deleting
    assert read_node(*parsing.NODES.page(_page(worker))["items"]) == read_node(worker)
    event = json.dumps({"type": "MODIFIED", "object": asking}).encode()
    told = parsing.PODS.event(event)
    assert (told["type"], read_pod(told["object"])) == ("MODIFIED", read_pod(asking))


def test_what_nobody_looks_at_is_left_out() -> None:
    """Of a pod's fields those stay that are looked at, which is what makes reading quick."""
    asking = _full_pod()
    asking["spec"]["containers"][0]["env"] = [{"name": "A", "value": "B"}]
    (found,) = parsing.PODS.page(_page(asking))["items"]
    assert "managedFields" not in found["metadata"]
    assert "env" not in found["spec"]["containers"][0]


@given(metadata=_PARTS, spec=_PARTS | _LIKELY, status=_PARTS | _LIKELY)
def test_odd_objects_are_read_as_if_whole(metadata: JsonObject, spec: Any, status: Any) -> None:
    """Whatever has an odd type somewhere means the same, and its neighbours are read as ever."""
    odd = {"metadata": {**metadata, "name": "x", "namespace": "y"}, "spec": spec, "status": status}
    good = _full_pod()
    items = list(parsing.PODS.page(_page(good, odd, good))["items"])
    assert [_made(read_pod, each) for each in items] == [
        _made(read_pod, each) for each in (good, odd, good)
    ]
    (of_node,) = parsing.NODES.page(_page(odd))["items"]
    assert _made(read_node, of_node) == _made(read_node, odd)


@given(whole=_JSON)
def test_odd_messages_are_read_whole(whole: Any) -> None:
    """What is no list and no event is returned as it came, or refused as a `ValueError`."""
    body = json.dumps(whole).encode()
    assert parsing.PODS.page(body) == whole
    assert parsing.PODS.event(body) == whole


@pytest.mark.parametrize("how", [parsing.PODS, parsing.NODES])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"type":"ADDED","object":{', b'{"metadata":{},"items":[{]}', b"[" * 100_000],
)
def test_no_json_is_refused(how: Parsing, body: bytes) -> None:
    """What is no JSON raises what a reflector waits out."""
    with pytest.raises((ValueError, RecursionError)):
        how.page(body)
    with pytest.raises((ValueError, RecursionError)):
        how.event(body)


def test_a_list_without_items_is_empty() -> None:
    """`items` may be absent or null, as Go writes a list that is empty."""
    for text in (b'{"metadata":{}}', b'{"metadata":{},"items":null}'):
        assert list(parsing.PODS.page(text)["items"]) == []
