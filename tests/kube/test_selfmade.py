"""Certificates that replicas share in a Secret, in a simulated API server."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from kube.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    CertificateError,
    is_issued_by,
    split_bundle,
    utc_now,
)
from kube.client import Client
from kube.config import ClientConfig
from kube.errors import ForbiddenError
from kube.paths import namespaces, resource
from kube.selfmade import (
    FOLLOWED,
    MANAGER,
    SETTLED,
    Content,
    SelfMade,
    next_content,
    with_new_authority,
)
from tests.fakes.api_server import ServerThread, serving
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer
from tests.kube.test_certificates import HOSTS, handshake, serving_with

NAMESPACE = "gpu"
NAME = "gate-tls"
SECRETS = resource("v1", "secrets", namespace=NAMESPACE)
SECRET = resource("v1", "secrets", namespace=NAMESPACE, name=NAME)


class Clock:
    """A time that is set."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        """Return it."""
        return self.now


@pytest.fixture
def server() -> Iterator[ServerThread]:
    """Run an API server with a namespace."""
    with serving() as running:
        client = running.client()
        client.create(namespaces(), {"metadata": {"name": NAMESPACE}})
        client.close()
        yield running


@pytest.fixture
def client(server: ServerThread) -> Iterator[Client]:
    """Return a client of it."""
    made = server.client()
    yield made
    made.close()


def replica(client: Client, clock: Clock | None = None, hosts: tuple[str, ...] = HOSTS) -> SelfMade:
    """Return one replica's view."""
    return SelfMade(client, namespace=NAMESPACE, name=NAME, hosts=hosts, clock=clock or Clock())


def held(client: Client) -> dict[str, bytes]:
    """Return what the Secret holds."""
    data: dict[str, str] = json.loads(client.get(SECRET))["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


def next_of(content: Content | None, now: datetime) -> Content:
    """Return the next content for the usual names."""
    return next_content(content, name=NAME, hosts=HOSTS, now=now)


def trusted(content: Content) -> bool:
    """Tell whether a client that trusts the bundle trusts what is served."""
    return bool(handshake(serving_with(content.serving), content.bundle, HOSTS[0]))


def test_the_first_replica_makes_what_the_others_take(client: Client) -> None:
    """One Secret of the usual type, and all serve the same pair."""
    first, second = replica(client), replica(client)
    pair = first()
    written = client.get(SECRET)
    assert second() == pair == first()
    assert client.get(SECRET) == written
    assert second.bundle == first.bundle
    secret = json.loads(client.get(SECRET))
    assert secret["type"] == "kubernetes.io/tls"
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert handshake(serving_with(pair), first.bundle or b"", HOSTS[1])


def test_replicas_that_start_at_once_agree(server: ServerThread) -> None:
    """Those who lose the race read what the winner wrote."""
    clients = [server.client() for _ in range(8)]
    replicas = [replica(each) for each in clients]
    with ThreadPoolExecutor(len(replicas)) as pool:
        pairs = list(pool.map(lambda each: each(), replicas))
    assert len(set(pairs)) == 1
    assert len({each.bundle for each in replicas}) == 1
    for each in clients:
        each.close()


def test_replicas_that_renew_at_once_agree(server: ServerThread) -> None:
    """The resource version lets one of them win."""
    clients, clock = [server.client() for _ in range(4)], Clock()
    replicas = [replica(each, clock) for each in clients]
    old = {each() for each in replicas}
    clock.now += SERVING_LIFETIME * 0.7
    with ThreadPoolExecutor(len(replicas)) as pool:
        new = set(pool.map(lambda each: each(), replicas))
    assert len(old) == len(new) == 1
    assert old != new
    for each in clients:
        each.close()


def test_a_serving_certificate_is_renewed_under_the_same_authority(client: Client) -> None:
    """Nobody needs to learn a new bundle."""
    clock = Clock()
    made = replica(client, clock)
    first, bundle = made(), made.bundle
    clock.now += SERVING_LIFETIME * 0.6
    assert made() == first
    clock.now += SERVING_LIFETIME * 0.1
    assert made() != first
    assert made.bundle == bundle


def test_other_names_need_another_certificate(client: Client) -> None:
    """A Service that is renamed gets one at once."""
    first = replica(client)()
    other = ("portal.gpu.svc", "portal.gpu.svc.cluster.local")
    moved = replica(client, hosts=other)
    assert moved() != first
    assert handshake(serving_with(moved()), moved.bundle or b"", other[0])


def test_an_authority_is_replaced_in_steps_that_all_can_follow() -> None:
    """At each step a client that knows the bundle of the step before trusts what is served."""
    now = utc_now()
    first = next_of(None, now)
    # Seen from the future, everything else of it is valid still.
    now += AUTHORITY_LIFETIME * 0.67
    announced = next_of(first, now)
    assert announced.serving == first.serving
    assert split_bundle(announced.bundle) == (
        announced.authority.certificate_pem,
        first.authority.certificate_pem,
    )


def test_a_new_authority_waits_before_it_signs() -> None:
    """It is announced, then signs, and the old one is forgotten when nobody uses it."""
    now = utc_now()
    first = next_of(None, now)
    announced = with_new_authority(first, name=NAME, now=now)
    assert next_of(announced, now + SETTLED * 0.9) is announced
    assert trusted(announced)
    now += SETTLED
    signed = next_of(announced, now)
    assert signed.bundle == announced.bundle
    assert is_issued_by(signed.serving.certificate_pem, announced.authority.certificate_pem)
    assert trusted(signed)
    assert next_of(signed, now + FOLLOWED * 0.9) is signed
    alone = next_of(signed, now + FOLLOWED)
    assert split_bundle(alone.bundle) == (announced.authority.certificate_pem,)
    assert alone.serving == signed.serving
    assert next_of(alone, now + FOLLOWED) is alone


def test_an_expired_certificate_is_replaced_without_waiting() -> None:
    """There is nothing to be lost any more."""
    now = utc_now()
    first = next_of(None, now - SERVING_LIFETIME)
    announced = with_new_authority(first, name=NAME, now=now)
    fresh = next_of(announced, now)
    assert fresh.serving != announced.serving
    assert trusted(fresh)


def test_a_deleted_secret_changes_nothing_for_those_who_serve(client: Client) -> None:
    """What is made instead is announced beside the old authority, and the pair stays for now."""
    clock = Clock()
    first, second = replica(client, clock), replica(client, clock)
    pair, old = first(), first.bundle or b""
    assert second() == pair
    client.delete(SECRET)
    assert first() == second() == pair
    assert first.bundle == second.bundle
    assert (first.bundle or b"").endswith(old)
    assert first.bundle != old
    clock.now += SETTLED
    assert first() == second() != pair


@pytest.mark.parametrize("field", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
@pytest.mark.parametrize("damage", ["gone", "empty", "other", "text"])
def test_a_damaged_secret_of_ours_is_made_whole(client: Client, field: str, damage: str) -> None:
    """Whatever is missing or does not fit, a start finds a pair that its bundle vouches for."""
    replica(client)()
    secret = json.loads(client.get(SECRET))
    other = next_of(None, utc_now())
    values = {
        "empty": b"",
        "other": other.serving.key_pem if field.endswith("key") else other.serving.certificate_pem,
        "text": b"no PEM",
    }
    secret["data"].pop(field)
    if damage != "gone":
        secret["data"][field] = base64.b64encode(values[damage]).decode()
    elif field.startswith("tls"):
        # The API server insists on both.
        secret["data"][field] = ""
    client.replace(SECRET, secret)
    made = replica(client)
    assert handshake(serving_with(made()), made.bundle or b"", HOSTS[0])
    assert held(client)["ca.crt"] == made.bundle


def test_an_empty_secret_is_filled(client: Client) -> None:
    """A chart may make it, so that no right to create Secrets is needed."""
    client.create(SECRETS, {"metadata": {"name": NAME}, "type": "Opaque"})
    made = replica(client)
    made()
    assert held(client)["ca.crt"] == made.bundle
    assert json.loads(client.get(SECRET))["type"] == "Opaque"


def test_a_secret_of_somebody_else_is_left_alone(client: Client) -> None:
    """It is not one that was made here, and the error says so without showing it."""
    data = {"password": base64.b64encode(b"hunter2").decode()}
    client.create(SECRETS, {"metadata": {"name": NAME}, "data": data})
    before = client.get(SECRET)
    with pytest.raises(CertificateError, match="gpu/gate-tls is not one that was made here") as no:
        replica(client)()
    assert "hunter2" not in str(no.value)
    assert client.get(SECRET) == before


def test_a_secret_without_our_label_is_used_while_it_is_whole(client: Client) -> None:
    """A restored backup may have lost it."""
    first = replica(client)()
    secret = json.loads(client.get(SECRET))
    assert MANAGER.items() <= secret["metadata"].pop("labels").items()
    client.replace(SECRET, secret)
    assert replica(client)() == first


def test_a_refusal_of_the_api_server_is_passed_on() -> None:
    """Without rights there is no pair and no loop."""

    def refuse(_request: Request, exchange: Exchange) -> None:
        exchange.status(403, "Forbidden")

    with ScriptedServer(refuse) as scripted:
        client = Client(ClientConfig(host=scripted.url), user_agent="test")
        with pytest.raises(ForbiddenError):
            replica(client)()
        client.close()
