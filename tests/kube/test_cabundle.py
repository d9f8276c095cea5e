"""Authorities in webhook configurations, in a simulated API server."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube.cabundle import PLURALS, BundleWriter, configuration_path
from kube.certificates import make_authority, utc_now
from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.api_server import serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

NAME = "gate"
MUTATING, VALIDATING = PLURALS
BUNDLE = make_authority("gate", utc_now()).certificate_pem
ENCODED = base64.b64encode(BUNDLE).decode()
OTHER = base64.b64encode(make_authority("other", utc_now()).certificate_pem).decode()


@pytest.fixture
def client() -> Iterator[Client]:
    """Return a client of a server."""
    with serving() as running:
        made = running.client()
        yield made
        made.close()


def webhook(name: str, **client_config: Any) -> dict[str, Any]:
    """Build one webhook of a configuration."""
    service = {"namespace": "gpu", "name": "gate", "path": "/webhook"}
    return {
        "name": f"{name}.gpuslice.io",
        "clientConfig": {"service": service} | client_config,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
    }


def configure(client: Client, plural: str, webhooks: list[dict[str, Any]]) -> None:
    """Create a configuration."""
    client.create(configuration_path(plural), {"metadata": {"name": NAME}, "webhooks": webhooks})


def bundles(client: Client, plural: str) -> list[str | None]:
    """Return the authorities of each webhook."""
    said = json.loads(client.get(configuration_path(plural, NAME)))
    return [each["clientConfig"].get("caBundle") for each in said["webhooks"]]


def writer(client: Client, *names: str) -> BundleWriter:
    """Return what is tested."""
    return BundleWriter(client, names or (NAME,), namespace="gpu", service_name="gate")


def test_the_bundle_is_written_for_our_service_alone(client: Client) -> None:
    """Webhooks of others in the same configuration keep what they have."""
    others = {"service": {"namespace": "gpu", "name": "other"}, "caBundle": OTHER}
    configure(
        client,
        MUTATING,
        [webhook("a"), webhook("b", **others), webhook("c", caBundle=OTHER)],
    )
    configure(client, VALIDATING, [webhook("d")])
    written = writer(client)
    assert written.problem() == "not written yet"
    written.write(BUNDLE)
    assert written.problem() is None
    assert bundles(client, MUTATING) == [ENCODED, OTHER, ENCODED]
    assert bundles(client, VALIDATING) == [ENCODED]


def test_the_bundle_is_written_for_our_url(client: Client) -> None:
    """Others of the same beginning are others."""

    def at(name: str, url: str) -> dict[str, Any]:
        """Return a webhook by URL."""
        made = webhook(name)
        made["clientConfig"] = {"url": url}
        return made

    hooks = [
        at("a", "https://gate.example.com/webhook"),
        at("b", "https://gate.example.com:8443/webhook"),
        at("c", "https://gate.example.com.org/webhook"),
        webhook("d"),
    ]
    configure(client, MUTATING, hooks)
    written = BundleWriter(
        client,
        (NAME,),
        namespace="gpu",
        service_name="gate",
        url="https://gate.example.com/",
    )
    written.write(BUNDLE)
    assert bundles(client, MUTATING) == [ENCODED, None, None, ENCODED]


def test_the_same_again_is_no_write(client: Client) -> None:
    """Nothing changes where nothing has to."""
    configure(client, MUTATING, [webhook("a")])
    written = writer(client)
    written.write(BUNDLE)
    before = client.get(configuration_path(MUTATING, NAME))
    written.write(BUNDLE)
    assert client.get(configuration_path(MUTATING, NAME)) == before


def test_a_configuration_that_is_not_there_is_no_problem(client: Client) -> None:
    """A chart may install one kind alone, or later."""
    written = writer(client)
    written.write(BUNDLE)
    assert written.problem() is None
    configure(client, VALIDATING, [webhook("a")])
    written.write(BUNDLE)
    assert bundles(client, VALIDATING) == [ENCODED]


def scripted(answer: Any) -> ScriptedServer:
    """Serve one mutating configuration whose patches get *answer*."""

    def script(request: Request, exchange: Exchange) -> None:
        if request.method == "PATCH":
            answer(request, exchange)
        elif MUTATING in request.path:
            exchange.json({"metadata": {"name": NAME}, "webhooks": [webhook("a")]})
        else:
            exchange.status(404, "NotFound")

    return ScriptedServer(script)


def test_a_write_is_guarded_by_the_name_of_the_webhook() -> None:
    """Somebody may put another in its place between the read and the write."""
    patches: list[Any] = []

    def note(request: Request, exchange: Exchange) -> None:
        patches.extend(request.json())
        exchange.json({})

    with scripted(note) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test")
        writer(client).write(BUNDLE)
        client.close()
    assert patches == [
        {"op": "test", "path": "/webhooks/0/name", "value": "a.gpuslice.io"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ENCODED},
    ]


def test_a_refused_write_is_a_problem_until_it_succeeds() -> None:
    """The reason is told; the next try may go well."""
    refusals = [1]

    def refuse_once(_request: Request, exchange: Exchange) -> None:
        if refusals:
            refusals.pop()
            exchange.status(403, "Forbidden", "may not patch")
        else:
            exchange.json({})

    with scripted(refuse_once) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test")
        written = writer(client)
        written.write(BUNDLE)
        assert written.problem() == f"{MUTATING}/{NAME} 403 Forbidden: may not patch"
        written.write(BUNDLE)
        assert written.problem() is None
        client.close()
