"""Certificates that the program makes by itself, in a simulated cluster."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from kube.cabundle import PLURALS, configuration_path
from kube.client import JSON_PATCH, Client
from kube.paths import namespaces, resource
from kube.tls import ServingContext
from sim.loopthread import LoopThread
from tests.fakes.api_server import ServerThread, serving
from tests.kube.test_cabundle import bundles, configure, webhook
from tests.kube.test_certificates import handshake
from tests.patience import eventually
from webhook.certificates import Certificates, Pace
from webhook.metrics import Metrics
from webhook.settings import WebhookSettings

SECRET = resource("v1", "secrets", namespace="gpu", name="gpuslice-webhook-tls")
HOST = "gate.gpu.svc"


@pytest.fixture
def server() -> Iterator[ServerThread]:
    """Run an API server with a namespace and our configurations."""
    with serving() as running:
        client = running.client()
        client.create(namespaces(), {"metadata": {"name": "gpu"}})
        for plural in PLURALS:
            configure(client, plural, [webhook("a")])
        client.close()
        yield running


class Kept:
    """The certificates of one replica, while it runs."""

    def __init__(self, client: Client, **settings: object) -> None:
        self.tls = ServingContext()
        self.client = client
        self.certificates = Certificates(
            WebhookSettings.model_validate(
                {
                    "namespace": "gpu",
                    "service_name": "gate",
                    "configurations": ["gate"],
                    **settings,
                }
            ),
            client=client,
            serving=self.tls,
            metrics=Metrics(),
            pace=Pace(settle_s=0.05, cluster_s=0.5),
        )

    def is_trusted(self) -> bool:
        """Tell whether all that the API server has been told agrees with what is served."""
        said = {each for plural in PLURALS for each in bundles(self.client, plural)}
        bundle = said.pop()
        if said or bundle is None or self.certificates.problem() is not None:
            return False
        return bool(handshake(self.tls, base64.b64decode(bundle), HOST))


@contextmanager
def kept(server: ServerThread, **settings: object) -> Iterator[Kept]:
    """Run one replica's certificates."""
    client, loop = server.client(), LoopThread("certificates")
    loop.start()
    one = Kept(client, **settings)
    running = asyncio.run_coroutine_threadsafe(one.certificates.keep(), loop._loop)
    try:
        yield one
    finally:
        running.cancel()
        loop.stop()
        client.close()


def test_an_install_is_trusted_by_itself(server: ServerThread) -> None:
    """A certificate is made, and the API server is told whom to trust; replicas agree."""
    with kept(server) as one, kept(server) as other:
        eventually(one.is_trusted)
        eventually(other.is_trusted)


def test_a_bundle_that_is_taken_away_is_put_back(server: ServerThread) -> None:
    """A chart that is applied anew knows nothing of it."""
    with kept(server) as one:
        eventually(one.is_trusted)
        for plural in PLURALS:
            operations = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            one.client.patch(
                configuration_path(plural, "gate"), operations, content_type=JSON_PATCH
            )
        eventually(one.is_trusted)


def test_a_configuration_that_comes_later_gets_its_bundle(server: ServerThread) -> None:
    """The program may start first."""
    client = server.client()
    client.delete(configuration_path(PLURALS[0], "gate"))
    with kept(server) as one:
        eventually(lambda: bundles(one.client, PLURALS[1]) != [None])
        configure(client, PLURALS[0], [webhook("a")])
        eventually(one.is_trusted)
    client.close()


def test_a_deleted_secret_comes_back_with_another_authority(server: ServerThread) -> None:
    """The API server goes on trusting what is served."""
    with kept(server) as one:
        eventually(one.is_trusted)
        before = bundles(one.client, PLURALS[0])
        one.client.delete(SECRET)
        eventually(lambda: bundles(one.client, PLURALS[0]) != before)
        eventually(one.is_trusted)
        assert json.loads(one.client.get(SECRET))["data"]


def test_authorities_of_mounted_certificates_are_written_too(
    server: ServerThread, tmp_path: Path
) -> None:
    """Somebody else signs, and we tell the API server of it."""
    authority = trustme.CA()
    pair = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    pair.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    pair.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    files = {
        "tls": "files",
        "tls_cert_file": tmp_path / "tls.crt",
        "tls_key_file": tmp_path / "tls.key",
    }
    with kept(server, **files) as unwritten:
        eventually(lambda: unwritten.certificates.problem() is None)
        assert bundles(unwritten.client, PLURALS[0]) == [None]
    with kept(server, **files, tls_ca_file=tmp_path / "ca.crt") as one:
        # This authority lacks what strict clients ask for: compare what is written.
        wanted = [base64.b64encode(authority.cert_pem.bytes()).decode()]
        eventually(lambda: all(bundles(one.client, plural) == wanted for plural in PLURALS))


def test_without_the_api_server_we_are_not_ready(server: ServerThread) -> None:
    """A program that never could make a certificate says why."""
    client = server.client()
    with kept(server, namespace="nowhere") as one:
        eventually(lambda: "nowhere" in (one.certificates.problem() or ""))
        assert str(one.certificates.problem()).startswith("there is no certificate yet")
    client.close()
