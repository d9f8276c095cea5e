"""A node that is moved between claims and the device plugin, under an agent that runs.

By its label, or without one by what the API server keeps of a slice.
"""

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


def update_server(cards: CardScene, version: str) -> None:
    """Have the control plane be another release, which breaks all connections to it."""
    server = cards.stage.control.server
    cards.stage.control.run(server.pause())
    cards.stage.control.call(server.set_version, version)
    cards.stage.control.run(server.resume())


def asked(cards: CardScene, verb: str, plural: str) -> int:
    """Return how often the server was asked for something of a kind."""
    records = cards.stage.control.call(lambda: cards.stage.control.server.requests)
    return sum(each.verb == verb and plural in each.path for each in records)


def test_an_updated_server_moves_a_node_once_its_pods_are_gone(cards: CardScene) -> None:
    """Before 1.36 GPUs are shared by the device plugin alone; from then on by claims."""
    cards.stage.control.call(cards.stage.control.server.set_version, "1.35")
    agent = cards.started(*AUTO)
    name, _ = cards.hand_out()

    update_server(cards, "1.36")
    check_kept(cards, agent, "device-plugin", f"default/{name}; drain the node")
    second, _ = cards.hand_out(1)
    cards.cluster.delete(name)
    assert agent.exit_code is None
    cards.cluster.delete(second)

    assert agent.wait_ended() == 0
    assert agent.wait_logged("node mode changed")["reason"] == "the API server keeps shares"
    agent = cards.agent(*AUTO)
    agent.wait_started()
    claim = prepared(cards)
    assert cards.stage.kubelet.unprepare(claim) == ""


def test_a_server_that_was_turned_back_moves_a_node_once_its_claims_are_gone(
    cards: CardScene,
) -> None:
    """Until then claims are served as before."""
    agent = cards.agent(*AUTO)
    agent.wait_started()
    claim = prepared(cards)

    update_server(cards, "1.35")
    check_kept(cards, agent, "dra", f"default/{claim.name}")
    assert cards.stage.kubelet.unprepare(claim) == ""

    assert agent.wait_ended() == 0
    cards.started(*AUTO)
    cards.hand_out()


def test_a_label_keeps_a_node_as_it_is_under_an_updated_server(cards: CardScene) -> None:
    """The server is not even asked, as far as the mode goes."""
    cards.stage.control.call(cards.stage.control.server.set_version, "1.35")
    label(cards, "device-plugin")
    agent = cards.started(*AUTO)
    before = asked(cards, "watch", "nodes")
    update_server(cards, "1.36")
    eventually(lambda: asked(cards, "watch", "nodes") > before)
    cards.hand_out()
    assert asked(cards, "create", "resourceslices") == 0
    assert agent.exit_code is None


def test_a_server_that_does_not_say_changes_nothing(cards: CardScene) -> None:
    """A node is served as the last time, and asked about again in ever longer pauses."""
    control = cards.stage.control
    control.call(control.server.set_version, "1.35")
    assert cards.started(*AUTO).terminate() == 0
    control.call(control.server.set_version, "1.36")
    control.call(control.server.fail_next, 10_000, 403, path_part="resourceslices")
    agent = cards.started(*AUTO)
    record = agent.wait_logged("server not asked for shares")
    assert "403" in record["reason"]
    assert record["kept"] is None
    cards.hand_out()
    assert agent.exit_code is None


def test_a_first_start_waits_for_a_server_that_says(cards: CardScene) -> None:
    """Nothing is served before, and the log says what is waited for and how to do without."""
    control = cards.stage.control
    control.call(control.server.fail_next, 10_000, 403, path_part="resourceslices")
    agent = cards.agent(*AUTO)
    assert f"no label {LABEL}" in agent.wait_logged("node mode not chosen")["reason"]
    assert cards.kubelet.requests == []
    assert agent.terminate() == 0
    label(cards, "device-plugin")
    cards.started(*AUTO)
    cards.hand_out()
