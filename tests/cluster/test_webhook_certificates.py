"""The webhook as a process that a real API server asks, with certificates that it makes itself.

Endpoints written by hand lead the chart's Service to it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from kube import paths
from kube.cabundle import PLURALS, configuration_path
from kube.client import JSON_PATCH
from kube.errors import ApiError
from tests.cluster.cluster import REPOSITORY
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.kubeconfigs import write_for_token
from tests.cluster.places import node_address
from tests.cluster.test_webhook_manifests import ABSENT, OWN, TEAM, Server, apply_all
from tests.cluster.up import bring_up_api_server
from tests.patience import eventually
from tests.webhook.translating import a_container, a_pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NAME = "gpuslice-webhook"
SECRET = paths.resource("v1", "secrets", namespace=OWN, name="gpuslice-webhook-tls")
_PORT, _PROBE_PORT = 9443, 9080


@pytest.fixture
def server(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Server]:
    """Return an API server with the manifests applied."""
    options = Options(minor=minor_of(request.config), authorization="RBAC")
    with (
        bring_up_api_server(session_folder / "certificates", options) as cluster,
        cluster.client() as client,
    ):
        apply_all(client)
        yield Server(cluster, client)


def lead_here(server: Server) -> None:
    """Let the chart's Service lead to the program."""
    slices = paths.resource("discovery.k8s.io/v1", "endpointslices", namespace=OWN)
    metadata = {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}}
    server.create(
        slices,
        metadata=metadata,
        addressType="IPv4",
        endpoints=[{"addresses": [node_address(0)], "conditions": {"ready": True}}],
        ports=[{"name": "https", "port": _PORT, "protocol": "TCP"}],
    )


def credentials(server: Server, folder: Path) -> Path:
    """Write a kubeconfig with the rights that the chart gives the webhook."""
    token = server.cluster.kubectl("create", "token", NAME, f"--namespace={OWN}").strip()
    (folder / "token").write_text(token)
    return write_for_token(server.cluster.state, "webhook", folder / "token")


@contextmanager
def running(folder: Path, credentials_file: Path, *more: str) -> Iterator[None]:
    """Run the program with *more* flags for the block, once it is ready."""
    flags = {
        "namespace": OWN,
        "kubeconfig": credentials_file,
        "address": node_address(0),
        "port": _PORT,
        "probe-address": node_address(0),
        "probe-port": _PROBE_PORT,
        "drain-s": 0,
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "webhook", *words, *more], cwd=REPOSITORY, stdout=log, stderr=log
        )
        try:
            eventually(lambda: is_ready() or process.poll() is not None, 90)
            assert process.poll() is None, (folder / "log").read_text()
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0


def is_ready() -> bool:
    """Tell whether the program says so."""
    connection = HTTPConnection(node_address(0), _PROBE_PORT, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def bundles(server: Server) -> set[str | None]:
    """Return all authorities in the configurations."""
    found: set[str | None] = set()
    for plural in PLURALS:
        said: Any = json.loads(server.client.get(configuration_path(plural, "gpuslice")))
        found |= {each["clientConfig"].get("caBundle") for each in said["webhooks"]}
    return found


def test_an_api_server_trusts_what_the_program_made(server: Server, tmp_path: Path) -> None:
    """A GPU pod is answered, also after manifests were applied again, a restart, and no Secret."""
    lead_here(server)
    gpu = a_pod(a_container("main", gpu=1))
    assert ABSENT in server.refusal(lambda: server.pod(TEAM, "before", gpu))
    file = credentials(server, tmp_path)
    with running(tmp_path, file):
        eventually(lambda: is_answered(server, gpu))
        (first,) = bundles(server)
        for plural in PLURALS:
            operations = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
            path = configuration_path(plural, "gpuslice")
            server.client.patch(path, operations, content_type=JSON_PATCH)
        eventually(lambda: bundles(server) == {first})
        eventually(lambda: is_answered(server, gpu))
    assert ABSENT in server.refusal(lambda: server.pod(TEAM, "between", gpu))
    with running(tmp_path, file):
        eventually(lambda: is_answered(server, gpu))
        assert bundles(server) == {first}
    server.client.delete(SECRET)
    with running(tmp_path, file):
        eventually(lambda: is_answered(server, gpu))
        assert bundles(server) != {first}
    asked = server.asked()
    assert 403 not in asked, asked[403]


def is_answered(server: Server, pod: dict[str, Any]) -> bool:
    """Tell whether the webhook decides about *pod*, whatever it decides."""
    path = paths.pods(TEAM)
    named = {**pod, "metadata": {**pod["metadata"], "name": "asked", "namespace": TEAM}}
    try:
        server.client.create(path, named, {"dryRun": "All"})
    except ApiError as error:
        return "denied the request" in str(error)
    return True
