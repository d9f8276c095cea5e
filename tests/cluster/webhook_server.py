"""A TLS server that answers admission reviews, to see whether the API server reaches it."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

import trustme

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Make the response to a request, by the path that it came to and the request itself."""


def admit_with_name(_path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Admit the object with a warning that names it."""
    return {"allowed": True, "warnings": [f"seen {request['object']['metadata']['name']}"]}


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Review(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer one review."""
            length = int(self.headers["Content-Length"])
            request: dict[str, Any] = json.loads(self.rfile.read(length))["request"]
            path = self.path.partition("?")[0]
            review = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": request["uid"], **answer(path, request)},
            }
            text = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Review


class _Server(ThreadingTCPServer):
    # HTTPServer looks up its own name between bind and listen, and no name server answers here.
    daemon_threads = True


@contextmanager
def webhook_server(
    address: str, name: str, folder: Path, answer: Answer = admit_with_name
) -> Iterator[tuple[int, bytes]]:
    """Serve on *address* as *name* for the block; the port and the authority to trust."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    chain = folder / "webhook.pem"
    authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(chain))
    context.load_cert_chain(chain)
    server = _Server((address, 0), _handler(answer))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], authority.cert_pem.bytes()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
