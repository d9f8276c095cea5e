"""Serves `/filter` with a chooser that costs nothing; prints its port."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fastapi import FastAPI, Request, Response

from extender.gate import Gate
from extender.leading import AlwaysLeading
from extender.metrics import Metrics
from extender.parts import Chosen
from extender.quickprotocol import quick_protocol
from extender.routes.bodies import JSON
from extender.routes.filtering import Filtering
from extender.server import LeanFilter
from kube import logs
from kube.connections import BoundedProtocol
from kube.listener import Application, Listener, bind
from tests.extender.standins import MemoryState, ScriptedChooser, nothing

_BODY_MAX = 64 * 1024 * 1024


class _First(ScriptedChooser):
    def choose(self, _pod: object, _names: object) -> Chosen:
        """Choose the same node each time."""
        return Chosen(node="node-00007.example.internal", score=1.0, words=("NVIDIA",))


def _app(filters: Filtering, kind: str) -> Application:
    if kind == "bare":
        return LeanFilter(filters, _BODY_MAX)
    app = FastAPI(openapi_url=None)

    @app.post("/filter")
    async def answer(request: Request) -> Response:
        return Response(await filters.filter(await request.body()), media_type=JSON)

    return app


async def _serve(kind: str) -> None:
    logs.configure("info", json=True)
    metrics, state = Metrics(), MemoryState()
    gate = Gate(AlwaysLeading(), state, metrics, catch_up=nothing)
    filters = Filtering(_First(), gate, metrics, wait_ready_s=1.0)
    with bind("127.0.0.1", 0) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        protocol = quick_protocol(filters, _BODY_MAX) if kind == "quick" else BoundedProtocol
        app = _app(filters, "bare" if kind == "quick" else kind)
        await Listener(app, listening, None, finish_s=1, protocol=protocol).run_until_stopped()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
