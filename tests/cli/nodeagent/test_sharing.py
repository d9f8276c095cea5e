"""What an API server says of shares, and how often it is asked."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from cli.nodeagent.mode import LABEL, ModeError
from cli.nodeagent.sharing import SharesKept, keeps_shares
from gpu.names import DRIVER
from kube.client import Client
from kube.config import ClientConfig
from kube.draversions import VersionedClient
from sim.apiserver.versions import CONSUMABLE_CAPACITY
from tests.fakes.api_server import ServerThread, serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

NODE: dict[str, Any] = {"metadata": {"name": "node-a", "uid": "uid-a"}}
SLICES = "resourceslices"
ON = frozenset({CONSUMABLE_CAPACITY})
OFF = frozenset[str]()


@contextmanager
def asking(version: str = "1.37") -> Iterator[tuple[ServerThread, Client]]:
    """Run a server and a client of it."""
    with serving(version) as server, closing(server.client()) as client:
        yield server, client


def asked(server: ServerThread) -> int:
    """Return how often the server was asked what it keeps."""
    return sum(each.verb == "create" and SLICES in each.path for each in server.server.requests)


@pytest.mark.parametrize(
    ("version", "gates", "kept"),
    [
        ("1.34", None, False),
        ("1.35", OFF, False),
        ("1.35", ON, True),
        ("1.36", None, True),
        ("1.37", None, True),
        ("1.37", OFF, False),
    ],
)
def test_the_server_is_asked_and_not_its_version(
    version: str, gates: frozenset[str] | None, *, kept: bool
) -> None:
    """Gates count, and nothing is stored by asking."""
    with asking() as (server, client):
        server.call(server.server.set_version, version, gates=gates)
        assert keeps_shares(client, NODE) is kept
        assert server.run(server.server.api.list(SLICES))[0] == []


@pytest.mark.parametrize("kind", [Client, VersionedClient])
def test_a_server_without_claims_keeps_no_shares(kind: type[Client]) -> None:
    """Releases before 1.34 do not serve the kind."""

    def old(_request: Request, exchange: Exchange) -> None:
        exchange.send(404, b"404 page not found\n", {"Content-Type": "text/plain"})

    with (
        ScriptedServer(old) as server,
        closing(kind(ClientConfig(host=server.url), user_agent="test", timeout_s=5)) as client,
    ):
        assert keeps_shares(client, NODE) is False


@pytest.mark.parametrize("status", [401, 403, 409, 422, 429, 500, 503])
def test_a_refusal_says_nothing(status: int) -> None:
    """The sentence has the server's words, and what an administrator can do."""
    with asking() as (server, client):
        server.call(server.server.fail_next, 1, status)
        with pytest.raises(ModeError, match=f"no label {LABEL}.*{status}"):
            keeps_shares(client, NODE)


@pytest.mark.parametrize("answer", ["no JSON", "[]", "{}", '{"spec": 3}'])
def test_an_answer_of_nonsense_says_nothing(answer: str) -> None:
    """It is not taken for one that drops fields."""

    def odd(_request: Request, exchange: Exchange) -> None:
        exchange.send(200, answer.encode())

    with (
        ScriptedServer(odd) as server,
        closing(Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)) as client,
        pytest.raises(ModeError, match="does not say"),
    ):
        keeps_shares(client, NODE)


def test_the_slice_on_trial_is_one_that_an_agent_may_write() -> None:
    """The policy for slices admits those of the own driver and node only, and a dry run too."""
    seen: list[dict[str, Any]] = []

    def echo(request: Request, exchange: Exchange) -> None:
        assert request.query["dryRun"] == "All"
        seen.append(json.loads(request.body))
        exchange.send(201, request.body)

    with (
        ScriptedServer(echo) as server,
        closing(Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)) as client,
    ):
        assert keeps_shares(client, NODE)
    ((driver, node),) = [(each["spec"]["driver"], each["spec"]["nodeName"]) for each in seen]
    assert (driver, node) == (DRIVER, "node-a")


def test_an_answer_is_good_for_a_while() -> None:
    """Looking often asks seldom."""
    with asking() as (server, client):
        shares = SharesKept(client, least_s=0)
        assert {shares.look(NODE) for _ in range(20)} == {True}
        assert asked(server) == 1


def test_a_new_connection_has_it_asked_again() -> None:
    """A control plane that was updated is noticed."""
    with asking("1.35") as (server, client):
        shares = SharesKept(client, least_s=0)
        assert shares.look(NODE) is False
        server.call(server.server.set_version, "1.36")
        assert shares.look(NODE) is False
        shares.reconnected()
        assert shares.look(NODE) is True
        assert shares.look(NODE) is True
        assert asked(server) == 2


def test_connections_that_come_and_go_do_not_have_it_asked_all_the_time() -> None:
    """There is a least time between two questions."""
    with asking() as (server, client):
        shares = SharesKept(client, least_s=1000)
        for _ in range(5):
            shares.reconnected()
            assert shares.look(NODE) is True
        assert asked(server) == 1


def test_it_is_asked_again_by_itself() -> None:
    """Of several API servers, another one may have been updated than that of the watch."""
    with asking("1.35") as (server, client):
        shares = SharesKept(client, least_s=0, again_s=0)
        assert shares.look(NODE) is False
        server.call(server.server.set_version, "1.36")
        assert shares.look(NODE) is True


def test_what_was_said_holds_while_nothing_else_is_said() -> None:
    """A server that is away changes no node, and the log has one line for it."""
    with asking() as (server, client), capture_logs() as logs:
        shares = SharesKept(client, least_s=0, again_s=0)
        server.call(server.server.fail_next, 1000, 403)
        assert [shares.look(NODE) for _ in range(3)] == [None] * 3
        server.call(server.server.clear_faults)
        assert shares.look(NODE) is True
        server.call(server.server.fail_next, 1000, 503)
        assert [shares.look(NODE) for _ in range(3)] == [True] * 3
    told = [each["kept"] for each in logs if each["event"] == "server not asked for shares"]
    assert told == [None, True]
