"""Conditions that the API server refuses or drops, and claims that change or go meanwhile."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra.conditions import Conditions
from dra.record import PreparedClaim
from gpu import names
from kube import paths
from tests.dra.builders import NODE, a_claim, a_record, a_result
from tests.dra.condition_scenes import GPU, READ, SICK, WRITE, Scene, a_scene, a_server, state_of
from tests.fakes.api_server import ServerThread
from tests.fakes.claim_server import ClaimServer
from tests.fakes.scripted_server import Exchange, Request


@pytest.fixture(scope="module")
def where() -> Iterator[ServerThread]:
    """Run an API server for all tests, since they clear away what they made."""
    with a_server() as running:
        yield running


@pytest.fixture
def scene(where: ServerThread) -> Iterator[Scene]:
    """Return a server without claims."""
    with a_scene(where) as scene:
        yield scene


def of_claims(server: ClaimServer, *records: PreparedClaim) -> Conditions:
    """Return the conditions of a process whose first GPU is ill."""
    return Conditions(
        client=server.client,
        pool=NODE,
        claims=lambda: {claim.uid: claim for claim in records},
        health=lambda: [state_of(0, sick=True)],
        stopping=threading.Event(),
        pace_s=0.0,
    )


def test_a_claim_that_changes_meanwhile_is_read_again(scene: Scene) -> None:
    """Kubelet and controllers write to claims as well."""
    scene.add()
    scene.show(0)
    scene.fail(2, 409, "update")
    assert scene.look() == [READ, "update 409", READ, "update 409", READ, WRITE]
    assert scene.said() == [("False", SICK)]


def test_a_claim_that_always_changes_waits(scene: Scene) -> None:
    """After three tries it is left to the next look."""
    scene.add()
    scene.show(0)
    scene.fail(3, 409, "update")
    assert scene.look() == [READ, "update 409"] * 3
    assert scene.look() == [READ, WRITE]


def test_a_claim_that_is_gone_is_left_alone(scene: Scene) -> None:
    """It is not asked for again."""
    claim = scene.add()
    scene.admin.delete(paths.resource_claims("team-a", claim.name))
    scene.show(0)
    assert scene.look() == ["get 404"]
    assert scene.look() == []


def test_another_claim_of_the_name_is_left_alone(scene: Scene) -> None:
    """The one that was prepared is gone."""
    claim = scene.add()
    scene.admin.delete(paths.resource_claims("team-a", claim.name))
    scene.add()
    scene.prepared = {claim.uid: claim}
    scene.show(0)
    assert scene.look() == [READ]
    assert scene.look() == []
    assert scene.said() == []


def test_a_missing_right_is_told_once(scene: Scene) -> None:
    """Each claim is tried once; the log says what to allow."""
    for number in (0, 1):
        scene.add(number)
    scene.show(0)
    scene.fail(2, 403, "update")
    with capture_logs() as logs:
        assert scene.look() == [READ, "update 403"] * 2
        scene.show()
        scene.show(0)
        assert scene.look() == []
    (entry,) = logs
    assert entry["log_level"] == "warning"
    assert "associated-node:update" in entry["remedy"]


@pytest.mark.parametrize(
    ("driver", "remedy"),
    [(names.DRIVER, "associated-node:update"), ("net.example.com", "none is needed")],
)
def test_a_refusal_as_an_invalid_claim_is_understood(driver: str, remedy: str) -> None:
    """That is how Kubernetes 1.36 says that a right is missing, or that others' bytes differ."""
    message = (
        'ResourceClaim.resource.k8s.io "claim-1" is invalid: status.devices: Forbidden: changing '
        'status.devices requires resource="resourceclaims/driver", '
        'verb="[associated-node:update arbitrary-node:update]" permission: '
        f'resourceclaims.resource.k8s.io "{driver}" is forbidden'
    )

    def refuse(request: Request, exchange: Exchange) -> None:
        if request.method == "GET":
            answer(request, exchange)
        else:
            exchange.status(422, "Invalid", message)

    record = a_record(1)
    with (
        ClaimServer(a_claim(a_result(GPU), name=record.name, uid=record.uid)) as server,
        capture_logs() as logs,
    ):
        answer, server._server.script = server._server.script, refuse
        conditions = of_claims(server, record)
        for _ in range(2):
            conditions.look()
        assert server.request_count == 2
    (entry,) = logs
    assert remedy in entry["remedy"]


def test_a_refused_claim_does_not_stop_the_others(scene: Scene) -> None:
    """It may be bound to devices of another driver beyond this node."""
    for number in (0, 1):
        scene.add(number)
    scene.show(0)
    scene.fail(1, 403, "update")
    assert scene.look() == [READ, "update 403", READ, WRITE]


def test_a_server_in_trouble_is_asked_again(scene: Scene) -> None:
    """At the next look, and one that is too busy is spared the other claims."""
    for number in (0, 1):
        scene.add(number)
    scene.show(0)
    scene.fail(1, 429, "get")
    assert scene.look() == ["get 429"]
    scene.fail(1, 500, "get")
    assert scene.look() == ["get 500", READ, WRITE]
    assert scene.look() == [READ, WRITE]


def test_a_server_that_drops_the_field_is_told_once() -> None:
    """Its answer does not have what was written, so nothing more is."""

    def drop(request: Request, exchange: Exchange) -> None:
        if request.method == "GET":
            answer(request, exchange)
            return
        written: dict[str, Any] = request.json()
        assert written["status"].pop("devices")
        exchange.json(written)

    records = (a_record(1), a_record(2))
    claims = [a_claim(a_result(GPU), name=each.name, uid=each.uid) for each in records]
    with ClaimServer(*claims) as server, capture_logs() as logs:
        answer, server._server.script = server._server.script, drop
        conditions = of_claims(server, *records)
        for _ in range(2):
            conditions.look()
        assert server.request_count == 2
    (entry,) = [each for each in logs if each["log_level"] == "warning"]
    assert "DRAResourceClaimDeviceStatus" in entry["remedy"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'{"metadata": 1}', b"{" * 5, b"[" * 100_000],
    ids=["nothing", "list", "null", "no metadata", "cut", "deep"],
)
def test_an_odd_answer_is_no_exception(body: bytes) -> None:
    """It is logged, and the next claim has its turn."""
    records = (a_record(1), a_record(2))
    with ClaimServer() as server, capture_logs() as logs:
        for each in records:
            server.claims[f"team-a/{each.name}"] = body
        of_claims(server, *records).look()
        assert server.request_count == 2
    assert [each["event"] for each in logs] == ["claim condition not written"] * 2
