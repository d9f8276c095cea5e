"""A node that is moved between claims and the device plugin, under an agent that runs."""

from collections.abc import Iterator

import pytest

from cli.nodeagent.mode import LABEL
from hami.plugin.announcement import REGISTER
from tests.agent.cards import CardScene, card_scene
from tests.agent.control_plane import Claim, share
from tests.agent.process import Agent
from tests.hami.plugin.placed import NODE
from tests.patience import eventually

AUTO = ("--mode=auto", "--scan-interval-s=0.2")


@pytest.fixture
def cards() -> Iterator[CardScene]:
    """Make a node with two GPUs and a kubelet; no agent yet."""
    with card_scene() as made:
        yield made


def label(cards: CardScene, mode: str) -> None:
    """Have the Node say how it is to be served."""
    node = cards.node()
    node["metadata"].setdefault("labels", {})[LABEL] = mode
    control = cards.stage.control
    control.run(control.server.api.update("nodes", node))


def prepared(cards: CardScene) -> Claim:
    """Return a claim that holds a share of the first GPU."""
    claim = cards.stage.control.claim({**share(cards.host.device(0)), "pool": NODE})
    assert cards.stage.kubelet.prepare(claim).error == ""
    return claim


def check_kept(cards: CardScene, agent: Agent, mode: str, user: str) -> None:
    """Check that the node is served as before, and that the Node says why."""
    agent.wait_logged("node mode kept")
    (event,) = eventually(
        lambda: [each for each in cards.cluster.events() if each["reason"] == "NodeModeNotChanged"]
    )
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Node", NODE)
    assert event["message"].startswith(f"stays {mode}: ")
    assert user in event["message"]
    assert agent.exit_code is None


def test_a_node_with_claims_is_moved_when_they_are_released(cards: CardScene) -> None:
    """Until then it serves claims, new ones too; then the agent ends and the next one knows."""
    agent = cards.agent(*AUTO)
    agent.wait_started()
    first = prepared(cards)
    label(cards, "device-plugin")
    check_kept(cards, agent, "dra", f"default/{first.name}")
    second = prepared(cards)
    assert cards.kubelet.requests == []

    assert cards.stage.kubelet.unprepare(first) == ""
    assert agent.exit_code is None
    assert cards.stage.kubelet.unprepare(second) == ""

    assert agent.wait_ended() == 0
    cards.started(*AUTO)
    cards.hand_out()


def test_a_node_with_pods_of_the_plugin_is_moved_when_they_are_gone(cards: CardScene) -> None:
    """Until then it serves the device plugin, new pods too; then the agent ends."""
    label(cards, "device-plugin")
    agent = cards.started(*AUTO)
    first, _ = cards.hand_out()
    assert REGISTER in cards.node()["metadata"]["annotations"]
    label(cards, "dra")
    check_kept(cards, agent, "device-plugin", f"default/{first}")
    second, _ = cards.hand_out(1)

    cards.cluster.delete(first)
    assert agent.exit_code is None
    cards.cluster.delete(second)

    assert agent.wait_ended() == 0
    assert REGISTER not in (cards.node()["metadata"].get("annotations") or {})
    agent = cards.agent(*AUTO)
    agent.wait_started()
    claim = prepared(cards)
    assert cards.stage.kubelet.unprepare(claim) == ""
    assert [path.name for path in cards.kubelet.directory.iterdir()] == ["kubelet.sock"]
