"""An extender over real HTTP whose answers a test decides, and that keeps what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Answer = Callable[[Json], Any]


class Extender:
    """Answers by verb; a verb without an answer is a 404."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Json]] = []
        self.heard = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.url = ""

    def policy(self, **more: Any) -> Json:
        """Return an entry of a scheduler's configuration that knows it."""
        return {"urlPrefix": self.url, **more}

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one question."""
        verb, said = request.match_info["verb"], await request.json()
        self.asked.append((verb, said))
        self.heard.set()
        await self.may_answer.wait()
        if verb not in self.answers:
            raise web.HTTPNotFound
        return web.json_response(self.answers[verb](said))


@asynccontextmanager
async def answering(**answers: Answer) -> AsyncIterator[Extender]:
    """Run an extender."""
    extender = Extender(**answers)
    app = web.Application()
    app.router.add_post("/{verb}", extender.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    extender.url = f"http://{host}:{port}"
    try:
        yield extender
    finally:
        extender.may_answer.set()
        await runner.cleanup()


def keeping(*names: str, **failed: str) -> Answer:
    """Return the answer that *names* are left and *failed* are not."""
    return lambda _: {"NodeNames": list(names), "FailedNodes": failed, "Error": ""}


def echoing(said: Json) -> Json:
    """Leave all nodes that are named."""
    return {"nodenames": said["NodeNames"]}
