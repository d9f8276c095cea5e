"""The two paths that the API server asks: a request becomes a review, a verdict an answer.

Bodies are read raw: validating them as models costs more than the whole decision. Reviews do not
pass through FastAPI's middleware, routing, requests and responses either, which cost as much as
reading a pod; it answers whatever else is asked.

Bodies are bounded while they are read, because a stated length need not be the true one. etcd
takes no object beyond 1.5 MiB; an update shows two, and JSON in a request may be longer than what
is kept.

An answer is given for every review that can be read, also where we fail: HTTP errors would leave
the user with "failed calling webhook" and no reason. Warnings: see `webhook.warningtexts`.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from fastapi import FastAPI
from starlette.routing import Route

from gpu.refusal import Refusal
from kube.listener import Application
from webhook import warningtexts
from webhook.metrics import Metrics, Outcome, Result
from webhook.review import Review, ReviewError, Verdict, denied, read, write

log = structlog.get_logger(__name__)

Handler = Callable[[Review], Awaitable[Verdict]]
"""Decides about one review; is cancelled when the time is up."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MUTATE_PATH: Final = "/webhook"
VALIDATE_PATH: Final = "/validate"
_JSON: Final = b"application/json"
_TEXT: Final = b"text/plain; charset=utf-8"
_UID_MAX: Final = 64
"""What is shown of a UID: anybody can send one of any length."""
_DISCARDED: Final = 4
"""How many times the limit is read on, so that a client gets to see the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may take."""

    time_budget_s: float = 2.0
    """For the decision."""
    body_bytes: int = 3 * 1024 * 1024
    body_s: float = 10.0
    """For the body to arrive."""


def build_app(
    *,
    mutate: Handler,
    validate: Handler,
    metrics: Metrics | None = None,
    limits: Limits | None = None,
    draining: Callable[[], bool] = lambda: False,
) -> Application:
    """Return the application; while *draining*, answers end their connections."""
    counted, bounds = metrics or Metrics(), limits or Limits()
    endpoints = {
        path: _Endpoint(
            path=path, handler=handler, metrics=counted, limits=bounds, draining=draining
        )
        for path, handler in ((MUTATE_PATH, mutate), (VALIDATE_PATH, validate))
    }
    others = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    others.router.routes += [
        Route(path, each, methods=["POST"]) for path, each in endpoints.items()
    ]

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        asked = endpoints.get(scope["path"]) if scope.get("method") == "POST" else None
        await (asked or others)(scope, receive, send)

    return answer


class _TooLargeError(Exception):
    """The body is beyond the limit."""


class _CutOffError(Exception):
    """The client went away."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    media_type: bytes
    close: bool = False


class _Endpoint:
    def __init__(
        self,
        *,
        path: str,
        handler: Handler,
        metrics: Metrics,
        limits: Limits,
        draining: Callable[[], bool],
    ) -> None:
        self._path = path
        self._handler = handler
        self._metrics = metrics.endpoint(path)
        self._in_flight = metrics.in_flight
        self._refused = metrics.refused
        self._limits = limits
        self._draining = draining

    async def __call__(self, _scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._in_flight.track_inprogress(), self._metrics.measure() as outcome:
            answer = await self._answer(receive, outcome)
        headers = [
            (b"content-length", b"%d" % len(answer.body)),
            (b"content-type", answer.media_type),
        ]
        if answer.close or self._draining():
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, receive: Receive, outcome: Outcome) -> _Answer:
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await _read_body(receive, self._limits.body_bytes)
            review = read(body)
        except _TooLargeError:
            outcome.result = Result.TOO_LARGE
            text = f"the body has more than {self._limits.body_bytes} bytes"
            return _failure(413, text, close=True)
        except ReviewError as error:
            outcome.result = Result.UNREADABLE
            return _failure(400, str(error))
        except (_CutOffError, TimeoutError):
            outcome.result = Result.CUT_OFF
            return _failure(408, "the body did not arrive", close=True)
        verdict = await self._decide(review, outcome)
        return _Answer(200, write(review, verdict), _JSON)

    async def _decide(self, review: Review, outcome: Outcome) -> Verdict:
        budget = asyncio.timeout(self._limits.time_budget_s)
        try:
            async with budget:
                verdict = await self._handler(review)
        except Exception as error:
            if isinstance(error, TimeoutError) and budget.expired():
                outcome.result = Result.LATE
                return self._late(review)
            log.exception("review failed", path=self._path, uid=_uid(review))
            return denied(
                f"InternalError: {type(error).__name__}; "
                f"the webhook's log tells more of review {_uid(review)}",
                code=500,
            )
        outcome.result = _result(verdict)
        self._refused(verdict.reasons)
        if verdict.warnings:
            return dataclasses.replace(verdict, warnings=warningtexts.cut(verdict.warnings))
        return verdict

    def _late(self, review: Review) -> Verdict:
        log.error("review took too long", path=self._path, uid=_uid(review))
        reason = Refusal(
            code="TimeBudgetExceeded",
            field="review",
            value=_uid(review),
            limit=f"no decision within {self._limits.time_budget_s:g} s",
            remedy="try again",
        )
        return denied(str(reason), code=500)


async def _read_body(receive: Receive, limit: int) -> bytes:
    chunks: list[bytes] = []
    received, more = 0, True
    while more and received <= limit * _DISCARDED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _CutOffError
        chunk, more = message.get("body", b""), message.get("more_body", False)
        received += len(chunk)
        if received <= limit:
            chunks.append(chunk)
    if received > limit:
        raise _TooLargeError
    return b"".join(chunks)


def _uid(review: Review) -> str:
    return review.uid[:_UID_MAX]


def _result(verdict: Verdict) -> Result:
    if not verdict.allowed:
        return Result.FAILED if verdict.code >= 500 else Result.DENIED
    return Result.PATCHED if verdict.patch else Result.ALLOWED


def _failure(status: int, text: str, *, close: bool = False) -> _Answer:
    return _Answer(status, f"{text}\n".encode(), _TEXT, close)
