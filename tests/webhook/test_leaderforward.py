"""Tests of sending reviews on to the leader, over TLS to a real server."""

import asyncio
import ssl
import threading
from collections.abc import Callable

import pytest

from gpu.refusal import Refusal
from tests.patience import eventually
from tests.webhook.quotaworld import pod, review
from tests.webhook.serving import HOST, Served, served
from webhook.leaderforward import (
    LeaderForward,
    LeaderSilentError,
    body_of,
    is_forwarded,
    marked,
    refusals_in,
)
from webhook.review import ALLOWED, Review, Verdict, denied, read, write
from webhook.server import MUTATE_PATH, VALIDATE_PATH

ASKED = review(pod({"nvidia.com/gpu": 1}))
EXCEEDED = Refusal(
    code="QuotaExceeded",
    field="namespace",
    value="team-red",
    limit="quota q: limits.nvidia.com/gpu used 1, asked 1, limit 1",
    remedy="ask for less",
)


def ask(
    tls: Callable[[], ssl.SSLContext | None], address: str, *paths: str, timeout_s: float = 5.0
) -> list[tuple[Refusal, ...]]:
    """Ask the leader at *address* once for each of *paths*."""

    async def asking() -> list[tuple[Refusal, ...]]:
        forward = LeaderForward(identity="two", server_name=HOST, tls=tls, timeout_s=timeout_s)
        try:
            return [await forward(ASKED, path, address) for path in paths]
        finally:
            forward.close()

    return asyncio.run(asking())


def context_of(server: Served) -> Callable[[], ssl.SSLContext]:
    """Return what gives one context that trusts *server*."""
    context = server.client_context()
    return lambda: context


def test_what_is_sent_is_read_as_the_same_review() -> None:
    """But for the mark, by which it is not sent on again."""
    sent = read(body_of(marked(ASKED, "two")))
    assert sent == marked(ASKED, "two")
    assert is_forwarded(sent)
    assert not is_forwarded(ASKED)


def test_the_leader_decides_at_the_same_path() -> None:
    """A yes is no refusal, a no reads as the leader said it, and the connection is kept."""
    asked: list[tuple[str, Review]] = []

    async def mutate(each: Review) -> Verdict:
        asked.append((MUTATE_PATH, each))
        return ALLOWED

    async def validate(each: Review) -> Verdict:
        asked.append((VALIDATE_PATH, each))
        return denied(str(EXCEEDED))

    with served(mutate, validate) as server:
        address = f"{HOST}:{server.port}"
        yes, no = ask(context_of(server), address, MUTATE_PATH, VALIDATE_PATH)
    assert yes == ()
    assert [(refusal.code, str(refusal)) for refusal in no] == [("QuotaExceeded", str(EXCEEDED))]
    assert asked == [(path, marked(ASKED, "two")) for path in (MUTATE_PATH, VALIDATE_PATH)]


def test_a_server_that_nobody_vouches_for_is_not_asked() -> None:
    """Its certificate must come from our authority and bear the name of the Service."""
    with served() as server:
        address = f"{HOST}:{server.port}"
        with pytest.raises(LeaderSilentError):
            ask(ssl.create_default_context, address, MUTATE_PATH)
        context = server.client_context()

        async def asking() -> None:
            forward = LeaderForward(
                identity="two", server_name="other.example", tls=lambda: context, timeout_s=5
            )
            try:
                await forward(ASKED, MUTATE_PATH, address)
            finally:
                forward.close()

        with pytest.raises(LeaderSilentError):
            asyncio.run(asking())


def test_who_ends_asks_nobody_any_more() -> None:
    """Threads and connections end, and a question that comes too late has an answer."""

    async def asking() -> None:
        forward = LeaderForward(
            identity="ending", server_name=HOST, tls=context_of(server), timeout_s=5
        )
        assert await forward(ASKED, MUTATE_PATH, f"{HOST}:{server.port}") == ()
        started.update(each for each in threading.enumerate() if each.name.startswith("to-leader"))
        forward.close()
        with pytest.raises(LeaderSilentError, match="this replica ends"):
            await forward(ASKED, MUTATE_PATH, f"{HOST}:{server.port}")

    before = set(threading.enumerate())
    started: set[threading.Thread] = set()
    with served() as server:
        asyncio.run(asking())
        assert started - before
        eventually(lambda: not (started - before).intersection(threading.enumerate()))


@pytest.mark.parametrize("address", [f"{HOST}:1", "nonsense", "[::1]:1", f"{HOST}:x"])
def test_a_leader_that_cannot_be_reached_is_silent(address: str) -> None:
    """Nobody listens there, or it is no address."""
    with pytest.raises(LeaderSilentError):
        ask(lambda: None, address, MUTATE_PATH)


def test_a_leader_that_takes_too_long_is_silent() -> None:
    """The API server waits for us meanwhile."""

    async def slow(_review: Review) -> Verdict:
        await asyncio.sleep(1)
        return ALLOWED

    with served(slow) as server, pytest.raises(LeaderSilentError):
        ask(context_of(server), f"{HOST}:{server.port}", MUTATE_PATH, timeout_s=0.05)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b'{"response": 3}', write(review(pod()), ALLOWED), b"[" * 9999]
)
def test_an_answer_that_is_none_is_silence(answer: bytes) -> None:
    """Also one to another question."""
    with pytest.raises(LeaderSilentError):
        refusals_in(answer, ASKED)


def test_a_reason_in_other_words_is_kept() -> None:
    """What has not the form of a refusal is told as the leader said it."""
    (refusal,) = refusals_in(write(ASKED, denied("no, thanks", code=500)), ASKED)
    assert refusal.code == "RefusedByLeader"
    assert refusal.limit == "no, thanks"
