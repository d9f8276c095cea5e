"""Reviews over TLS: what is asked, what is answered, and what is refused unread."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from gpu.refusal import Refusal
from tests.patience import eventually
from tests.webhook.serving import allow, review_body, served
from webhook.review import Review, Verdict, denied, refused
from webhook.server import Handler, Limits

_SMALL = Limits(body_bytes=1000, body_s=0.3, time_budget_s=0.2)


async def patching(review: Review) -> Verdict:
    """Patch the name of the one who asks into the pod."""
    operation = {"op": "add", "path": "/metadata/labels", "value": {"of": review.namespace}}
    return Verdict(allowed=True, patch=(operation,), warnings=("mind\nthis", "x" * 300))


async def refusing(review: Review) -> Verdict:
    """Refuse with the operation."""
    return denied(f"no {review.operation}")


async def failing(_review: Review) -> Verdict:
    """Fail with a text that nobody outside should see."""
    message = "internal detail"
    raise KeyError(message)


async def sleeping(_review: Review) -> Verdict:
    """Take too long."""
    await asyncio.sleep(60)
    raise AssertionError


async def impatient(_review: Review) -> Verdict:
    """Fail by a time limit of its own."""
    raise TimeoutError


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_verdict_comes_back_in_the_version_of_the_question(version: str) -> None:
    """Patch, warnings and UID are where the API server looks for them."""
    with served(mutate=patching) as server:
        answer = server.post("/webhook", review_body(version, uid="abc"))
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        said = json.loads(answer.body)
        assert (said["apiVersion"], said["kind"]) == (
            f"admission.k8s.io/{version}",
            "AdmissionReview",
        )
        assert answer.response["uid"] == "abc"
        assert answer.response["patchType"] == "JSONPatch"
        assert answer.patch[0]["value"] == {"of": "default"}
        assert answer.response["warnings"] == ["mind this", "x" * 255 + "…"]


def test_each_path_has_its_own_handler() -> None:
    """What one changes the other refuses; both are counted apart."""
    with served(mutate=patching, validate=refusing) as server:
        assert server.post("/webhook", review_body()).response["allowed"] is True
        refusal = server.post("/validate?timeout=10s", review_body()).response
        assert refusal["allowed"] is False
        assert refusal["status"] == {"code": 403, "message": "no CREATE", "reason": "Forbidden"}
        name = "gpuslice_webhook_reviews_total"
        assert server.sample(name, path="/webhook", result="patched") == 1
        assert server.sample(name, path="/validate", result="denied") == 1
        assert server.sample("gpuslice_webhook_reviews_in_flight") == 0


def test_reasons_of_refusals_are_counted() -> None:
    """Their codes are labels, and nothing that a user writes is."""

    async def two(_review: Review) -> Verdict:
        said = [Refusal(code=code, field="x", value="user's") for code in ("One", "Two", "One")]
        return refused([*said, said[0]])

    with served(mutate=two) as server:
        message = server.post("/webhook", review_body()).response["status"]["message"]
        assert message == "One: x: `user's`; Two: x: `user's`"
        for code in ("One", "Two"):
            assert server.sample("gpuslice_webhook_refusals_total", code=code) == 1


def test_a_connection_serves_many_reviews() -> None:
    """It stays open between them, also after a body that cannot be read."""
    with served() as server, server.connect() as connection:
        first = connection.http.sock
        for number in range(20):
            answer = connection.post("/webhook", review_body(uid=str(number)))
            assert answer.response["uid"] == str(number)
        assert connection.post("/webhook", b"{").status == 400
        assert connection.post("/webhook", review_body()).status == 200
        assert connection.http.sock is first


def test_a_body_that_is_no_review_is_said_to_be_none() -> None:
    """The answer is a sentence and no fault of the server."""
    bodies = [b"", b"{", b"[]", b"{}", b"null", b"\xff", b'{"request": {}}', b"[" * 100_000]
    with served() as server, server.connect() as connection:
        for body in [*bodies, review_body("v2")]:
            answer = connection.post("/webhook", body)
            assert answer.status == 400
            assert answer.body.startswith(b"no AdmissionReview: ")


def test_other_paths_and_methods_are_none_of_ours() -> None:
    """Probes and documentation are not served here."""
    with served() as server, server.connect() as connection:
        for path in ("/", "/healthz", "/metrics", "/docs", "/openapi.json"):
            assert connection.post(path, b"{}").status == 404
        connection.http.request("GET", "/webhook")
        assert connection.answer().status == 405


def test_a_body_beyond_the_limit_is_refused() -> None:
    """One byte more than 3 MiB is too much; exactly 3 MiB is not."""
    limit = Limits().body_bytes
    padded = review_body(padding="")
    most = padded.replace(b'"padding": ""', b'"padding": "' + b"x" * (limit - len(padded)) + b'"')
    assert len(most) == limit
    with served() as server:
        assert server.post("/webhook", most).status == 200
        answer = server.post("/webhook", most + b" ")
        assert answer.status == 413
        assert answer.body == b"the body has more than 3145728 bytes\n"
        assert answer.headers["connection"] == "close"
        name = "gpuslice_webhook_reviews_total"
        assert server.sample(name, path="/webhook", result="too_large") == 1


def test_a_body_without_a_length_is_bounded_too() -> None:
    """What is read counts, not what was said; an endless one is cut off."""

    def endless() -> Iterator[bytes]:
        for _ in range(5_000):
            yield b"x" * 1000

    with served(limits=_SMALL) as server, server.connect() as connection:
        assert connection.post("/webhook", iter([b" " * 600] * 2)).status == 413
    with served(limits=_SMALL) as server, server.connect() as connection:
        # It may be cut off while it is still sending.
        try:
            answer = connection.post("/webhook", endless())
        except OSError:
            pass
        else:
            assert answer.status == 413
        name = "gpuslice_webhook_reviews_total"
        eventually(lambda: server.sample(name, path="/webhook", result="too_large"))


def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    """A length that promises more than comes ends the connection, as does going away."""
    with served(limits=_SMALL) as server:
        answer = server.post("/webhook", b"{", {"Content-Length": "900"})
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        with server.connect() as connection:
            connection.http.putrequest("POST", "/webhook")
            connection.http.putheader("Content-Length", "900")
            connection.http.endheaders(b"{")
        name = "gpuslice_webhook_reviews_total"
        eventually(lambda: server.sample(name, path="/webhook", result="cut_off") == 2)


def test_a_slow_decision_is_ended_by_the_budget() -> None:
    """The user is told so, and whatever decided is cancelled."""
    cancelled = threading.Event()

    async def slow(review: Review) -> Verdict:
        try:
            return await sleeping(review)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with served(mutate=slow, limits=_SMALL) as server:
        response = server.post("/webhook", review_body()).response
        assert response["allowed"] is False
        assert response["status"] == {
            "code": 500,
            "message": "TimeBudgetExceeded: review: `u-1`; no decision within 0.2 s; try again",
        }
        assert cancelled.is_set()
        name = "gpuslice_webhook_reviews_total"
        assert server.sample(name, path="/webhook", result="late") == 1


@pytest.mark.parametrize(("handler", "kind"), [(failing, "KeyError"), (impatient, "TimeoutError")])
def test_a_failure_is_answered_and_logged_once(handler: Handler, kind: str) -> None:
    """The user sees the kind of error alone; the log has all of it, under a UID of bounded size."""
    with capture_logs() as logs, served(validate=handler) as server:
        response = server.post("/validate", review_body(uid="u" * 100_000)).response
        assert response["allowed"] is False
        assert response["status"]["code"] == 500
        assert response["status"]["message"] == (
            f"InternalError: {kind}; the webhook's log tells more of review {'u' * 64}"
        )
        name = "gpuslice_webhook_reviews_total"
        assert server.sample(name, path="/validate", result="failed") == 1
    (failure,) = logs
    assert (failure["event"], failure["uid"], failure["exc_info"]) == (
        "review failed",
        "u" * 64,
        True,
    )


def test_too_many_warnings_are_cut_to_what_the_api_server_passes_on() -> None:
    """The last one tells how many there were."""

    async def warning(_review: Review) -> Verdict:
        return Verdict(allowed=True, warnings=tuple(f"{n:03}" + "x" * 250 for n in range(40)))

    with served(mutate=warning) as server:
        warnings = server.post("/webhook", review_body()).response["warnings"]
        assert sum(map(len, warnings)) <= 4096
        assert warnings[-1] == f"{40 - len(warnings) + 1} more warnings are not shown"


def test_answers_end_connections_while_the_server_drains() -> None:
    """Clients go elsewhere with their next review."""
    with served() as server, server.connect() as connection:
        assert "connection" not in connection.post("/webhook", review_body()).headers
        server.draining = True
        answer = connection.post("/webhook", review_body())
        assert answer.status == 200
        assert answer.headers["connection"] == "close"


def test_a_stop_lets_requests_finish() -> None:
    """A slow review gets its answer, new connections are refused, idle ones end."""
    entered, release = threading.Event(), threading.Event()

    async def held(review: Review) -> Verdict:
        entered.set()
        await asyncio.to_thread(release.wait, 30)
        return await patching(review)

    with served(mutate=held, limits=Limits(time_budget_s=60)) as server:
        with server.connect() as slow, server.connect() as idle:
            idle.post("/validate", review_body())
            slow.http.request("POST", "/webhook", review_body())
            entered.wait(30)
            server.stop()
            assert idle.http.sock.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                server.post("/webhook", review_body())
            release.set()
            assert slow.answer().patch[0]["value"] == {"of": "default"}
        server.wait_ended()


def test_a_handler_sees_what_was_asked() -> None:
    """Each field of the question arrives."""
    seen: list[Review] = []

    async def noting(review: Review) -> Verdict:
        seen.append(review)
        return await allow(review)

    with served(mutate=noting) as server:
        user = {"username": "ann", "groups": ["dev"], "extra": {"k": ["v"]}}
        server.post(
            "/webhook", review_body(dryRun=True, userInfo=user, subResource="status", name="p")
        )
    (review,) = seen
    assert dataclasses.asdict(review) | {"user": None} == {
        "api_version": "admission.k8s.io/v1",
        "uid": "u-1",
        "operation": "CREATE",
        "group": "",
        "resource": "pods",
        "subresource": "status",
        "namespace": "default",
        "name": "p",
        "user": None,
        "item": {"metadata": {"name": "p"}},
        "old_item": None,
        "dry_run": True,
    }
    assert (review.user.username, review.user.groups) == ("ann", ("dev",))
