"""No object, however broken, is more than a refusal to the server."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import JsonObject, copy_json
from sim.apiserver.server import ApiServer
from tests.sim.apiserver.builders import (
    DRIVER,
    allocation,
    claim,
    consumer,
    pod,
    resource_slice,
    shared,
)

_SERVER = ApiServer()
_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "a/b", [], ["x"], [None], [{}], {}, {"x": 1}, {"x": {}}]
)


def _slice() -> JsonObject:
    gpu = shared(default="1Gi", validRange={"min": "1Mi", "max": "16Gi", "step": "1Mi"})
    taint = {"key": "example.com/xid", "value": "79", "effect": "NoSchedule"}
    return resource_slice({**gpu, "taints": [taint]}, name="")


def _claim() -> JsonObject:
    wanted = claim(capacity={"memory": "3000Mi"})
    wanted["spec"]["devices"] |= {
        "constraints": [{"requests": ["gpu"], "matchAttribute": "a.b/c"}],
        "config": [{"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"a": 1}}}],
    }
    return wanted


def _allocated() -> JsonObject:
    entry = {"driver": DRIVER, "pool": "node-a", "device": "gpu-0", "data": {"a": 1}}
    status = {"allocation": allocation(), "reservedFor": [consumer()], "devices": [entry]}
    return {**claim(), "status": status}


def _pod() -> JsonObject:
    return pod(
        resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}],
        containers=[
            {
                "name": "c",
                "image": "i",
                "resources": {"claims": [{"name": "gpu"}], "limits": {"a.b/c": "1"}},
            }
        ],
    )


def _class() -> JsonObject:
    selectors = [{"cel": {"expression": "true"}}]
    return {"metadata": {"name": "c"}, "spec": {"selectors": selectors}}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    below = [place for key, item in inner for place in _places(item, (*path, key))]
    return [path, *below] if path else below


def _replaced(obj: JsonObject, place: tuple[Any, ...], value: Any) -> JsonObject:
    changed = copy_json(obj)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    result: JsonObject = changed
    return result


async def _try(plural: str, obj: JsonObject, namespace: str | None) -> None:
    """Create, replace and set the status of *obj*, each of which may be refused."""
    api = _SERVER.api
    for subresource in ("create", None, "status"):
        try:
            if subresource == "create":
                await api.create(plural, obj, namespace)
            else:
                await api.update(plural, obj, subresource=subresource)
        except StatusError as error:
            if error.code not in {400, 404, 409, 422}:
                raise


@pytest.mark.parametrize(
    ("plural", "obj", "namespace"),
    [
        ("resourceslices", _slice(), None),
        ("resourceclaims", _claim(), "default"),
        ("resourceclaims", _allocated(), "default"),
        ("pods", _pod(), "default"),
        ("deviceclasses", _class(), None),
        ("nodes", {"metadata": {"name": "n", "labels": {"a": "b"}}, "status": {}}, None),
        ("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}, "default"),
        ("namespaces", {"metadata": {"name": "ns"}, "spec": {"finalizers": []}}, None),
    ],
)
@given(data=st.data())
@settings(max_examples=40)
def test_broken_objects_are_refused(
    plural: str, obj: JsonObject, namespace: str | None, data: st.DataObject
) -> None:
    """Whatever stands in whatever field, the answer is the object or a Status of the 400s."""
    place = data.draw(st.sampled_from(_places(obj)))
    broken = _replaced(obj, place, data.draw(_VALUES))
    asyncio.run(_try(plural, broken, namespace))
