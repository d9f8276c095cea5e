"""Finding out what a cluster keeps of a claim."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kube.client import Client
from kube.config import ClientConfig
from kube.errors import NotFoundError
from tests.fakes.api_server import ServerThread, serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer
from tests.patience import eventually
from tests.webhook.viewing import names
from webhook.mode import Mode, ModeProbe, probe

TEMPLATES = "resourceclaimtemplates"


@contextmanager
def probing(client: Client, setting: Any = "auto", **options: Any) -> Iterator[ModeProbe]:
    """Run a probe."""
    made = ModeProbe(
        client, namespace="default", setting=setting, **({"first_retry_s": 0.01} | options)
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()
        client.close()


def asked(server: ServerThread) -> int:
    """Return how often the server was asked."""
    return sum(TEMPLATES in each.path for each in server.server.requests)


@pytest.mark.parametrize(
    ("version", "mode"),
    [("1.34", Mode.HAMI), ("1.35", Mode.HAMI), ("1.36", Mode.DRA), ("1.37", Mode.DRA)],
)
def test_a_server_is_asked_what_it_would_keep(version: str, mode: Mode) -> None:
    """Nothing is stored by asking."""
    with serving(version) as server, probing(server.client()) as found:
        eventually(lambda: found.mode() is mode)
        assert found.problem() is None
        assert names(server, TEMPLATES) == []
        assert asked(server) == 1


def test_an_older_server_with_the_gate_keeps_amounts() -> None:
    """It is not the version that counts."""
    with serving("1.34") as server:
        gates = frozenset({"DRAConsumableCapacity"})
        server.call(server.server.set_version, "1.34", gates=gates)
        with probing(server.client()) as found:
            eventually(lambda: found.mode() is Mode.DRA)


def test_a_changed_server_is_noticed_when_asked_again() -> None:
    """The change is told with what was before, and shown as a metric."""
    told: list[tuple[Mode | None, Mode]] = []
    registry = CollectorRegistry()

    def shown() -> dict[str, float | None]:
        """Return the metric."""
        name = "gpuslice_webhook_mode"
        return {mode.value: registry.get_sample_value(name, {"mode": mode.value}) for mode in Mode}

    with (
        serving("1.34") as server,
        probing(
            server.client(), on_change=lambda *modes: told.append(modes), registry=registry
        ) as found,
    ):
        eventually(lambda: found.mode() is Mode.HAMI)
        eventually(lambda: shown() == {"dra": 0, "hami": 1})
        found.ask_again()
        eventually(lambda: asked(server) == 2)
        server.call(server.server.set_version, "1.36")
        found.ask_again()
        eventually(lambda: found.mode() is Mode.DRA)
        eventually(lambda: shown() == {"dra": 1, "hami": 0})
    assert told == [(None, Mode.HAMI), (Mode.HAMI, Mode.DRA)]


def test_it_is_asked_again_by_itself() -> None:
    """An upgrade need not break any connection."""
    with serving("1.34") as server, probing(server.client(), again_s=0.02) as found:
        eventually(lambda: found.mode() is Mode.HAMI)
        server.call(server.server.set_version, "1.37")
        eventually(lambda: found.mode() is Mode.DRA)


@pytest.mark.parametrize("status", [403, 409, 429, 500])
def test_without_an_answer_nothing_is_known(status: int) -> None:
    """The probe says why, and goes on until there is one."""
    with serving() as server:
        server.call(server.server.fail_next, 10_000, status, path_part=TEMPLATES)
        with probing(server.client()) as found:
            eventually(lambda: str(status) in (found.problem() or ""))
            assert found.mode() is None
            server.call(server.server.clear_faults)
            eventually(lambda: found.mode() is Mode.DRA)


def test_a_failure_keeps_what_was_known() -> None:
    """A server that is away does not turn claims off."""
    with serving() as server, probing(server.client()) as found:
        eventually(lambda: found.mode() is Mode.DRA)
        server.run(server.server.pause())
        found.ask_again()
        eventually(lambda: found._backoff.failures > 1)
        assert found.mode() is Mode.DRA
        assert found.problem() is None


@contextmanager
def scripted(script: Callable[[Request, Exchange], None]) -> Iterator[Client]:
    """Return a client for a server that follows *script*."""
    with ScriptedServer(script) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)
        yield client
        client.close()


def test_a_server_without_the_kind_takes_hamis_path() -> None:
    """The group's version is not there either."""

    def old(_request: Request, exchange: Exchange) -> None:
        exchange.send(404, b"404 page not found\n", {"Content-Type": "text/plain"})

    with scripted(old) as client:
        assert probe(client, "default") is Mode.HAMI


def test_a_missing_namespace_says_nothing_about_the_kind() -> None:
    """It is an error, so that the last answer holds."""
    with serving() as server:
        client = server.client()
        with pytest.raises(NotFoundError, match="nowhere"):
            probe(client, "nowhere")
        client.close()


@pytest.mark.parametrize("answer", ["[]", "{}", '{"spec":{"spec":{"devices":{"requests":[]}}}}'])
def test_an_answer_of_nonsense_is_no_answer(answer: str) -> None:
    """Nothing is known then."""

    def odd(_request: Request, exchange: Exchange) -> None:
        exchange.send(200, answer.encode())

    with scripted(odd) as client, probing(client) as found:
        eventually(lambda: "Error" in (found.problem() or ""))
        assert found.mode() is None


@pytest.mark.parametrize("mode", list(Mode))
def test_a_given_mode_asks_nobody(mode: Mode) -> None:
    """The administrator's word holds at once."""
    before = threading.active_count()
    with serving("1.34") as server, probing(server.client(), mode.value) as found:
        assert found.mode() is mode
        assert found.problem() is None
        found.ask_again()
        assert asked(server) == 0
    assert threading.active_count() <= before
