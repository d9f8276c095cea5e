"""A client that speaks `v1` with servers of other versions of `resource.k8s.io`."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kube.client import MERGE_PATCH
from kube.config import ClientConfig
from kube.draversions import ApiVersionChoice, ServedVersion, VersionedClient
from kube.errors import (
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotServedError,
    ServerError,
    UntranslatableError,
    api_error,
)
from kube.paths import nodes, resource_claims, resource_slices
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

GROUP = "/apis/resource.k8s.io"
DEVICE = {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-0"}}}
OLD_DEVICE = {"name": "gpu-0", "basic": {"attributes": {"uuid": {"string": "GPU-0"}}}}


def a_slice(version: str, device: dict[str, Any]) -> dict[str, Any]:
    """Build a slice of *version* with one device."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"devices": [device]},
    }


SLICE = a_slice("v1", DEVICE)
OLDER = {"v1beta2": a_slice("v1beta2", DEVICE), "v1beta1": a_slice("v1beta1", OLD_DEVICE)}


class DraServer:
    """Serves the group in some *versions*; `answer` says what is at the paths of these."""

    def __init__(self, *versions: str) -> None:
        self.versions = list(versions)
        self.claimed: list[str] | None = None
        """Versions that the group's document names, when these are others."""
        self.trouble: int | None = None
        """What the group's document is answered with instead."""
        self.answer: Callable[[Request, Exchange], None] = lambda request, exchange: exchange.json(
            request.json() if request.body else {"metadata": {"resourceVersion": "1"}, "items": []}
        )
        self.server = ScriptedServer(self._script)

    def _script(self, request: Request, exchange: Exchange) -> None:
        if request.path == GROUP:
            self._group(exchange)
        elif request.path.startswith(f"{GROUP}/"):
            version = request.path.removeprefix(f"{GROUP}/").partition("/")[0]
            if version in self.versions:
                self.answer(request, exchange)
            else:
                self._unserved(exchange)
        else:
            exchange.json({"kind": "Node"})

    def _group(self, exchange: Exchange) -> None:
        named = self.versions if self.claimed is None else self.claimed
        if self.trouble is not None:
            exchange.status(self.trouble, "Trouble")
        elif not named:
            self._unserved(exchange)
        else:
            exchange.json({"kind": "APIGroup", "versions": [{"version": each} for each in named]})

    def _unserved(self, exchange: Exchange) -> None:
        # The API server's own words, for a path of a group that it knows and of one that it lacks.
        if self.versions:
            exchange.status(404, "NotFound", "the server could not find the requested resource")
        else:
            plain = {"Content-Type": "text/plain; charset=utf-8"}
            exchange.send(404, b"404 page not found\n", plain)

    def asked(self) -> list[tuple[str, str]]:
        """Return method and path, without the group's, of each request so far."""
        return [
            (each.method, each.path.removeprefix(GROUP).removeprefix("/"))
            for each in self.server.requests
        ]


@contextmanager
def speaking(
    server: DraServer,
    choice: ApiVersionChoice = "auto",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[VersionedClient, DraServer]]:
    """Run *server* with a client for it."""
    with server.server:
        config = ClientConfig(host=server.server.url)
        client = VersionedClient(config, user_agent="test", api_version=choice, clock=clock)
        try:
            yield client, server
        finally:
            client.close()


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


def test_none_served_is_said_and_asked_again() -> None:
    """Without any version the error names the remedy, once in the log, until there is one."""
    with speaking(DraServer()) as (client, server), capture_logs() as logged:
        for _ in range(2):
            with pytest.raises(NotServedError, match=r"use Kubernetes 1\.34 or newer"):
                client.get(resource_claims("ns", "c"))
        problem = client.dra_problem()
        assert problem == (
            "resource.k8s.io is not served by this API server; enable DynamicResourceAllocation "
            "and --runtime-config or use Kubernetes 1.34 or newer"
        )
        server.versions = ["v1beta1"]
        client.get(resource_slices())
        assert client.dra_problem() is None
    assert [each["event"] for each in logged] == [
        "API not served",
        "API version chosen",
        "API served again",
    ]
    assert server.asked() == [("GET", "")] * 3 + [("GET", "v1beta1/resourceslices")]


def test_an_alpha_version_alone_is_none() -> None:
    """A server that has only v1alpha3 serves nothing that can be spoken."""
    with speaking(DraServer("v1alpha3")) as (client, _), pytest.raises(NotServedError):
        client.get(resource_slices())


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class Document:
    """The group's document of a server that changes; it counts the questions."""

    def __init__(self, *versions: str) -> None:
        self.versions: tuple[str, ...] = versions
        self.failure: KubeError | None = None
        self.questions = 0

    def __call__(self) -> bytes:
        """Answer as the server does."""
        self.questions += 1
        if self.failure is not None:
            raise self.failure
        if not self.versions:
            raise api_error(404, b"404 page not found\n")
        return json.dumps({"versions": [{"version": each} for each in self.versions]}).encode()


def test_a_changed_control_plane_is_noticed() -> None:
    """A path that is gone leads to one question, and the request is done in the version found."""
    document, clock = Document("v1beta1"), Clock()
    served = ServedVersion(document, clock=clock)
    assert served.current() == "v1beta1"
    clock.now_s += 60
    document.versions = ("v1", "v1beta2")
    assert served.instead_of("v1beta1") == "v1"
    # A request that was under way meanwhile.
    assert served.instead_of("v1beta1") == "v1"
    assert document.questions == 2


def test_a_burst_of_failures_asks_once() -> None:
    """A server that names a version and does not serve it is asked every few seconds at most."""
    document, clock = Document("v1"), Clock()
    served = ServedVersion(document, clock=clock)
    served.current()
    clock.now_s += 60
    for _ in range(5):
        with pytest.raises(NotServedError, match=r"resource\.k8s\.io/v1 is not served"):
            served.instead_of("v1")
    assert document.questions == 2
    clock.now_s += 6
    document.versions = ("v1beta2",)
    assert served.instead_of("v1") == "v1beta2"


def test_an_older_version_is_asked_about_now_and_then() -> None:
    """After ten minutes the server may have something newer; v1 is never asked about."""
    document, clock = Document("v1beta1"), Clock()
    served = ServedVersion(document, clock=clock)
    served.current()
    clock.now_s += 599
    document.versions = ("v1beta1", "v1")
    assert served.current() == "v1beta1"
    clock.now_s += 1
    assert served.current() == "v1"
    clock.now_s += 10_000
    assert served.current() == "v1"
    assert document.questions == 2


def test_a_failing_question_does_not_lose_what_is_known() -> None:
    """When the server does not answer, the version that worked so far is kept."""
    document, clock = Document("v1beta2"), Clock()
    served = ServedVersion(document, clock=clock)
    served.current()
    clock.now_s += 601
    document.failure = ConnectionFailedError("no answer")
    assert served.current() == "v1beta2"
    assert served.current() == "v1beta2"
    assert document.questions == 2


def test_no_version_is_guessed_while_the_server_is_silent() -> None:
    """The first question's failure is the caller's failure."""
    document = Document()
    document.failure = ServerError(503, "ServiceUnavailable", "starting")
    served = ServedVersion(document)
    with pytest.raises(ServerError):
        served.current()
    document.failure, document.versions = None, ("v1beta1",)
    assert served.current() == "v1beta1"


def test_v1_is_assumed_where_nobody_may_ask() -> None:
    """Clusters that forbid discovery are spoken to in v1."""
    document = Document()
    document.failure = ForbiddenError(403, "Forbidden", "no discovery")
    assert ServedVersion(document).current() == "v1"


def test_a_strange_document_is_no_answer() -> None:
    """A proxy that answers with a page does not make the driver believe that nothing is served."""
    for text in (b"<html>", b"[]", b'{"versions": 1}', b'{"versions": [{}]}'):
        with pytest.raises(ConnectionFailedError):
            ServedVersion(lambda text=text: text).current()  # type: ignore[misc]


def test_the_control_plane_changes_under_requests() -> None:
    """A client that spoke v1beta1 speaks v1 when the server does, and does not fail in between."""
    clock = Clock()
    with speaking(DraServer("v1beta1"), clock=clock) as (client, server):
        client.get(resource_slices())
        clock.now_s += 60
        server.versions = ["v1"]
        client.create(resource_slices(), SLICE)
    assert server.asked()[-3:] == [
        ("POST", "v1beta1/resourceslices"),
        ("GET", ""),
        ("POST", "v1/resourceslices"),
    ]
    assert server.server.requests[-1].json() == SLICE


def test_a_chosen_version_is_spoken_without_a_question() -> None:
    """The setting decides; a server without it is an error that says so."""
    with speaking(DraServer("v1beta1", "v1"), "v1beta1") as (client, server):
        client.create(resource_slices(), SLICE)
        assert server.asked() == [("POST", "v1beta1/resourceslices")]
        server.versions = ["v1"]
        with pytest.raises(NotServedError, match=r"v1beta1 is not served .* chosen by a setting"):
            client.get(resource_slices())
        assert ("GET", "") not in server.asked()
        assert "chosen by a setting" in (client.dra_problem() or "")
        server.versions = ["v1beta1"]
        client.get(resource_slices())
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
