"""What the webhook made in its namespace goes with its Service: Kubernetes' controllers see to it.

An uninstalled release ends its pods some seconds after its Service is gone, and meanwhile the
program makes again what was deleted. What is made so must be deleted, too.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube import paths
from kube.errors import NotFoundError
from tests.cluster import components
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.test_webhook_certificates import NAME, SECRET, credentials, running
from tests.cluster.test_webhook_manifests import OWN, JsonObject, Server, apply_all
from tests.cluster.up import bring_up_api_server, start_ready
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LEASE = paths.leases(OWN, NAME)
SERVICE = paths.resource("v1", "services", namespace=OWN, name=NAME)


@pytest.fixture
def server(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Server]:
    """Return an API server with the manifests applied, and Kubernetes' controllers."""
    options = Options(minor=minor_of(request.config), authorization="RBAC")
    with (
        bring_up_api_server(session_folder / "owner", options) as cluster,
        cluster.client() as client,
    ):
        apply_all(client)
        controllers = components.controller_manager(cluster.assets, cluster.state, options)
        with cluster.network():
            start_ready(cluster, controllers)
        yield Server(cluster, client)


def read(server: Server, path: str) -> JsonObject | None:
    """Return an object, if it is there."""
    try:
        found: JsonObject = json.loads(server.client.get(path))
    except NotFoundError:
        return None
    return found


def uid_of(server: Server, path: str) -> str | None:
    """Return which object it is."""
    found = read(server, path)
    return None if found is None else str(found["metadata"]["uid"])


def test_secret_and_lease_go_with_the_service(server: Server, tmp_path: Path) -> None:
    """Also when a replica serves on for a while and makes them again."""
    with running(tmp_path, credentials(server, tmp_path)):
        service = read(server, SERVICE)
        assert service is not None
        for path in (SECRET, LEASE):
            made = eventually(lambda path=path: read(server, path))  # type: ignore[misc]
            assert made is not None
            (owner,) = made["metadata"]["ownerReferences"]
            assert owner["uid"] == service["metadata"]["uid"]
        first = uid_of(server, LEASE)
        server.client.delete(SERVICE)
        eventually(lambda: read(server, SECRET) is None)
        eventually(lambda: uid_of(server, LEASE) not in {first, None})
    eventually(lambda: read(server, SECRET) is None and read(server, LEASE) is None)
