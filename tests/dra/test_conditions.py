"""What is said on claims about their devices, and how rarely the API server is asked."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dra.conditions import Conditions
from kube import paths
from tests.dra.builders import NODE, a_claim, a_result
from tests.dra.condition_scenes import (
    GPU,
    OTHER,
    READ,
    SICK,
    WRITE,
    Scene,
    a_scene,
    a_server,
    state_of,
)
from tests.dra.nodes import Node
from tests.fakes.api_server import ServerThread
from tests.fakes.claim_server import ClaimServer


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
