"""The applications behind the extender's three listeners.

kube-scheduler comes by loopback, without TLS, as nobody else can reach that; kubelet and
Prometheus come from outside and may only look; device plugins come with a token over TLS.

FastAPI serves what may be slow. `/filter` is answered beside it: routing, request and response
objects take several times as long as the answer itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from extender import figures, wire
from extender.binding import PATH as BIND_PATH
from extender.binding import Binder
from extender.callers import CallerError
from extender.metrics import Metrics
from extender.parts import State
from extender.routes import filtering, refitting, volcano
from extender.routes.bodies import (
    JSON,
    Asgi,
    CutOffError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    read_body,
    respond,
)
from extender.routes.filtering import Filtering
from extender.routes.refitting import Refitting
from extender.routes.volcano import Volcano
from extender.wire import WireError

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
_BODY_S: Final = 10.0
"""For the body of somebody outside the pod to arrive."""
_TEXT: Final = "text/plain; charset=utf-8"


class Probes:
    """`/healthz`, `/readyz` and `/metrics`."""

    def __init__(self, *, ready: Check, state: State, metrics: Metrics) -> None:
        self._ready, self._state, self._metrics = ready, state, metrics

    def mount(self, app: FastAPI) -> None:
        """Add the routes."""
        app.add_route("/healthz", self.healthz, methods=["GET"])
        app.add_route("/readyz", self.readyz, methods=["GET"])
        app.add_route("/metrics", self.metrics, methods=["GET"])

    async def healthz(self, _request: Request) -> Response:
        """Answer at all: a loop that does not turn does not."""
        return Response("ok\n", media_type=_TEXT)

    async def readyz(self, request: Request) -> Response:
        """Tell whether decisions are made here, or with `exclude=lead` would be if it led."""
        lead_counts = "lead" not in request.query_params.getlist("exclude")
        problem = self._ready() if lead_counts else self._state.not_synced()
        if problem is None:
            return Response("ok\n", media_type=_TEXT)
        return Response(f"{problem}\n", 503, media_type=_TEXT)

    async def metrics(self, _request: Request) -> Response:
        """Write all figures piece by piece."""
        pieces = figures.render(self._state, self._metrics)
        return StreamingResponse(pieces, media_type=figures.CONTENT_TYPE)


def probe_app(probes: Probes) -> FastAPI:
    """Return what those outside the pod may ask."""
    app = _bare()
    probes.mount(app)
    return app


def refit_app(refit: Refitting) -> FastAPI:
    """Return what device plugins may ask."""
    app = _bare()

    async def answer(request: Request) -> Response:
        try:
            caller = await refit.admit(request.headers.get("authorization", ""))
            async with asyncio.timeout(_BODY_S):
                body = await read_body(request.receive, refitting.BODY_MAX)
            return Response(await refit.refit(caller, body), media_type=JSON)
        except CallerError as error:
            return _failure(error.status, str(error))
        except (TooLargeError, CutOffError) as error:
            return _unread(error)
        except TimeoutError:
            return _failure(408, "the body did not arrive")

    app.add_route(refitting.PATH, answer, methods=["POST"])
    return app


def scheduler_app(
    *, filters: Filtering, binder: Binder, asked: Volcano, probes: Probes, body_bytes: int
) -> Asgi:
    """Return what the schedulers of the pod may ask."""
    app = _bare()
    probes.mount(app)

    async def bind(request: Request) -> Response:
        try:
            args = wire.read_binding(await read_body(request.receive, body_bytes))
        except WireError as error:
            return Response(wire.binding_result(str(error)), media_type=JSON)
        except (TooLargeError, CutOffError) as error:
            return _unread(error)
        return Response(wire.binding_result(await binder.bind(args)), media_type=JSON)

    async def prioritize(request: Request) -> Response:
        try:
            status, text = await filters.prioritize(await read_body(request.receive, body_bytes))
        except (TooLargeError, CutOffError) as error:
            return _unread(error)
        return Response(text, status, media_type=JSON if status == 200 else _TEXT)

    app.add_route(BIND_PATH, bind, methods=["POST"])
    for path in filtering.PRIORITIZE_PATHS:
        app.add_route(path, prioritize, methods=["POST"])
    for path, decide in (
        (volcano.PREDICATE_PATH, asked.predicate),
        (volcano.PRIORITIZE_PATH, asked.prioritize),
    ):
        app.add_route(path, _synchronous(decide, body_bytes), methods=["POST"])
    return _beside(app, LeanFilter(filters, body_bytes))


class LeanFilter:
    """`/filter` as bare ASGI."""

    def __init__(self, filters: Filtering, body_bytes: int) -> None:
        self._filters, self._body_bytes = filters, body_bytes

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await read_body(receive, self._body_bytes)
        except TooLargeError:
            text = wire.filter_result(error="the body is longer than --body-mib allows")
            await respond(send, text, status=413, close=True)
        except CutOffError:
            return
        else:
            await respond(send, await self._filters.filter(body))


def _beside(app: FastAPI, lean: LeanFilter) -> Asgi:
    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == filtering.PATH and scope["method"] == "POST":
            await lean(scope, receive, send)
        else:
            await app(scope, receive, send)

    return route


def _synchronous(
    decide: Callable[[bytes], bytes], body_bytes: int
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            body = await read_body(request.receive, body_bytes)
        except (TooLargeError, CutOffError) as error:
            return _unread(error)
        return Response(decide(body), media_type=JSON)

    return answer


def _bare() -> FastAPI:
    return FastAPI(openapi_url=None, docs_url=None, redoc_url=None)


def _unread(error: TooLargeError | CutOffError) -> Response:
    if isinstance(error, TooLargeError):
        return _failure(413, "the body is too long")
    return _failure(408, "the body did not arrive")


def _failure(status: int, text: str) -> Response:
    headers = {"Connection": "close"} if status in {408, 413} else None
    return Response(f"{text}\n", status, headers, media_type=_TEXT)
