"""Scenes of a node of the device plugin in trouble, and of one that changes to claims and back."""

import contextlib
import json
from collections.abc import Iterator
from typing import Final

import pytest

from cdi.faults import FaultPoint
from cli.nodeagent.mode import LABEL
from kube import paths
from kube.client import MERGE_PATCH
from tests.cluster.errors import ClusterError
from tests.cluster.scenes.cards import KUBELET_S, Cards, cards_of, expect_given, pod, rights
from tests.cluster.scenes.driver import Driver, devices_of
from tests.cluster.scenes.expectations import A10, L4, T4
from tests.cluster.scenes.extenders import LOCK, Extenders, running_extender
from tests.cluster.scenes.restarts import restart_kubelet
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import expect_served, expect_untouched, restarted, runs, users
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_LIMITS: Final = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}
_SAID: Final = ("3000m", "30")
_CDI: Final = {"--device-list-strategy": "cdi-cri"}
_HANDED_OUT: Final = '"devices handed out"'


@pytest.fixture(scope="module")
def extenders(driver: Driver) -> Iterator[Extenders]:
    """Return the extender and its scheduler, at work; agents have the device plugin's rights."""
    cluster, identity = driver.cluster, driver.first.identity
    with rights(cluster, identity), running_extender(cluster) as extenders:
        yield extenders


@pytest.fixture
def cards(stage: Stage, extenders: Extenders) -> Iterator[Cards]:
    """Return the node with a kubelet, serving the device plugin."""
    with cards_of(stage, _CDI) as cards:
        yield cards


def handed_out(cards: Cards) -> int:
    """Return how often the agent has handed devices out so far."""
    return cards.driver.log(cards.node).count(_HANDED_OUT)


@pytest.mark.scene("kubelet is restarted under the device plugin")
def test_kubelet_restart(cards: Cards) -> None:
    """Containers run on; kubelet gives one that starts again what it had, and serves new pods."""
    stage = cards.stage
    stage.create(pod("kept", _LIMITS, node=cards.node, use_gputype="A10"))
    expect_given(stage.report("kept"), {A10: _SAID}, with_nodes=True)
    before = handed_out(cards)
    registered = cards.registrations()
    restart_kubelet(cards.driver.cluster)
    eventually(lambda: cards.registrations() > registered, KUBELET_S)
    cards.eventually_offered()
    expect_untouched(stage, "kept")
    eventually(lambda: _ended(stage, "kept"), KUBELET_S)
    eventually(lambda: restarted(stage, "kept"), KUBELET_S)
    expect_given(stage.report("kept"), {A10: _SAID}, with_nodes=True)
    assert handed_out(cards) == before
    stage.create(pod("joins", _LIMITS, node=cards.node, use_gputype="A10"))
    expect_given(stage.report("joins"), {A10: _SAID}, with_nodes=True)
    assert handed_out(cards) == before + 1


def _ended(stage: Stage, name: str) -> bool:
    """End the pod's container, if kubelet knows it already."""
    with contextlib.suppress(ClusterError):
        stage.driver.cluster.kubectl("exec", name, "--", "kill", "1")
        return True
    return False


@pytest.mark.scene("the device plugin is killed while it hands devices out")
def test_killed_in_allocate(cards: Cards) -> None:
    """The pod fails in words of kubelet, the next agent frees the node, and others go on."""
    stage, driver = cards.stage, cards.driver
    stage.create(pod("stays", _LIMITS, node=cards.node, use_gputype="T4"))
    stage.report("stays")
    with driver.first.watched() as points:
        stage.create(pod("watched", _LIMITS, node=cards.node, use_gputype="A10"))
        stage.report("watched")
    assert FaultPoint.CONTAINER_WRITTEN in points
    stage.delete("Pod", "watched")
    for number, point in enumerate(dict.fromkeys(_of_allocate(points))):
        name = f"dies-{number}"
        driver.first.die_at(point)
        stage.create(pod(name, _LIMITS, node=cards.node, use_gputype="A10"))
        eventually(lambda: not driver.first.running(), KUBELET_S)
        eventually(lambda name=name: _failed(stage, name), KUBELET_S)  # type: ignore[misc]
        cards.again()
        eventually(lambda: LOCK not in cards.annotations(), KUBELET_S)
        # The scheduler may have been told that the node has none, and then waits.
        cards.eventually_offered()
        stage.create(pod(f"after-{number}", _LIMITS, node=cards.node, use_gputype="A10"))
        expect_given(stage.report(f"after-{number}"), {A10: _SAID}, with_nodes=True)
        for each in (name, f"after-{number}"):
            stage.delete("Pod", each)
    expect_untouched(stage, "stays")
    expect_given(stage.report("stays"), {T4: _SAID}, with_nodes=True)


def _of_allocate(points: list[str]) -> list[str]:
    """Return those that are passed for a container, and not because of a pod that ends."""
    return [each for each in points if each.startswith(("container-", "region-"))]


def _failed(stage: Stage, name: str) -> bool:
    status = stage.pod(name)["status"]
    return (status.get("phase"), status.get("reason")) == ("Failed", "UnexpectedAdmissionError")


@pytest.mark.scene("a node changes from claims to the device plugin and back")
def test_change(stage: Stage, extenders: Extenders) -> None:
    """By its label, as soon as nothing is in use any more; until then it says who holds it."""
    cards, driver = Cards(stage), stage.driver
    try:
        cards.start({"--mode": "auto"})
        stage.create(*users(stage, {"claims": L4}))
        expect_served(stage, "claims")
        _label(stage, "device-plugin")
        eventually(lambda: stage.node_says("stays dra: prepared claims are left"), KUBELET_S)
        assert runs(stage, "claims")
        stage.delete("Pod", "claims")
        stage.delete("ResourceClaim", "claims")
        _restarts(cards)
        cards.eventually_offered()
        stage.create(pod("limits", _LIMITS, node=cards.node, use_gputype="L4"))
        expect_given(stage.report("limits"), {L4: _SAID}, with_nodes=False)
        _label(stage, "dra")
        eventually(
            lambda: stage.node_says("stays device-plugin: pods with devices are left"), KUBELET_S
        )
        assert runs(stage, "limits")
        stage.delete("Pod", "limits")
        _restarts(cards)
        eventually(lambda: cards.offered() == 0, KUBELET_S)
        eventually(lambda: devices_of(stage.client, stage.node), KUBELET_S)
        stage.create(*users(stage, {"again": L4}))
        expect_served(stage, "again")
        stage.delete("Pod", "again")
        stage.delete("ResourceClaim", "again")
    finally:
        _label(stage, None)
        cards.forget()
        if driver.first.running():
            driver.first.terminate()
        stage.clear()
        driver.start_first()


def _label(stage: Stage, mode: str | None) -> None:
    body = {"metadata": {"labels": {LABEL: mode}}}
    stage.client.patch(paths.nodes(stage.node), body, content_type=MERGE_PATCH)


def _restarts(cards: Cards) -> None:
    """Wait until the agent ends by itself, and start it as kubelet would."""
    eventually(lambda: not cards.driver.first.running(), KUBELET_S)
    last = cards.driver.log(cards.node).splitlines()
    assert any(json.loads(each)["event"] == "node mode changed" for each in last[-20:])
    cards.again()
