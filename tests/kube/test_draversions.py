"""A client that speaks `v1` with servers of other versions of `resource.k8s.io`."""

import json

import pytest

from kube.client import MERGE_PATCH
from kube.errors import (
    ConflictError,
    NotFoundError,
    UntranslatableError,
)
from kube.paths import nodes, resource_claims, resource_slices
from tests.fakes.scripted_server import Exchange, Request
from tests.kube.speaking import OLDER, SLICE, DraServer, speaking


def test_v1_goes_through_as_it_is() -> None:
    """With a v1 server the answer's bytes are those of the server, and it is asked once."""
    odd = b'{ "items" : [], "metadata" : {} }'
    with speaking(DraServer("v1beta1", "v1", "v1beta2")) as (client, server):
        server.answer = lambda _request, exchange: exchange.send(200, odd)
        assert client.get(resource_slices()) == odd
        assert client.create(resource_slices(), SLICE) == odd
    assert server.asked() == [
        ("GET", ""),
        ("GET", "v1/resourceslices"),
        ("POST", "v1/resourceslices"),
    ]
    assert server.server.requests[-1].json() == SLICE


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_older_versions_are_spoken(version: str) -> None:
    """Bodies go out and answers come in in the server's version, at its paths."""
    with speaking(DraServer(version)) as (client, server):
        assert json.loads(client.create(resource_slices(), SLICE, {"dryRun": "All"})) == SLICE
        assert json.loads(client.replace(resource_slices("s"), SLICE)) == SLICE
        client.delete(resource_slices("s"), uid="u")
        server.answer = lambda _request, exchange: exchange.json({"items": [OLDER[version]]})
        assert json.loads(client.get(resource_slices(), {"limit": "1"})) == {"items": [SLICE]}
    requests = server.server.requests
    assert [each.json() for each in requests[1:3]] == [OLDER[version]] * 2
    assert requests[3].json()["preconditions"] == {"uid": "u"}
    assert (requests[1].query, requests[-1].query) == ({"dryRun": "All"}, {"limit": "1"})
    assert server.asked()[1:] == [
        ("POST", f"{version}/resourceslices"),
        ("PUT", f"{version}/resourceslices/s"),
        ("DELETE", f"{version}/resourceslices/s"),
        ("GET", f"{version}/resourceslices"),
    ]


def test_claims_of_a_namespace_are_translated() -> None:
    """A claim's path has its kind behind the namespace, whatever that is called."""
    claim = {"spec": {"devices": {"requests": [{"name": "one", "deviceClassName": "c"}]}}}
    with speaking(DraServer("v1beta1")) as (client, server):
        server.answer = lambda _request, exchange: exchange.json(claim)
        found = json.loads(client.get(resource_claims("resourceslices", "c", "status")))
    assert found["spec"]["devices"]["requests"] == [
        {"name": "one", "exactly": {"deviceClassName": "c"}}
    ]
    assert server.asked()[-1] == (
        "GET",
        "v1beta1/namespaces/resourceslices/resourceclaims/c/status",
    )


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_watches_are_translated_line_by_line(version: str) -> None:
    """Each line of an older server's watch is the line that a v1 server would have sent."""

    def stream(_request: Request, exchange: Exchange) -> None:
        exchange.stream()
        exchange.line({"type": "ADDED", "object": OLDER[version]})
        exchange.chunk(b"no JSON\n")
        exchange.end()

    with speaking(DraServer(version)) as (client, server):
        server.answer = stream
        with client.watch(resource_slices(), {"resourceVersion": "1"}, timeout_s=5) as watch:
            lines = list(watch)
    assert json.loads(lines[0]) == {"type": "ADDED", "object": SLICE}
    assert lines[1:] == [b"no JSON"]
    assert server.server.requests[-1].query == {"resourceVersion": "1", "watch": "true"}


def test_other_groups_are_not_touched() -> None:
    """For a Node nobody asks which versions of the DRA group there are."""
    with speaking(DraServer()) as (client, server):
        client.get(nodes("node-a"))
    assert [each.path for each in server.server.requests] == ["/api/v1/nodes/node-a"]


def test_a_missing_claim_is_no_missing_version() -> None:
    """A 404 about an object is passed on and leads to no question, however often it comes."""
    with speaking(DraServer("v1")) as (client, server):
        server.answer = lambda _request, exchange: exchange.status(404, "NotFound", "no such claim")
        for _ in range(3):
            with pytest.raises(NotFoundError):
                client.get(resource_claims("ns", "c"))
    assert [path for _, path in server.asked()].count("") == 1
    assert client.dra_problem() is None


def test_a_patch_is_not_half_translated() -> None:
    """A patch cannot be said in v1beta1, so it is refused before it is sent; v1beta2 takes it."""
    body = {"apiVersion": "resource.k8s.io/v1", "metadata": {"labels": {"a": "b"}}}
    with speaking(DraServer("v1beta1")) as (client, server):
        with pytest.raises(UntranslatableError, match="resourceslices cannot be said in"):
            client.patch(resource_slices("s"), body, content_type=MERGE_PATCH)
        assert server.asked() == [("GET", "")]
    with speaking(DraServer("v1beta2")) as (client, server):
        client.patch(resource_slices("s"), body, content_type=MERGE_PATCH)
    assert server.server.requests[-1].json()["apiVersion"] == "resource.k8s.io/v1beta2"


def test_errors_of_the_server_are_passed_on() -> None:
    """A conflict is one in every version, and shows that the version is served."""
    with speaking(DraServer("v1beta1")) as (client, server):
        server.answer = lambda _request, exchange: exchange.status(409, "Conflict", "changed")
        with pytest.raises(ConflictError):
            client.replace(resource_slices("s"), SLICE)


def test_an_answer_without_sense_is_left_to_the_caller() -> None:
    """Bytes that are no JSON object come through as they are."""
    with speaking(DraServer("v1beta1")) as (client, server):
        for text in (b"<html>", b"[1]"):
            server.answer = lambda _request, exchange, text=text: exchange.send(200, text)  # type: ignore[misc]
            assert client.get(resource_slices()) == text
