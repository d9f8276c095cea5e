"""How the agent of a device plugin ends: at once, and everything stays that pods need."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sim.apiserver import kubeconfig
from tests.agent.cards import CardScene, card_scene
from tests.patience import eventually


@pytest.fixture
def cards() -> Iterator[CardScene]:
    """Make a node with two GPUs and a kubelet; no agent yet."""
    with card_scene() as made:
        yield made


def test_sigterm_leaves_the_node_and_its_containers(cards: CardScene) -> None:
    """Only the socket goes, by which kubelet sees that nothing can be given for now."""
    agent = cards.started()
    _, uid = cards.hand_out()
    register, specs = cards.register(), list(cards.host.cdi.iterdir())

    assert agent.terminate() == 0

    assert agent.log()[-1]["event"] == "plugin stopped"
    assert [path.name for path in cards.kubelet.directory.iterdir()] == ["kubelet.sock"]
    assert (cards.register(), list(cards.host.cdi.iterdir())) == (register, specs)
    cards.check_left(uid)


@pytest.mark.parametrize("call", ["nvmlDeviceGetName", "nvmlDeviceRegisterEvents"])
def test_sigterm_does_not_wait_for_a_slow_driver(cards: CardScene, call: str) -> None:
    """A look that would take a minute ends after the call that is under way."""
    cards.host.set_gpus(f"delays_s: {{{call}: 0.2}}\ngpus: [{{profile: l4, count: 300}}]")
    agent = cards.agent("--log-level=debug")
    agent.wait_logged("simulated nvml session begun")

    assert agent.terminate() == 0

    events = [record["event"] for record in agent.log()]
    assert "inventory read" not in events
    assert events[-1] == "plugin stopped"
    assert events.count("last simulated nvml session ended") == 1


def be_silent(cards: CardScene, stack: ExitStack) -> socket.socket:
    """Have agents that start now find a server that takes connections and says nothing."""
    silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    token = cards.stage.control.call(cards.stage.control.server.token_for, "admin")
    kubeconfig.write(cards.stage.kubeconfig, url=url, user="admin", token=token)
    return silent


def test_sigterm_does_not_wait_for_a_silent_server(cards: CardScene) -> None:
    """What containers have is seen to without it, and the end does not wait for it either."""
    _, uid = start_once(cards)
    with ExitStack() as stack:
        be_silent(cards, stack)
        agent = cards.agent()
        agent.wait_started()
        eventually(lambda: "gpus: ok" in agent.ask("/readyz")[1])
        cards.check_left(uid)

        assert agent.terminate() == 0

    assert agent.log()[-1]["event"] == "plugin stopped"
    cards.check_left(uid)


def test_sigterm_does_not_wait_for_a_server_that_is_to_say_the_mode(cards: CardScene) -> None:
    """A node that was never served asks first; until then nothing is begun that has to be ended."""
    with ExitStack() as stack:
        silent = be_silent(cards, stack)
        agent = cards.agent("--mode=auto")
        stack.enter_context(silent.accept()[0])

        assert agent.terminate() == 0

    assert agent.log()[-1]["event"] == "ended before anything was begun"


def start_once(cards: CardScene) -> tuple[str, str]:
    """Have an agent hand out a device and end; return the pod's name and UID."""
    agent = cards.started()
    pod = cards.hand_out()
    assert agent.terminate() == 0
    return pod
