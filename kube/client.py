"""Requests to the API server: bytes in, bytes out, kept-alive connections for a few threads.

The answer stays raw so that each caller decodes only what it reads. There is no rate limit on
our side: the server has its own (priority and fairness) and says 429. Nothing is repeated except
a GET on a connection that the server had closed meanwhile, because whether any other request
was carried out before a cut is unknown.
"""

import json
import socket
import ssl
from collections.abc import Mapping
from http.client import RemoteDisconnected
from typing import Any, Final
from urllib.parse import urlencode

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.response import BaseHTTPResponse, HTTPResponse
from urllib3.util import Timeout, parse_url

from kube.config import ClientConfig
from kube.errors import ConfigError, ConnectionFailedError, api_error
from kube.objects import JsonObject
from kube.paths import VERSION
from kube.watch import Watch

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_THREADS: Final = 16
_JSON: Final = "application/json"
# A node that lost its network sends no end: ask for signs of life after 30 s, give up 30 s later.
_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
_CLOSED_BY_PEER: Final = (RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Client:
    """Speaks with one API server; safe to use from several threads."""

    def __init__(self, config: ClientConfig, *, user_agent: str, timeout_s: float = 10.0) -> None:
        """Prepare without connecting; *timeout_s* is for the connection and for each read."""
        self._config = config
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": user_agent, "Accept": _JSON}
        self._prefix = (parse_url(config.host).path or "").rstrip("/")
        self._pool = _pool(config, timeout_s)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return the object or list at *path*."""
        return self._exchange("GET", path, params)

    def create(self, path: str, body: JsonObject, params: Mapping[str, str] | None = None) -> bytes:
        """Add *body* to the collection at *path* and return what the server made of it."""
        return self._exchange("POST", path, params, body)

    def replace(
        self, path: str, body: JsonObject, params: Mapping[str, str] | None = None
    ) -> bytes:
        """Put *body* in the place of the object at *path* and return what the server keeps."""
        return self._exchange("PUT", path, params, body)

    def patch(
        self,
        path: str,
        body: JsonObject | list[Any],
        *,
        content_type: str,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """Change the object at *path*; *content_type* is one of the `*_PATCH` constants."""
        return self._exchange("PATCH", path, params, body, content_type=content_type)

    def delete(
        self, path: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Delete the object at *path*, only that of *uid* and *resource_version* if given."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions := {key: value for key, value in wanted.items() if value is not None}:
            body["preconditions"] = preconditions
        self._exchange("DELETE", path, None, body)

    def watch(self, path: str, params: Mapping[str, str], *, timeout_s: float) -> Watch:
        """Open a watch that fails after *timeout_s* of silence; `watch=true` is added."""
        response = self._send(
            "GET",
            path,
            {**params, "watch": "true"},
            timeout=Timeout(connect=self._timeout_s, read=timeout_s),
            preload_content=False,
        )
        if response.status != 200:
            try:
                body = response.read()
            except HTTPError as error:
                raise _no_answer("GET", path, error) from error
            finally:
                response.release_conn()
            raise api_error(response.status, body, response.headers.get("Retry-After"))
        if not isinstance(response, HTTPResponse):
            message = f"GET {path}: the connection cannot stream"
            raise ConnectionFailedError(message)
        return Watch(response, path)

    def server_version(self) -> str:
        """Return the server's version, such as `v1.36.2`."""
        said = json.loads(self.get(VERSION))
        return str(said["gitVersion"])

    def close(self) -> None:
        """Close the idle connections; the client must not be used afterwards."""
        self._pool.close()

    def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: JsonObject | list[Any] | None = None,
        *,
        content_type: str = _JSON,
    ) -> bytes:
        content: dict[str, Any] = {}
        if body is not None:
            content["body"] = json.dumps(body, separators=(",", ":")).encode()
            content["headers"] = {"Content-Type": content_type}
        response = self._send(method, path, params, **content)
        if response.status >= 300:
            raise api_error(response.status, response.data, response.headers.get("Retry-After"))
        return response.data

    def _send(
        self, method: str, path: str, params: Mapping[str, str] | None, **options: Any
    ) -> BaseHTTPResponse:
        url = self._prefix + path + (f"?{urlencode(params)}" if params else "")
        headers = self._headers | options.pop("headers", {})
        if token := self._config.token():
            headers["Authorization"] = f"Bearer {token}"
        options |= {"headers": headers, "retries": False, "redirect": False}
        try:
            try:
                return self._pool.urlopen(method, url, **options)
            except ProtocolError as error:
                if method != "GET" or not isinstance(error.args[-1], _CLOSED_BY_PEER):
                    raise
                return self._pool.urlopen(method, url, **options)
        except HTTPError as error:
            raise _no_answer(method, path, error) from error


def _no_answer(method: str, path: str, error: HTTPError) -> ConnectionFailedError:
    return ConnectionFailedError(f"{method} {path}: {error}")


def _pool(config: ClientConfig, timeout_s: float) -> HTTPConnectionPool:
    url = parse_url(config.host)
    if url.scheme not in {"http", "https"} or not url.host:
        message = f"`{config.host}` is no address of an API server: begin with https://"
        raise ConfigError(message)
    options: dict[str, Any] = {
        "socket_options": [*HTTPConnection.default_socket_options, *_KEEP_ALIVE],
        "timeout": Timeout(connect=timeout_s, read=timeout_s),
        "maxsize": _THREADS,
        "block": False,
    }
    if url.scheme == "http":
        return HTTPConnectionPool(url.host, url.port, **options)
    options |= {"ssl_context": _tls(config), "server_hostname": config.tls_server_name}
    return HTTPSConnectionPool(url.host, url.port, **options)


def _tls(config: ClientConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.ca_file, cadata=config.ca_data)
        # Python 3.13 asks for extensions that the authorities of many clusters do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.client_cert_file:
            context.load_cert_chain(config.client_cert_file, config.client_key_file)
    except (OSError, ValueError) as error:
        message = f"the certificates for {config.host} cannot be used: {error}"
        raise ConfigError(message) from error
    return context
