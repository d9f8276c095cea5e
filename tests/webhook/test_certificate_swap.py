"""Certificates that change while reviews are answered, in files as kubelet replaces them."""

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trustme
from structlog.testing import capture_logs

from kube.certificates import KeyPair
from kube.client import Client
from kube.config import ClientConfig
from tests.patience import eventually
from tests.webhook.serving import Served, issued, review_body, served
from webhook.certificates import Certificates, Pace
from webhook.settings import WebhookSettings

SWAPS: Final = 20
CLIENTS: Final = 3
_QUICK: Final = Pace(files_s=0.02)
_KINDS: Final = (trustme.KeyType.ECDSA, trustme.KeyType.RSA)


class Mounted:
    """A mounted Secret: files that are links into a directory which is exchanged at once."""

    def __init__(self, directory: Path, pair: KeyPair) -> None:
        self.directory = directory
        self._number = 0
        self.replace(pair)
        for name in ("tls.crt", "tls.key"):
            (directory / name).symlink_to(Path("..data") / name)

    def replace(self, pair: KeyPair) -> None:
        """Exchange all files in one step."""
        self._number += 1
        fresh = self.directory / f"..{self._number}"
        fresh.mkdir()
        (fresh / "tls.crt").write_bytes(pair.certificate_pem)
        (fresh / "tls.key").write_bytes(pair.key_pem)
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.replace(self.directory / "..data")


@contextmanager
def watched(server: Served, mounted: Mounted, pace: Pace = _QUICK) -> Iterator[Certificates]:
    """Watch the files as the program does."""
    settings = WebhookSettings(
        namespace="x",
        tls="files",
        tls_cert_file=mounted.directory / "tls.crt",
        tls_key_file=mounted.directory / "tls.key",
    )
    client = Client(ClientConfig(host="http://127.0.0.1:1"), user_agent="test")
    certificates = Certificates(
        settings, client=client, serving=server.tls, metrics=server.metrics, pace=pace
    )
    kept = server.spawn(certificates.keep())
    try:
        yield certificates
    finally:
        kept.cancel()
        client.close()


def der(pair: KeyPair) -> bytes:
    """Return the first certificate of *pair*."""
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(pair.certificate_pem.decode().partition(end)[0] + end)


def presented(server: Served) -> bytes:
    """Return the certificate that a new connection meets."""
    with server.connect() as connection:
        return connection.presented()


def wait_presented(server: Served, pair: KeyPair) -> None:
    """Wait until new connections meet *pair*."""
    eventually(lambda: presented(server) == der(pair))


def ask_until(server: Served, done: threading.Event) -> tuple[int, int]:
    """Ask over one kept connection and over new ones; return how many answers each gave."""
    kept_answers = fresh_answers = 0
    with server.connect() as kept:
        while not done.is_set():
            assert kept.post("/webhook", review_body()).response["allowed"]
            kept_answers += 1
            assert server.post("/validate", review_body()).response["allowed"]
            fresh_answers += 1
    return kept_answers, fresh_answers


def test_reviews_are_answered_while_certificates_change(tmp_path: Path) -> None:
    """No request and no connection fails in 20 swaps, and each new certificate is presented."""
    done = threading.Event()
    with served() as server, ThreadPoolExecutor(CLIENTS) as pool:
        mounted = Mounted(tmp_path, issued(server.authority))
        with watched(server, mounted) as certificates:
            eventually(certificates.loaded.is_set)
            clients = [pool.submit(ask_until, server, done) for _ in range(CLIENTS)]
            try:
                for number in range(SWAPS):
                    pair = issued(server.authority, key_type=_KINDS[number % 2])
                    mounted.replace(pair)
                    wait_presented(server, pair)
            finally:
                done.set()
            assert all(min(client.result()) > 0 for client in clients)
            loads = "gpuslice_webhook_certificate_loads_total"
            assert server.sample(loads) == SWAPS + 1


def test_a_new_certificate_is_found_within_seconds(tmp_path: Path) -> None:
    """At the pace of the program one swap shows on new connections, and kept ones go on."""
    with served() as server, server.connect() as kept:
        mounted = Mounted(tmp_path, issued(server.authority))
        with watched(server, mounted, Pace()):
            pair = issued(server.authority)
            mounted.replace(pair)
            assert eventually(lambda: presented(server) == der(pair), 5)
            assert kept.post("/webhook", review_body()).status == 200


@pytest.mark.parametrize("half", ["tls.crt", "tls.key"])
def test_half_a_pair_changes_nothing(tmp_path: Path, half: str) -> None:
    """The old pair serves on and we stay ready; it is logged once and counted."""
    failures = "gpuslice_webhook_certificate_failures_total"
    with capture_logs() as logs, served() as server:
        old, new = issued(server.authority), issued(server.authority)
        mounted = Mounted(tmp_path, old)
        with watched(server, mounted) as certificates:
            eventually(certificates.loaded.is_set)
            content = new.certificate_pem if half == "tls.crt" else new.key_pem
            (tmp_path / "..data" / half).write_bytes(content)
            eventually(lambda: (server.sample(failures) or 0) >= 3)
            assert presented(server) == der(old)
            assert certificates.problem() is None
            (said,) = [each for each in logs if each["log_level"] == "error"]
            assert "KEY_VALUES_MISMATCH" in said["reason"]
            other = new.key_pem if half == "tls.crt" else new.certificate_pem
            (tmp_path / "..data" / ({"tls.crt", "tls.key"} - {half}).pop()).write_bytes(other)
            wait_presented(server, new)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tls.crt", b"", "this is no PEM certificate"),
        ("tls.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n", "this is no PEM certificate"),
        ("tls.key", b"-----BEGIN PRIVATE KEY-----\nAA", "cannot be used"),
        ("tls.key", None, "tls.key cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_read_changes_nothing(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    """The reason is in the log, the key is not."""
    failures = "gpuslice_webhook_certificate_failures_total"
    with capture_logs() as logs, served() as server:
        old = issued(server.authority)
        mounted = Mounted(tmp_path, old)
        with watched(server, mounted) as certificates:
            eventually(certificates.loaded.is_set)
            if content is None:
                (tmp_path / "..data" / name).unlink()
            else:
                (tmp_path / "..data" / name).write_bytes(content)
            eventually(lambda: server.sample(failures))
            assert presented(server) == der(old)
            assert certificates.problem() is None
    (failure,) = [each for each in logs if each["log_level"] == "error"]
    assert said in failure["reason"]
    assert old.key_pem.decode().splitlines()[1] not in str(logs)
