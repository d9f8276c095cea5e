"""That what a program makes goes with its Service."""

import json
from collections.abc import Callable, Iterator

import pytest

from kube.client import Client
from kube.config import ClientConfig
from kube.election import Elector
from kube.errors import KubeError
from kube.lease import Candidate, identity_of
from kube.objects import JsonObject
from kube.owners import Owners, nobody, service_owner
from kube.paths import leases, namespaces, resource
from kube.selfmade import SelfMade
from tests.fakes.api_server import serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer
from tests.patience import eventually

NAMESPACE = "gpu"
SERVICE = "gate"
PATHS = (
    resource("v1", "secrets", namespace=NAMESPACE, name="tls"),
    leases(NAMESPACE, "lead"),
)
UID = "6f1c"
OWNER = {"apiVersion": "v1", "kind": "Service", "name": SERVICE, "uid": UID}


@pytest.fixture
def client() -> Iterator[Client]:
    """Return a client of an API server with a namespace."""
    with serving() as running:
        made = running.client()
        made.create(namespaces(), {"metadata": {"name": NAMESPACE}})
        yield made
        made.close()


def owners_of(client: Client, path: str) -> list[JsonObject]:
    """Return what an object says of its owners."""
    return list(json.loads(client.get(path))["metadata"].get("ownerReferences", []))


def make_all(client: Client, owners: Owners) -> list[list[JsonObject]]:
    """Have a Secret and a Lease made; return the owners of each."""
    SelfMade(client, namespace=NAMESPACE, name="tls", hosts=["gate.gpu.svc"], owners=owners)()
    elector = Elector(
        client,
        namespace=NAMESPACE,
        name="lead",
        identity=identity_of("pod", "10.0.0.1:9443"),
        owners=owners,
    )
    elector.start()
    try:
        eventually(elector.is_leader)
    finally:
        elector.stop()
    return [owners_of(client, path) for path in PATHS]


def test_what_is_made_goes_with_its_owners(client: Client) -> None:
    """The Secret and the Lease name them; without any they are made all the same."""
    assert make_all(client, lambda: {"ownerReferences": [OWNER]}) == [[OWNER], [OWNER]]
    for path in PATHS:
        client.delete(path)
    assert make_all(client, nobody) == [[], []]


def test_what_had_no_owner_gets_one(client: Client) -> None:
    """What a release before owners has made goes with the Service of the next one."""
    assert make_all(client, nobody) == [[], []]
    assert make_all(client, lambda: {"ownerReferences": [OWNER]}) == [[OWNER], [OWNER]]


def test_who_may_not_set_owners_goes_without() -> None:
    """OwnerReferencesPermissionEnforcement lets those alone set them who may delete the object."""
    kept: dict[str, JsonObject] = {}

    def answer(request: Request, exchange: Exchange) -> None:
        if request.method == "GET":
            if request.path in kept:
                exchange.json(kept[request.path])
            else:
                exchange.status(404, "NotFound")
            return
        item = json.loads(request.body)
        path = (
            request.path
            if request.method == "PUT"
            else f"{request.path}/{item['metadata']['name']}"
        )
        if request.method == "PUT" and item["metadata"].get("ownerReferences"):
            exchange.status(
                403, "Forbidden", "cannot set an ownerRef on a resource you can't delete"
            )
            return
        kept[path] = item
        exchange.json(item)

    with ScriptedServer(answer) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)
        assert [
            make_all(client, owners) for owners in (nobody, lambda: {"ownerReferences": [OWNER]})
        ] == [[[], []]] * 2
        client.close()


def test_what_is_deleted_is_made_again_for_its_owners(client: Client) -> None:
    """A program that ends beside its release leaves nothing that Kubernetes would not delete."""
    make_all(client, lambda: {"ownerReferences": [OWNER]})
    made = SelfMade(client, namespace=NAMESPACE, name="tls", hosts=["gate.gpu.svc"])
    lease = Candidate(client, namespace=NAMESPACE, name="lead", identity="other")
    made()
    lease.attempt()
    for path in PATHS:
        client.delete(path)
    made()
    lease.attempt()
    assert [owners_of(client, path) for path in PATHS] == [[OWNER], [OWNER]]


def asking(answers: list[Callable[[Exchange], None]]) -> list[JsonObject | str]:
    """Return what is found about the Service by each answer of the API server."""

    def answer(request: Request, exchange: Exchange) -> None:
        assert request.path == resource("v1", "services", namespace=NAMESPACE, name=SERVICE)
        answers.pop(0)(exchange)

    found: list[JsonObject | str] = []
    with ScriptedServer(answer) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)
        owners = service_owner(client, namespace=NAMESPACE, name=SERVICE)
        while answers:
            try:
                found.append(owners())
            except KubeError as error:
                found.append(type(error).__name__)
        client.close()
    return found


def test_the_owner_is_the_service_by_its_uid() -> None:
    """It holds up no deletion. One that is away or secret is none; silence is no answer."""
    service = {"metadata": {"name": SERVICE, "uid": UID}}
    said = asking(
        [
            lambda exchange: exchange.json(service),
            lambda exchange: exchange.status(403, "Forbidden"),
            lambda exchange: exchange.status(404, "NotFound"),
            lambda exchange: exchange.status(500, "InternalError"),
        ]
    )
    assert said == [{"ownerReferences": [OWNER]}, {}, {}, "ServerError"]
