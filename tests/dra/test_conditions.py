"""What is said on claims about their devices, and how rarely the API server is asked."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra.conditions import Conditions
from dra.devicehealth import DeviceHealth
from dra.record import PreparedClaim
from gpu import names
from kube import paths
from kube.client import Client
from kube.objects import JsonObject
from tests.dra.builders import NODE, a_claim, a_gpu, a_held, a_record, a_result
from tests.dra.nodes import Node
from tests.fakes.api_server import ServerThread, serving
from tests.fakes.claim_server import ClaimServer
from tests.fakes.scripted_server import Exchange, Request

GPU, OTHER = a_gpu(0), a_gpu(1)
SICK = "Xid79"


def state_of(number: int, *, sick: bool) -> DeviceHealth:
    """Return the health of GPU *number*."""
    name = names.device_name(a_gpu(number).uuid)
    if not sick:
        return DeviceHealth(name=name, healthy=True)
    return DeviceHealth(name=name, healthy=False, code=SICK, message="fallen off the bus")


@dataclass(slots=True)
class Scene:
    """A server with claims and the conditions of one process after the other."""

    where: ServerThread
    client: Client = field(init=False)
    admin: Client = field(init=False)
    prepared: dict[str, PreparedClaim] = field(default_factory=dict)
    health: list[DeviceHealth] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    conditions: Conditions = field(init=False)

    def __post_init__(self) -> None:
        self.client, self.admin = self.where.client("agent"), self.where.client("admin")
        self.show()
        self.restart()

    def restart(self) -> None:
        """Begin anew, as the next process on the node does."""
        self.conditions = Conditions(
            client=self.client,
            pool=NODE,
            claims=lambda: dict(self.prepared),
            health=lambda: self.health,
            stopping=self.stopping,
            pace_s=0.0,
        )
        self.conditions.adopt()

    def show(self, *sick: int) -> None:
        """Have the GPUs *sick* be ill and the other well."""
        self.health[:] = [state_of(number, sick=number in sick) for number in (0, 1)]

    def add(self, number: int = 0, *results: JsonObject) -> PreparedClaim:
        """Create a claim with *results*, a share of the first GPU by default, and prepare it."""
        results = results or (a_result(GPU),)
        name = f"claim-{number}"
        created = json.loads(self.admin.create(paths.resource_claims("team-a"), spec_of(name)))
        created["status"] = a_claim(*results)["status"]
        del created["status"]["reservedFor"]
        self.admin.replace(paths.resource_claims("team-a", name, "status"), created)
        uid = created["metadata"]["uid"]
        devices = tuple(
            replace(a_held(GPU), device=result["device"], share_id=result.get("shareID"))
            for result in results
            if result["driver"] == names.DRIVER
        )
        self.prepared[uid] = a_record(number, *devices, uid=uid)
        return self.prepared[uid]

    def look(self) -> list[str]:
        """Look once and return what that asked of the server."""
        before = len(self.asked())
        self.conditions.look()
        return self.asked()[before:]

    def asked(self) -> list[str]:
        """Return all requests of the agent."""
        records = self.where.call(lambda: self.where.server.requests)
        return [f"{each.verb} {each.status}" for each in records if each.user == "agent"]

    def claim(self, number: int = 0) -> JsonObject:
        """Return a claim as the server has it."""
        path = paths.resource_claims("team-a", f"claim-{number}")
        return dict(json.loads(self.admin.get(path)))

    def said(self, number: int = 0) -> list[tuple[str, str]]:
        """Return status and reason of each condition of ours on a claim."""
        return [
            (condition["status"], condition["reason"])
            for entry in self.claim(number)["status"].get("devices", ())
            if entry["driver"] == names.DRIVER
            for condition in entry["conditions"]
        ]

    def fail(self, count: int, status: int, verb: str) -> None:
        """Have the server fail the next requests of *verb*."""
        self.where.call(partial(self.where.server.fail_next, count, status, verb=verb))


def spec_of(name: str) -> JsonObject:
    """Return a claim that nobody has allocated yet."""
    claim = a_claim(a_result(GPU), name=name)
    del claim["status"], claim["metadata"]["uid"], claim["metadata"]["resourceVersion"]
    return claim


@pytest.fixture(scope="module")
def where() -> Iterator[ServerThread]:
    """Run an API server for all tests, since they clear away what they made."""
    with serving() as running:
        admin = running.client("admin")
        admin.create(paths.namespaces(), {"metadata": {"name": "team-a"}})
        admin.close()
        yield running


@pytest.fixture
def scene(where: ServerThread) -> Iterator[Scene]:
    """Return a server without claims."""
    scene = Scene(where)
    yield scene
    where.call(where.server.clear_faults)
    for each in json.loads(scene.admin.get(paths.resource_claims()))["items"]:
        scene.admin.delete(paths.resource_claims("team-a", each["metadata"]["name"]))
    scene.client.close()
    scene.admin.close()


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


READ, WRITE = "get 200", "update 200"


def test_a_healthy_claim_costs_nothing(scene: Scene) -> None:
    """Neither when it is prepared nor at any look afterwards."""
    scene.add(0)
    scene.add(1, a_result(OTHER, None))
    assert [scene.look() for _ in range(3)] == [[], [], []]


def test_a_healthy_prepare_costs_one_request(tmp_path: Path) -> None:
    """That is the one by which prepare reads the claim."""
    with ClaimServer(a_claim(a_result(GPU))) as server:
        node = Node(tmp_path, server)
        conditions = Conditions(
            client=server.client,
            pool=NODE,
            claims=node.store.claims,
            health=lambda: [state_of(0, sick=False)],
            stopping=threading.Event(),
        )
        conditions.adopt()
        node.prepare()
        for _ in range(3):
            conditions.look()
        node.close()
        assert server.request_count == 1


def test_an_ill_device_is_said_once(scene: Scene) -> None:
    """On the claims that hold it, with the reason; then there is silence."""
    scene.add(0)
    scene.add(1, a_result(OTHER))
    scene.look()
    scene.show(0)
    assert scene.look() == [READ, WRITE]
    assert scene.look() == []
    (entry,) = scene.claim(0)["status"]["devices"]
    assert entry["shareID"] == a_result(GPU)["shareID"]
    (condition,) = entry["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert condition == {
        "type": "Ready",
        "status": "False",
        "reason": SICK,
        "message": "fallen off the bus",
    }
    assert scene.said(1) == []


def test_recovery_is_said(scene: Scene) -> None:
    """Once, and a later illness again."""
    scene.add()
    for sick, said in ((True, ("False", SICK)), (False, ("True", "Recovered"))) * 2:
        scene.show(*([0] if sick else []))
        assert scene.look() == [READ, WRITE]
        assert scene.look() == []
        assert scene.said() == [said]


def test_a_claim_that_is_prepared_on_an_ill_device_says_so(scene: Scene) -> None:
    """Whoever tolerates the taint is told all the same."""
    scene.show(0)
    scene.look()
    scene.add()
    assert scene.look() == [READ, WRITE]
    assert scene.said() == [("False", SICK)]


def test_what_an_earlier_process_said_is_corrected(scene: Scene) -> None:
    """Each prepared claim is read once after a start, and only the wrong ones are written."""
    scene.add(0)
    scene.add(1, a_result(OTHER))
    scene.show(0)
    scene.look()
    scene.show()
    scene.restart()
    assert sorted(scene.look()) == [READ, READ, WRITE]
    assert scene.look() == []
    assert scene.said(0) == [("True", "Recovered")]
    assert scene.said(1) == []


def test_claims_that_are_rebuilt_are_read(scene: Scene) -> None:
    """They come up after the start, and an earlier process had them all the same."""
    claim = scene.add()
    scene.show(0)
    scene.look()
    scene.show()
    del scene.prepared[claim.uid]
    scene.restart()
    scene.prepared[claim.uid] = claim
    assert scene.look() == []
    scene.conditions.adopt()
    assert scene.look() == [READ, WRITE]
    assert scene.look() == []
    assert scene.said() == [("True", "Recovered")]


def test_what_is_still_ill_after_a_restart_is_not_written_again(scene: Scene) -> None:
    """The claim is read, and its time stays."""
    scene.add()
    scene.show(0)
    scene.look()
    before = scene.claim()
    scene.restart()
    assert scene.look() == [READ]
    assert scene.claim() == before


def test_nothing_is_asked_before_the_health_is_known(scene: Scene) -> None:
    """A device of which nothing is known is neither ill nor well."""
    scene.add()
    scene.restart()
    scene.health.clear()
    assert scene.look() == []
    scene.show()
    assert scene.look() == [READ]


def test_a_device_that_becomes_known_later_is_looked_at(scene: Scene) -> None:
    """What an earlier process wrote of it is corrected then."""
    scene.add(0, a_result(GPU), a_result(OTHER))
    scene.show(0, 1)
    scene.look()
    scene.restart()
    scene.health[:] = [state_of(0, sick=True)]
    assert scene.look() == [READ]
    scene.show(0)
    assert scene.look() == [READ, WRITE]
    assert scene.said() == [("False", SICK), ("True", "Recovered")]


def test_a_claim_that_is_prepared_again_is_read(scene: Scene) -> None:
    """It was released while it said that its device is ill, and kept its allocation."""
    claim = scene.add()
    scene.show(0)
    scene.look()
    del scene.prepared[claim.uid]
    assert scene.look() == []
    scene.show()
    scene.prepared[claim.uid] = claim
    assert scene.look() == [READ, WRITE]
    assert scene.said() == [("True", "Recovered")]


def test_the_entries_of_others_stay(scene: Scene) -> None:
    """Another driver's device of the same name in the same claim is not ours."""
    foreign = a_result(GPU, None, driver="net.example.com")
    scene.add(0, a_result(GPU), foreign)
    claim = scene.claim()
    theirs = {key: foreign[key] for key in ("driver", "pool", "device")}
    theirs |= {"data": {"half": 0.5, "big": 2**60, "text": "\u00fc"}, "conditions": []}
    claim["status"]["devices"] = [theirs]
    scene.admin.replace(paths.resource_claims("team-a", "claim-0", "status"), claim)
    (before,) = scene.claim()["status"]["devices"]
    scene.show(0)
    scene.look()
    after = scene.claim()
    assert after["status"].pop("devices")[0] == before
    del claim["status"]["devices"], claim["metadata"], after["metadata"]
    assert after == claim


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


def test_ill_devices_come_first(scene: Scene) -> None:
    """Many claims to be read after a start do not keep the news waiting."""
    for number in range(3):
        scene.add(number)
    scene.add(3, a_result(OTHER))
    scene.restart()
    scene.show(1)
    assert scene.look()[:2] == [READ, WRITE]
    assert scene.said(3) == [("False", SICK)]


def test_a_look_ends_with_the_process(scene: Scene) -> None:
    """Nothing is asked any more."""
    scene.add()
    scene.show(0)
    scene.stopping.set()
    assert scene.look() == []


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
