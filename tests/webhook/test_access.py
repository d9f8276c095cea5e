"""Who may patch Nodes, asked of a server that speaks HTTP."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer
from webhook.access import ALLOWED_S, DENIED_S, NodeWriters
from webhook.review import UserInfo

ALICE = UserInfo(
    username="alice", groups=("dev", "system:authenticated"), uid="7", extra={"scopes": ("a", "b")}
)
SCHEDULER = UserInfo(username="system:serviceaccount:kube-system:hami-scheduler")


class Server:
    """Allows the scheduler, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.is_broken = False

    def answer(self, request: Request, exchange: Exchange) -> None:
        """Answer one review."""
        assert (request.method, request.path) == (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        )
        self.asked.append(request.json()["spec"])
        self.go_on.wait(10)
        if self.is_broken:
            exchange.status(500, "InternalError", "etcd is away")
            return
        allowed = self.asked[-1]["user"] == SCHEDULER.username
        exchange.json(request.json() | {"status": {"allowed": allowed, "reason": "RBAC"}}, 201)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.s


@contextmanager
def serving(server: Server) -> Iterator[Client]:
    """Yield a client of *server*."""
    with ScriptedServer(server.answer) as scripted:
        client = Client(ClientConfig(host=scripted.url), user_agent="test", timeout_s=5)
        yield client
        client.close()


def test_question() -> None:
    """The server is asked for the verb patch on nodes, for all that is known of the user."""
    server = Server()
    with serving(server) as client:
        access = asyncio.run(NodeWriters(client).may_write_nodes(ALICE))
    assert not access.allowed
    assert access.is_certain
    assert "`alice` may not patch nodes" in access.reason
    assert server.asked == [
        {
            "user": "alice",
            "groups": ["dev", "system:authenticated"],
            "uid": "7",
            "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": {"verb": "patch", "version": "v1", "resource": "nodes"},
        }
    ]


def test_kept_for_a_while() -> None:
    """A yes holds for a minute, a no for ten seconds."""
    server, clock = Server(), Clock()

    async def scene(client: Client) -> None:
        writers = NodeWriters(client, now_s=clock)
        for _ in range(3):
            assert (await writers.may_write_nodes(SCHEDULER)).allowed
            assert not (await writers.may_write_nodes(ALICE)).allowed
        assert len(server.asked) == 2
        clock.s += DENIED_S
        await writers.may_write_nodes(SCHEDULER)
        await writers.may_write_nodes(ALICE)
        assert [each["user"] for each in server.asked[2:]] == ["alice"]
        clock.s += ALLOWED_S - DENIED_S
        await writers.may_write_nodes(SCHEDULER)
        assert [each["user"] for each in server.asked[3:]] == [SCHEDULER.username]

    with serving(server) as client:
        asyncio.run(scene(client))


def test_users_are_told_apart() -> None:
    """Another group of the same name's user is another question."""
    server = Server()

    async def scene(client: Client) -> None:
        writers = NodeWriters(client)
        await writers.may_write_nodes(UserInfo(username="a", groups=("x",)))
        await writers.may_write_nodes(UserInfo(username="a", groups=("y",)))
        await writers.may_write_nodes(UserInfo(username="a", groups=("x",), extra={"k": ("v",)}))

    with serving(server) as client:
        asyncio.run(scene(client))
    assert len(server.asked) == 3


def test_asked_once_for_many() -> None:
    """Questions that wait for the same answer are one request, whoever of them goes away."""
    server = Server()
    server.go_on.clear()

    async def scene(client: Client) -> None:
        writers = NodeWriters(client)
        waiting = [asyncio.create_task(writers.may_write_nodes(SCHEDULER)) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        server.go_on.set()
        answers = await asyncio.gather(*waiting[1:])
        assert all(each.allowed for each in answers)

    with serving(server) as client:
        asyncio.run(scene(client))
    assert len(server.asked) == 1


def test_no_answer() -> None:
    """Without an answer nobody may, the reason is told, and the next question is asked anew."""
    server = Server()
    server.is_broken = True

    async def scene(client: Client) -> None:
        writers = NodeWriters(client)
        access = await writers.may_write_nodes(SCHEDULER)
        assert not access.allowed
        assert not access.is_certain
        assert "could not be asked" in access.reason
        assert "etcd is away" in access.reason
        server.is_broken = False
        assert (await writers.may_write_nodes(SCHEDULER)).allowed

    with serving(server) as client:
        asyncio.run(scene(client))


def test_unreachable() -> None:
    """A server that is not there is no answer either."""
    client = Client(ClientConfig(host="http://127.0.0.1:9"), user_agent="test", timeout_s=1)
    access = asyncio.run(NodeWriters(client).may_write_nodes(SCHEDULER))
    assert not access.allowed
    assert not access.is_certain
