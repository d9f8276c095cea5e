"""The webhook's server in a thread, over real TLS, and clients of it."""

import asyncio
import base64
import json
import ssl
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any, Self

import trustme

from kube.certificates import KeyPair
from kube.connections import BoundedProtocol
from kube.listener import Listener, bind
from kube.tls import ServingContext
from sim.loopthread import LoopThread
from webhook.metrics import Metrics
from webhook.review import ALLOWED, Review, Verdict
from webhook.server import Handler, Limits, build_app

if TYPE_CHECKING:
    from concurrent.futures import Future

HOST = "127.0.0.1"
_DEADLINE_S = 30.0

Json = dict[str, Any]


async def allow(_review: Review) -> Verdict:
    """Allow everything."""
    return ALLOWED


def issued(authority: trustme.CA, *, key_type: trustme.KeyType = trustme.KeyType.ECDSA) -> KeyPair:
    """Return a new pair for the server's address."""
    made = authority.issue_cert(HOST, key_type=key_type)
    chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
    return KeyPair(chain, made.private_key_pem.bytes())


def review_body(version: str = "v1", **request: Any) -> bytes:
    """Return the body of a question about a pod."""
    asked: Json = {
        "uid": "u-1",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "object": {"metadata": {"name": "p"}},
        **request,
    }
    said = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview"}
    return json.dumps({**said, "request": asked}).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def response(self) -> Json:
        """Return the answer of a review."""
        response: Json = json.loads(self.body)["response"]
        return response

    @property
    def patch(self) -> Any:
        """Return the operations of its patch."""
        return json.loads(base64.b64decode(self.response["patch"]))


class Connection:
    """One kept-alive connection."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.http = HTTPSConnection(HOST, port, context=context, timeout=_DEADLINE_S)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        """Send *body* and return the answer."""
        self.http.request("POST", path, body, headers or {})
        return self.answer()

    def answer(self) -> Answer:
        """Read the answer to what was sent."""
        response = self.http.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def presented(self) -> bytes:
        """Return the server's certificate, DER."""
        assert isinstance(self.http.sock, ssl.SSLSocket)
        return self.http.sock.getpeercert(binary_form=True) or b""

    def __enter__(self) -> Self:
        self.http.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


@dataclass(slots=True)
class Served:
    """A server that runs."""

    authority: trustme.CA
    tls: ServingContext
    port: int
    metrics: Metrics
    loop: LoopThread
    listener: Listener
    ended: "Future[None] | None" = field(default=None)
    draining: bool = False

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the server."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

    def connect(self) -> Connection:
        """Return a connection of its own."""
        return Connection(self.port, self.client_context())

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        """Ask over a connection of its own."""
        with self.connect() as connection:
            return connection.post(path, body, headers)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        """Run *work* in the server's loop until it is cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self.loop._loop)

    def stop(self) -> None:
        """Ask it to end, without waiting."""
        self.loop.call(self.listener.stop)

    def wait_ended(self) -> None:
        """Wait until the last request is answered."""
        assert self.ended is not None
        self.ended.result(_DEADLINE_S)

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


@contextmanager
def served(
    mutate: Handler = allow,
    validate: Handler = allow,
    limits: Limits | None = None,
    protocol: type[BoundedProtocol] = BoundedProtocol,
) -> Iterator[Served]:
    """Run a server for the block."""
    authority, tls, metrics = trustme.CA(), ServingContext(), Metrics()
    tls.use(issued(authority))
    listening = bind(HOST, 0)
    loop = LoopThread("webhook")
    loop.start()
    running: list[Served] = []
    app = build_app(
        mutate=mutate,
        validate=validate,
        metrics=metrics,
        limits=limits,
        draining=lambda: running[0].draining,
    )
    listener = Listener(app, listening, tls, finish_s=10, protocol=protocol)
    port = listening.getsockname()[1]
    running.append(Served(authority, tls, port, metrics, loop, listener))
    running[0].ended = running[0].spawn(listener.run_until_stopped())
    try:
        yield running[0]
    finally:
        running[0].stop()
        running[0].wait_ended()
        loop.stop()
