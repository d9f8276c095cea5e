"""What kubectl asks for beyond objects: tables to print and a word about validation."""

from typing import Any

import aiohttp
import pytest

from sim.apiserver.json_values import JsonObject
from sim.apiserver.tables import table
from tests.sim.apiserver.builders import (
    PODS,
    Served,
    allocation,
    claim,
    consumer,
    device,
    pod,
    resource_slice,
    served,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def _table(at: Served, path: str) -> JsonObject:
    async with at.wire.session.get(path, headers={"Accept": TABLE}) as response:
        assert response.status == 200
        answer: JsonObject = await response.json()
        return answer


def _cells(answer: JsonObject) -> list[dict[str, Any]]:
    titles = [column["name"] for column in answer["columnDefinitions"]]
    return [dict(zip(titles, row["cells"], strict=True)) for row in answer["rows"]]


def test_lists_come_as_tables_when_asked() -> None:
    """A client that prefers a Table gets rows with the metadata of their objects."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(PODS, pod())
        answer = await _table(at, PODS)
        assert answer["kind"] == "Table"
        assert _cells(answer)[0] | {"Age": ""} == {
            "Name": "pod",
            "Ready": "0/1",
            "Status": "Pending",
            "Restarts": "0",
            "Age": "",
            "IP": "<none>",
            "Node": "<none>",
            "Nominated Node": "<none>",
            "Readiness Gates": "<none>",
        }
        assert answer["rows"][0]["object"]["metadata"] == made["metadata"]
        assert _cells(await _table(at, f"{PODS}/pod"))[0]["Name"] == "pod"
        _, listed = await at.wire.get(PODS)
        assert listed["kind"] == "PodList"

    served(scene)


@pytest.mark.parametrize(
    ("plural", "item", "expected"),
    [
        ("resourceslices", resource_slice(device()), {"Node": "node-a", "Pool": "node-a"}),
        ("resourceclaims", claim(), {"State": "pending"}),
        (
            "resourceclaims",
            {
                **claim(),
                "metadata": {"name": "claim", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"allocation": allocation(), "reservedFor": [consumer()]},
            },
            {"State": "deleted,allocated,reserved"},
        ),
        (
            "nodes",
            {
                "metadata": {"name": "n"},
                "spec": {},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
            {"Status": "Ready", "Version": ""},
        ),
        (
            "pods",
            {
                **pod(),
                "status": {
                    "containerStatuses": [
                        {"ready": True, "state": {"waiting": {"reason": "ContainerCreating"}}}
                    ]
                },
            },
            {"Ready": "1/1", "Status": "ContainerCreating"},
        ),
        (
            "events",
            {
                "metadata": {"name": "e"},
                "reason": "Failed",
                "involvedObject": {"kind": "Pod", "name": "p"},
            },
            {"Object": "pod/p", "Reason": "Failed", "Message": "<none>"},
        ),
        ("deviceclasses", {"metadata": {"name": "c"}}, {"Name": "c"}),
    ],
)
def test_columns_tell_what_matters(plural: str, item: JsonObject, expected: dict[str, str]) -> None:
    """Each resource has the columns by which it is judged."""
    created = {"creationTimestamp": "2020-01-01T00:00:00Z"}
    dated = {**item, "metadata": {**item["metadata"], **created}}
    (cells,) = _cells(table(plural, [dated], {}))
    assert cells | expected == cells
    assert cells["Age"].endswith("d")


def test_kubectl_learns_that_the_server_validates() -> None:
    """The OpenAPI document says for each kind that PATCH takes `fieldValidation`."""

    async def scene(at: Served) -> None:
        _, index = await at.wire.get("/openapi/v3")
        _, found = await at.wire.get(index["paths"]["apis/resource.k8s.io/v1"]["serverRelativeURL"])
        path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
        patch = found["paths"][path]["patch"]
        assert patch["x-kubernetes-group-version-kind"]["kind"] == "ResourceClaim"
        assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
        assert (await at.wire.get("/openapi/v3/apis/none/v1"))[0] == 404
        async with aiohttp.ClientSession(at.server.url) as session:
            assert (await session.get("/openapi/v3")).status == 401

    served(scene)
