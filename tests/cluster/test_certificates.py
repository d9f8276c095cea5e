"""Tests of the certificates and kubeconfigs of a cluster."""

import http.server
import json
import ssl
import stat
import threading
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from kube.client import Client
from kube.config import kubeconfig
from tests.cluster.certificates import Authority
from tests.cluster.kubeconfigs import write_all
from tests.cluster.places import State


class _Version(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the caller's common name, as the server's version."""
        assert isinstance(self.connection, ssl.SSLSocket)
        presented = self.connection.getpeercert(binary_form=True)
        subject = x509.load_der_x509_certificate(presented or b"").subject
        (name,) = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        text = json.dumps({"gitVersion": name.value}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_server_and_client_trust_one_another(tmp_path: Path) -> None:
    """A client with one certificate of the authority reaches a server with another."""
    state = State(tmp_path / "state")
    state.make()
    write_all(state, "node-1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(state.pki / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(state.pki / "apiserver.crt", state.pki / "apiserver.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Version)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        path = state.kubeconfig("node")
        text = path.read_text().replace("10.96.0.1:443", f"127.0.0.1:{server.server_port}")
        path.write_text(text)
        client = Client(kubeconfig(str(path)), user_agent="test")
        assert client.server_version() == "system:node:node-1"
        client.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_certificate_names_user_and_groups(tmp_path: Path) -> None:
    """A client's user is its common name and its groups are its organizations."""
    Authority(tmp_path).issue("kubelet", "system:node:n", groups=("system:nodes",))
    subject = x509.load_pem_x509_certificate((tmp_path / "kubelet.crt").read_bytes()).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "system:node:n"
    ]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [each.value for each in groups] == ["system:nodes"]


def test_keys_are_their_owners(tmp_path: Path) -> None:
    """Nobody else may read a key or a kubeconfig."""
    state = State(tmp_path / "state")
    state.make()
    write_all(state, "node-1")
    secret = [*state.pki.glob("*.key"), *state.kubeconfigs.iterdir()]
    assert len(secret) >= 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
