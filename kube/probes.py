"""`/healthz`, `/readyz` and `/metrics` over plain HTTP.

The standard library's server is enough for kubelet and Prometheus, except that it looks its own
address up in DNS when it starts, which takes half a minute where DNS does not answer.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""Returns `None` when all is well, or a sentence; raising says the same with the error's text."""

_Answer = Callable[[str, str], tuple[int, str, bytes]]

_PLAIN: Final = "text/plain; charset=utf-8"
_CLIENT_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.2


class ProbeServer:
    """Answers 200 or 503 with one line for each check.

    `/healthz` runs *checks*, `/readyz` runs these and *ready_checks*; `/metrics` needs *registry*,
    which also gets `gpuslice_check_success` for each of *ready_checks*.
    """

    def __init__(
        self,
        address: str,
        port: int,
        checks: Mapping[str, Check],
        *,
        ready_checks: Mapping[str, Check] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Bind, so that *port* 0 has become a number; raises `OSError`."""
        self._live = dict(checks)
        self._ready = {**checks, **(ready_checks or {})}
        self._registry = registry
        if registry is not None and ready_checks:
            registry.register(_CheckCollector(ready_checks))
        server_class = _Server6 if ":" in address else _Server
        self._server = server_class((address, port), self._answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="probes", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """Return status, content type and body."""
        if path == "/healthz":
            return _verdict(self._live)
        if path == "/readyz":
            return _verdict(self._ready)
        if path == "/metrics" and self._registry is not None:
            encode, content_type = choose_encoder(accept)
            return 200, content_type, encode(self._registry)
        return 404, _PLAIN, b"not found\n"


class _CheckCollector(Collector):
    """Tells which checks fail, so that an alert can say more than that a pod is not ready."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Say nothing: checks may look at what is made after them."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Run the checks."""
        family = GaugeMetricFamily(
            "gpuslice_check_success",
            "Whether a condition of being ready holds, by its name in /readyz.",
            labels=["check"],
        )
        for name, check in self._checks.items():
            family.add_metric([name], _failure(name, check) is None)
        yield family


def _verdict(checks: Mapping[str, Check]) -> tuple[int, str, bytes]:
    failures = {name: _failure(name, check) for name, check in checks.items()}
    lines = [
        f"{name}: ok" if said is None else f"{name}: failed: {said}"
        for name, said in failures.items()
    ]
    status = 200 if all(said is None for said in failures.values()) else 503
    return status, _PLAIN, ("\n".join(lines or ["ok"]) + "\n").encode()


def _failure(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever it raised is the answer
        log.warning("check failed", check=name, error=str(error))
        return str(error) or type(error).__name__


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], answer: _Answer) -> None:
        self.answer = answer
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        log.debug("probe cut off", client=str(client_address))


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status, content_type, body = self.server.answer(path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "gpuslice"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name upstream
        """Leave probes out of the log."""
