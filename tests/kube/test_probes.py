"""Probes and metrics over HTTP."""

import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter

from kube.probes import Check, ProbeServer


@contextmanager
def probing(
    checks: Mapping[str, Check],
    ready_checks: Mapping[str, Check] | None = None,
    registry: CollectorRegistry | None = None,
    address: str = "127.0.0.1",
) -> Iterator[ProbeServer]:
    """Run a server on a free port."""
    server = ProbeServer(address, 0, checks, ready_checks=ready_checks, registry=registry)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(server: ProbeServer, path: str, address: str = "127.0.0.1") -> tuple[int, str, str]:
    """Return status, content type and body."""
    connection = http.client.HTTPConnection(address, server.port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        return response.status, response.headers["Content-Type"], body
    finally:
        connection.close()


def well() -> None:
    """Find nothing wrong."""


def broken() -> None:
    """Raise."""
    message = "socket does not answer"
    raise OSError(message)


def silent() -> None:
    """Raise without a word."""
    raise TimeoutError


def test_all_is_well_when_all_checks_are() -> None:
    """One line for each."""
    with probing({"registration": well, "plugin": well}) as server:
        assert ask(server, "/healthz") == (
            200,
            "text/plain; charset=utf-8",
            "registration: ok\nplugin: ok\n",
        )


def test_a_failed_check_is_named_beside_the_others() -> None:
    """Returned sentences and raised errors say what is wrong."""
    checks: dict[str, Check] = {
        "a": broken,
        "b": lambda: "not synced yet",
        "c": well,
        "d": silent,
    }
    with probing(checks) as server:
        status, _, body = ask(server, "/healthz?verbose=1")
    assert status == 503
    assert body.splitlines() == [
        "a: failed: socket does not answer",
        "b: failed: not synced yet",
        "c: ok",
        "d: failed: TimeoutError",
    ]


def test_readiness_asks_for_more_than_health() -> None:
    """A program that only waits is alive but not ready."""
    with probing({"alive": well}, {"synced": lambda: "not yet"}) as server:
        assert ask(server, "/healthz")[0] == 200
        assert ask(server, "/readyz")[0] == 503
        assert ask(server, "/readyz")[2] == "alive: ok\nsynced: failed: not yet\n"


def test_no_checks_are_no_failure() -> None:
    """The body says so."""
    with probing({}) as server:
        assert ask(server, "/healthz")[2] == "ok\n"


def test_metrics_come_from_the_given_registry() -> None:
    """In the text format that Prometheus asks for by default."""
    registry = CollectorRegistry()
    Counter("prepared", "Prepared claims.", registry=registry).inc(3)
    with probing({}, registry=registry) as server:
        status, content_type, body = ask(server, "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain")
    assert "prepared_total 3.0" in body


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz/x", "/../etc/passwd"])
def test_other_paths_are_not_found(path: str) -> None:
    """Metrics without a registry are another path."""
    with probing({}) as server:
        assert ask(server, path)[0] == 404


def test_the_answer_does_not_name_the_interpreter() -> None:
    """The server's header is our name alone."""
    with probing({}) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        assert response.headers["Server"] == "gpuslice"
        response.read()
        connection.close()


def test_a_client_that_says_nothing_holds_nobody_up() -> None:
    """Each connection has a thread of its own."""
    with probing({}) as server, socket.create_connection(("127.0.0.1", server.port)):
        assert ask(server, "/healthz")[0] == 200


def test_ipv6_works() -> None:
    """An address with colons binds that family."""
    with probing({}, address="::1") as server:
        assert ask(server, "/healthz", "::1")[0] == 200


def test_a_taken_port_is_an_error_and_a_stopped_server_frees_it() -> None:
    """Binding happens before anything starts."""
    first = ProbeServer("127.0.0.1", 0, {})
    with pytest.raises(OSError, match="in use"):
        ProbeServer("127.0.0.1", first.port, {})
    port = first.port
    first.stop()
    second = ProbeServer("127.0.0.1", port, {})
    assert second.port == port
    second.stop()


def test_metrics_tell_which_conditions_hold() -> None:
    """By name, asked at each scrape; what only tells life is left out."""
    registry = CollectorRegistry()
    with probing({"loop": well}, {"kubelet": well, "slices": broken}, registry) as server:
        body = ask(server, "/metrics")[2]
    found = [line for line in body.splitlines() if line.startswith("gpuslice_check_success")]
    assert found == [
        'gpuslice_check_success{check="kubelet"} 1.0',
        'gpuslice_check_success{check="slices"} 0.0',
    ]
