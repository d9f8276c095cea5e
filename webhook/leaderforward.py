"""Sending a review on to the replica that leads, and reading its answer.

The leader gets an AdmissionReview like the API server's, at the same path and through the same
TLS: its certificate names the Service, the connection goes to its own address. What was sent on
is marked in the `extra` of the user, which the API server fills itself, so it is never sent on
twice. Asking twice does no harm, since the leader knows a request by its UID; so a connection that
the leader had closed meanwhile is opened again.

Connections are kept in a few threads of our own: the client of `kube` speaks to an API server and
has one address for life, and no library for HTTP in an event loop is among what this program needs.
"""

import asyncio
import dataclasses
import json
import re
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from gpu.refusal import Refusal
from webhook.review import KIND, Review, UserInfo

MARK: Final = "gpuslice.io/forwarded-by"
_THREADS: Final = 16
_ANSWER_MAX: Final = 3 * 1024 * 1024
_SENTENCE: Final = re.compile(r"([A-Z][A-Za-z]+): (.+?): `([^`]*)`(?:; (.*))?", re.DOTALL)

TlsContext = Callable[[], ssl.SSLContext | None]
"""Gives what verifies the leader, renewed when authorities change; `None` speaks without TLS."""


class LeaderSilentError(Exception):
    """The leader gave no answer that can be read."""


def is_forwarded(review: Review) -> bool:
    """Tell whether another replica sent *review* on."""
    return MARK in review.user.extra


class LeaderForward:
    """Asks the leader; call it in a loop, and `close` it at the end."""

    def __init__(
        self,
        *,
        identity: str,
        server_name: str,
        tls: TlsContext,
        timeout_s: float = 1.5,
    ) -> None:
        """Prepare; *identity* marks what this replica sends, *server_name* is in certificates."""
        self._identity = identity
        self._server_name = server_name
        self._tls = tls
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="to-leader")
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._closed = False

    async def __call__(self, review: Review, path: str, address: str) -> tuple[Refusal, ...]:
        """Return what the leader at *address* has against *review*; raises `LeaderSilentError`."""
        if self._closed:
            message = "this replica ends"
            raise LeaderSilentError(message)
        body = body_of(marked(review, self._identity))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                work = loop.run_in_executor(self._threads, self._exchange, address, path, body)
                answer = await work
        except TimeoutError as error:
            message = f"no answer within {self._timeout_s:g} s"
            raise LeaderSilentError(message) from error
        except (OSError, HTTPException, ValueError) as error:
            message = f"{type(error).__name__}: {error}"
            raise LeaderSilentError(message) from error
        return refusals_in(answer, review)

    def close(self) -> None:
        """End the threads without waiting for answers."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connection in idle:
            connection.close()

    def _exchange(self, address: str, path: str, body: bytes) -> bytes:
        context = self._tls()
        kept = self._take(address, context)
        if kept is not None:
            try:
                answer = self._answer(kept, path, body)
            except (OSError, HTTPException):
                kept.close()
            else:
                self._give_back(kept)
                return answer
        fresh = _Connection(
            address, context=context, server_name=self._server_name, timeout_s=self._timeout_s
        )
        try:
            answer = self._answer(fresh, path, body)
        except BaseException:
            fresh.close()
            raise
        self._give_back(fresh)
        return answer

    def _take(self, address: str, context: ssl.SSLContext | None) -> "_Connection | None":
        """Return an idle connection; those that lead elsewhere are closed."""
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None or found.fits(address, context):
                return found
            found.close()

    def _give_back(self, connection: "_Connection") -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    @staticmethod
    def _answer(connection: "_Connection", path: str, body: bytes) -> bytes:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read(_ANSWER_MAX)
        if response.status != 200:
            message = f"status {response.status}"
            raise HTTPException(message)
        return answer


class Trust:
    """The context by which the leader is checked, made anew when the authorities change."""

    def __init__(self, authorities: Callable[[], bytes | None]) -> None:
        """Prepare; *authorities* are asked for each connection, PEM."""
        self._authorities = authorities
        self._made: tuple[bytes | None, ssl.SSLContext] | None = None

    def __call__(self) -> ssl.SSLContext:
        """Return it; without authorities of our own those of the system count."""
        bundle = self._authorities()
        if self._made is None or self._made[0] != bundle:
            context = ssl.create_default_context(cadata=bundle.decode() if bundle else None)
            self._made = (bundle, context)
        return self._made[1]


class _Connection(HTTPConnection):
    """A connection to an address whose certificate bears another name."""

    def __init__(
        self, address: str, *, context: ssl.SSLContext | None, server_name: str, timeout_s: float
    ) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(host.strip("[]"), int(port), timeout=timeout_s)
        self._address = address
        self._context = context
        self._server_name = server_name

    def fits(self, address: str, context: ssl.SSLContext | None) -> bool:
        """Tell whether it leads to *address* and was verified by *context*."""
        return self._address == address and self._context is context

    def connect(self) -> None:
        """Connect, and verify the name where there is TLS."""
        super().connect()
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_name)


def marked(review: Review, by: str) -> Review:
    """Return *review* with the mark of the replica that sends it."""
    user = review.user
    extra = {**user.extra, MARK: (by,)}
    return dataclasses.replace(
        review,
        user=UserInfo(username=user.username, groups=user.groups, uid=user.uid, extra=extra),
    )


def body_of(review: Review) -> bytes:
    """Return an AdmissionReview that is read as *review*."""
    user = review.user
    request = {
        "uid": review.uid,
        "operation": review.operation,
        "resource": {"group": review.group, "version": "v1", "resource": review.resource},
        "subResource": review.subresource,
        "namespace": review.namespace,
        "name": review.name,
        "userInfo": {
            "username": user.username,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra.items()},
        },
        "object": review.item,
        "oldObject": review.old_item,
        "dryRun": review.dry_run,
    }
    body = {"apiVersion": review.api_version, "kind": KIND, "request": request}
    return json.dumps(body, separators=(",", ":")).encode()


def refusals_in(answer: bytes, review: Review) -> tuple[Refusal, ...]:
    """Return why the answer to *review* is no, empty for a yes; raises `LeaderSilentError`."""
    try:
        response = json.loads(answer)["response"]
        uid, allowed = response["uid"], response["allowed"]
        status: Any = response.get("status") or {}
        message = str(status.get("message") or "no reason given")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        text = f"its answer cannot be read: {type(error).__name__}"
        raise LeaderSilentError(text) from error
    if uid != review.uid:
        text = "its answer is for another review"
        raise LeaderSilentError(text)
    if allowed is True:
        return ()
    return (_refusal(message, review),)


def _refusal(message: str, review: Review) -> Refusal:
    """Return a refusal that reads like *message*, whose parts were joined by the leader."""
    if match := _SENTENCE.fullmatch(message):
        code, field, value, rest = match.groups()
        return Refusal(code=code, field=field, value=value, limit=rest or "")
    return Refusal(code="RefusedByLeader", field="namespace", value=review.namespace, limit=message)
