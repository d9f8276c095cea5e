"""Which version of `resource.k8s.io` is spoken, and when the server is asked about it again."""

import json

import pytest
from structlog.testing import capture_logs

from kube.draversions import ServedVersion
from kube.errors import (
    ConnectionFailedError,
    ForbiddenError,
    KubeError,
    NotServedError,
    ServerError,
    api_error,
)
from kube.paths import resource_claims, resource_slices
from tests.kube.speaking import SLICE, Clock, DraServer, speaking


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
