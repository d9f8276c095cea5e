"""The client against a real server over plain HTTP and TLS."""

import threading

import pytest

from kube.client import JSON_PATCH, MERGE_PATCH, Client
from kube.config import ClientConfig
from kube.errors import (
    ApiError,
    ConfigError,
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer, status


def client_of(url: str, *, timeout_s: float = 5.0, **settings: object) -> Client:
    """Build a client for *url*."""
    return Client(
        ClientConfig(host=url, **settings),  # type: ignore[arg-type]
        user_agent="gpuslice-test/1",
        timeout_s=timeout_s,
    )


def say_ok(_request: Request, exchange: Exchange) -> None:
    """Answer everything with an empty object."""
    exchange.json({})


def test_a_get_returns_raw_bytes_and_says_who_asks() -> None:
    """The body comes back unchanged; query, agent and token go out."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.send(200, b'{"a": 1 }')

    with ScriptedServer(script) as server:
        client = client_of(server.url, token=lambda: "s3cret")
        body = client.get("/api/v1/pods", {"fieldSelector": "spec.nodeName=n 1"})
        client.close()
    (request,) = server.requests
    assert body == b'{"a": 1 }'
    assert request.query == {"fieldSelector": "spec.nodeName=n 1"}
    assert request.headers["User-Agent"] == "gpuslice-test/1"
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert request.headers["Accept"] == "application/json"


def test_requests_share_one_connection() -> None:
    """A second request goes over the connection of the first."""
    with ScriptedServer(say_ok) as server:
        client = client_of(server.url)
        for _ in range(5):
            client.get("/x")
        server.script = lambda _, exchange: exchange.status(404, "NotFound")
        with pytest.raises(NotFoundError):
            client.get("/x")
        server.script = say_ok
        client.get("/x")
        client.close()
    assert (len(server.requests), server.connections) == (7, 1)


def test_writes_send_compact_json_with_their_content_type() -> None:
    """Each verb carries its body, type and query."""
    with ScriptedServer(say_ok) as server:
        client = client_of(server.url)
        client.create("/c", {"a": [1, 2]}, {"fieldManager": "m"})
        client.replace("/r", {"b": 1})
        client.patch("/m", {"c": None}, content_type=MERGE_PATCH)
        client.patch("/j", [{"op": "remove", "path": "/x"}], content_type=JSON_PATCH)
        client.close()
    create, replace, merge, patch = server.requests
    assert (create.method, create.body) == ("POST", b'{"a":[1,2]}')
    assert create.headers["Content-Type"] == "application/json"
    assert create.query == {"fieldManager": "m"}
    assert (replace.method, replace.body) == ("PUT", b'{"b":1}')
    assert (merge.method, merge.headers["Content-Type"]) == ("PATCH", MERGE_PATCH)
    assert merge.body == b'{"c":null}'
    assert patch.headers["Content-Type"] == JSON_PATCH
    assert patch.json() == [{"op": "remove", "path": "/x"}]


def test_a_delete_names_its_preconditions() -> None:
    """UID and resource version go into the body, and only when they are given."""
    with ScriptedServer(say_ok) as server:
        client = client_of(server.url)
        client.delete("/d")
        client.delete("/d", uid="u", resource_version="7")
        client.close()
    bare, exact = server.requests
    assert bare.json() == {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert exact.json()["preconditions"] == {"uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, InvalidError),
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (422, InvalidError),
        (429, TooManyRequestsError),
        (500, ServerError),
        (503, ServerError),
        (418, ApiError),
        (302, ApiError),
    ],
)
def test_each_failure_has_its_error(code: int, kind: type[ApiError]) -> None:
    """A `Status` answer becomes the error of its code with reason and message."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.json(status(code, "Because", "it is so"), code, {"Location": "/elsewhere"})

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        with pytest.raises(ApiError) as caught:
            client.get("/x")
        client.close()
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (code, "Because")
    assert str(caught.value) == f"{code} Because: it is so"
    assert len(server.requests) == 1


def test_a_busy_server_says_when_to_come_back() -> None:
    """The wish is read from the header and, before it, from the details."""
    with ScriptedServer(say_ok) as server:
        client = client_of(server.url)
        server.script = lambda _, exchange: exchange.send(429, b"busy", {"Retry-After": "3"})
        with pytest.raises(TooManyRequestsError) as by_header:
            client.get("/x")
        server.script = lambda _, exchange: exchange.status(429, "Busy", retryAfterSeconds=7)
        with pytest.raises(TooManyRequestsError) as by_details:
            client.get("/x")
        client.close()
    assert (by_header.value.retry_after_s, by_details.value.retry_after_s) == (3, 7)


def test_a_foreign_answer_is_cut_short() -> None:
    """The page of some proxy does not fill the log."""
    with ScriptedServer(lambda _, exchange: exchange.send(502, b"\xff<html>" * 500)) as server:
        client = client_of(server.url)
        with pytest.raises(ServerError) as caught:
            client.get("/x")
        client.close()
    assert len(caught.value.message) == 256
    assert caught.value.reason == "Unknown"


def test_a_refused_connection_is_a_connection_failure() -> None:
    """No listener, no answer."""
    with ScriptedServer(say_ok) as server:
        url = server.url
    client = client_of(url)
    with pytest.raises(ConnectionFailedError, match="GET /x"):
        client.get("/x")
    client.close()


def test_a_silent_server_is_a_connection_failure() -> None:
    """A read ends with the timeout."""
    with ScriptedServer(lambda _, exchange: exchange.hold()) as server:
        client = client_of(server.url, timeout_s=0.5)
        with pytest.raises(ConnectionFailedError):
            client.get("/x")
        client.close()
    assert len(server.requests) == 1


def test_a_get_is_repeated_once_when_the_server_had_hung_up() -> None:
    """A kept-alive connection that closes under a GET does not fail the caller."""

    def script(_request: Request, exchange: Exchange) -> None:
        if len(server.requests) == 2:
            exchange.cut()
        else:
            exchange.json({})

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        client.get("/first")
        assert client.get("/second") == b"{}"
        client.close()
    assert [request.path for request in server.requests] == ["/first", "/second", "/second"]


def test_a_get_is_not_repeated_twice() -> None:
    """A server that always hangs up is reported."""
    with ScriptedServer(lambda _, exchange: exchange.cut()) as server:
        client = client_of(server.url)
        with pytest.raises(ConnectionFailedError):
            client.get("/x")
        client.close()
    assert len(server.requests) == 2


def test_a_write_is_never_repeated() -> None:
    """Whether the server carried it out is unknown."""
    with ScriptedServer(lambda _, exchange: exchange.cut()) as server:
        client = client_of(server.url)
        with pytest.raises(ConnectionFailedError):
            client.create("/x", {})
        client.close()
    assert len(server.requests) == 1


def test_a_path_in_the_host_goes_before_every_path() -> None:
    """Clusters behind a gateway have one."""
    with ScriptedServer(say_ok) as server:
        client = client_of(server.url + "/k8s/clusters/c-1/")
        client.get("/version")
        client.close()
    assert server.requests[0].path == "/k8s/clusters/c-1/version"


def test_the_server_version_is_its_git_version() -> None:
    """`/version` is asked."""
    with ScriptedServer(lambda _, exchange: exchange.json({"gitVersion": "v1.36.2"})) as server:
        client = client_of(server.url)
        assert client.server_version() == "v1.36.2"
        client.close()


@pytest.mark.parametrize("host", ["10.0.0.1:443", "ftp://x", "https://"])
def test_a_host_without_a_scheme_is_refused(host: str) -> None:
    """The message names the host."""
    with pytest.raises(ConfigError, match="no address of an API server"):
        client_of(host)


def test_many_threads_may_ask_at_once() -> None:
    """More threads than kept connections all get their own answer."""

    def script(request: Request, exchange: Exchange) -> None:
        exchange.send(200, request.path.encode())

    answers: dict[int, bytes] = {}
    with ScriptedServer(script) as server:
        client = client_of(server.url)

        def ask(number: int) -> None:
            answers[number] = client.get(f"/{number}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
    assert answers == {number: f"/{number}".encode() for number in range(24)}
