"""One call of a webhook over TLS, with the failures named as the real server names them.

Sources: apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go and
pkg/util/webhook; the texts of lost connections are those of Go's net/http.
"""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_TIMEOUT_S = 10


class CallFailedError(Exception):
    """A webhook gave no answer that could be understood."""


async def call(hook: JsonObject, review: JsonObject) -> JsonObject:
    """Send *review* and return the `response` of the answer."""
    config = hook["clientConfig"]
    if not config.get("url"):
        # There is no network of services here, so nothing answers at their addresses.
        service = config.get("service") or {}
        name = service.get("name", "")
        message = f'failed to call webhook: service "{name}" not found'
        raise CallFailedError(message)
    timeout_s = hook.get("timeoutSeconds", _TIMEOUT_S)
    url = f"{config['url']}?timeout={timeout_s}s"
    try:
        answer = await _posted(url, _trust(config.get("caBundle", "")), review, timeout_s)
    except (aiohttp.ClientError, TimeoutError, ssl.SSLError, ValueError) as error:
        message = f'failed to call webhook: Post "{url}": {_why(error)}'
        raise CallFailedError(message) from error
    return _response(answer, review["request"]["uid"])


async def _posted(url: str, trust: ssl.SSLContext, review: JsonObject, timeout_s: int) -> Any:
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, json=review, ssl=trust, allow_redirects=False) as response,
    ):
        if response.status != 200:
            message = (
                "failed to call webhook: the server rejected our request for an unknown reason"
            )
            raise CallFailedError(message)
        return await response.json(content_type=None)


def _trust(bundle: str) -> ssl.SSLContext:
    authorities = base64.b64decode(bundle).decode() if bundle else None
    return ssl.create_default_context(cadata=authorities)


def _why(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = "certificate signed by unknown authority"
            return f"tls: failed to verify certificate: x509: {why}"
        case aiohttp.ClientConnectorError():
            refused = isinstance(error.os_error, ConnectionRefusedError)
            text = "connection refused" if refused else str(error.os_error)
            return f"dial tcp {error.host}:{error.port}: connect: {text}"
        case TimeoutError():
            return "context deadline exceeded"
        case _:
            return str(error)


def _response(answer: Any, uid: str) -> JsonObject:
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        message = "webhook response was absent"
        raise CallFailedError(message)
    if response.get("uid") != uid:
        message = "received invalid webhook response: "
        message += f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
        raise CallFailedError(message)
    return response
