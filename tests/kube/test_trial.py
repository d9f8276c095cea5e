"""Asking what a server would keep, without a trace."""

from contextlib import closing
from typing import Any

import pytest

from kube.client import Client
from kube.config import ClientConfig
from kube.draversions import VersionedClient
from kube.errors import ForbiddenError, NotFoundError, NotServedError
from kube.paths import resource_claims
from kube.trial import would_keep
from tests.fakes.api_server import serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

AMOUNTS: dict[str, Any] = {"requests": {"memory": "1Mi"}}
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "trial", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "c", "capacity": AMOUNTS}}]
        }
    },
}


@pytest.mark.parametrize(("version", "kept"), [("1.35", None), ("1.36", AMOUNTS)])
def test_the_answer_is_what_would_be_stored(version: str, kept: Any) -> None:
    """Nothing is, however often the server is asked."""
    with serving(version) as server, closing(server.client()) as client:
        for _ in range(2):
            answer = would_keep(client, resource_claims("default"), CLAIM)
            assert answer["spec"]["devices"]["requests"][0]["exactly"].get("capacity") == kept
        assert server.run(server.server.api.list("resourceclaims"))[0] == []


@pytest.mark.parametrize("kind", [Client, VersionedClient])
def test_a_kind_that_is_not_there_is_told_from_a_namespace(kind: type[Client]) -> None:
    """From the first follows something about the server, from the second nothing."""

    def old(_request: Request, exchange: Exchange) -> None:
        exchange.send(404, b"404 page not found\n", {"Content-Type": "text/plain"})

    with (
        ScriptedServer(old) as scripted,
        closing(kind(ClientConfig(host=scripted.url), user_agent="test", timeout_s=5)) as client,
        pytest.raises(NotServedError),
    ):
        would_keep(client, resource_claims("default"), CLAIM)
    with serving() as server, closing(server.client()) as client:
        path = resource_claims("nowhere")
        with pytest.raises(NotFoundError, match="nowhere"):
            would_keep(client, path, CLAIM | {"metadata": {"namespace": "nowhere"}})


def test_a_refusal_is_passed_on() -> None:
    """Who may not create the kind is told nothing of it."""
    with serving() as server, closing(server.client()) as client:
        server.call(server.server.fail_next, 1, 403)
        with pytest.raises(ForbiddenError):
            would_keep(client, resource_claims("default"), CLAIM)
