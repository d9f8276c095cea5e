"""The webhook with an API server that serves `resource.k8s.io` in a version before `v1` alone.

What it is asked about, what it reads and what it makes is then in that version; the chart is told
which one it is.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube import paths
from kube.errors import NotFoundError
from tests.charts.rendering import Object, render
from tests.charts.tools import check
from tests.cluster.alone import serving
from tests.cluster.conftest import minor_of
from tests.cluster.errors import MissingError
from tests.cluster.test_webhook_certificates import credentials, lead_here, running
from tests.cluster.test_webhook_manifests import COLLECTIONS, OWN, TEAM, JsonObject, Server
from tests.cluster.up import bring_up_api_server
from tests.patience import eventually
from tests.webhook.translating import a_container, a_pod
from webhook.requestannotation import ANNOTATION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

VERSION = "v1beta1"
_GROUP = f"resource.k8s.io/{VERSION}"
_TEMPLATES = paths.resource(_GROUP, "resourceclaimtemplates", namespace=TEAM)
_CLAIMS = paths.resource(_GROUP, "resourceclaims", namespace=TEAM)


@pytest.fixture
def server(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Server]:
    """Return an API server that serves one version, with what the chart renders for it."""
    try:
        check()
    except MissingError as error:
        if request.config.getoption("--require-charts"):
            raise
        pytest.skip(str(error))
    minor = minor_of(request.config)
    values = {"mode": "dra", "resourceApiVersion": VERSION}
    objects = render(values, kubernetes=f"{minor}.0")
    with (
        bring_up_api_server(session_folder / "versions", serving(minor, VERSION)) as cluster,
        cluster.client() as client,
    ):
        made = Server(cluster, client)
        for name in (OWN, TEAM):
            made.create(paths.namespaces(), metadata={"name": name})
            accounts = paths.resource("v1", "serviceaccounts", namespace=name)
            made.create(accounts, metadata={"name": "default"})
        for each in filter(_is_the_webhooks, objects):
            group_version, plural = COLLECTIONS[each["kind"]]
            namespace = each["metadata"].get("namespace")
            client.create(paths.resource(group_version, plural, namespace=namespace), each)
        yield made


def _is_the_webhooks(item: Object) -> bool:
    return bool(item["metadata"]["labels"]["app.kubernetes.io/component"] == "webhook")


def claim(**devices: object) -> JsonObject:
    """Return a claim for a whole GPU, as that version writes it."""
    request = {"name": "gpu", "deviceClassName": "gpu.gpuslice.io"}
    return {
        "apiVersion": _GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": TEAM},
        "spec": {"devices": {"requests": [request], **devices}},
    }


def test_pods_get_templates_and_claims_are_judged(server: Server, tmp_path: Path) -> None:
    """Both are made and read in the version that there is."""
    lead_here(server)
    flags = ("--mode=dra", f"--resource-api-version={VERSION}")
    with running(tmp_path, credentials(server, tmp_path), *flags):
        pod = server.pod(TEAM, "whole", a_pod(a_container("main", gpu=1)))
        assert ANNOTATION in pod["metadata"]["annotations"]
        (asked,) = pod["spec"]["resourceClaims"]
        path = f"{_TEMPLATES}/{asked['resourceClaimTemplateName']}"

        def template() -> JsonObject | None:
            """Return what was made for the pod."""
            with contextlib.suppress(NotFoundError):
                return dict(json.loads(server.client.get(path)))
            return None

        made = eventually(template)
        assert made is not None
        (request,) = made["spec"]["spec"]["devices"]["requests"]
        assert request["deviceClassName"] == "gpu.gpuslice.io"
        wrong = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", "priorty": 0}
        config = [{"opaque": {"driver": "gpuslice.io", "parameters": wrong}}]
        said = server.refusal(lambda: server.create(_CLAIMS, **claim(config=config)))
        assert "denied the request" in said
        assert "priorty" in said
        server.create(_CLAIMS, **claim())
    asked_for = server.asked()
    assert 403 not in asked_for, asked_for[403]
