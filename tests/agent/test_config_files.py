"""An agent that tells with which configuration files it runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.configfile import sha256_of
from tests.agent.cards import CardScene, card_scene
from tests.agent.process import Agent
from tests.configmaps import Mount
from tests.hami.chartconfig import chart_config
from tests.patience import eventually

IN_USE, CHANGED = "gpuslice_config_info", "gpuslice_config_changed"
DEVICE, NODE = "device-config", "node-config"


@pytest.fixture
def cards() -> Iterator[CardScene]:
    """Make a node with two GPUs and a kubelet; no agent yet."""
    with card_scene() as made:
        yield made


def entry(split: int) -> str:
    """Return a node configuration for all nodes."""
    return json.dumps({"nodeconfig": [{"name": "*", "devicesplitcount": split}]})


def digits(mount: Mount) -> str:
    """Return by what a file is told."""
    return sha256_of(mount.path.read_bytes())


def told(agent: Agent, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its labels."""
    return agent.metrics().get(name, {})


def test_a_changed_file_is_told_and_the_node_configuration_read(
    cards: CardScene, tmp_path: Path
) -> None:
    """What is read once at the start stays in use until the agent is started again."""
    base, modes = Mount(tmp_path / "base", "device-config.yaml"), Mount(tmp_path / "modes")
    base.write(chart_config())
    modes.write(entry(3))
    flags = (f"--device-config={base.path}", f"--node-config={modes.path}", "--scan-interval-s=0.1")
    agent = cards.started(*flags)
    first, second = digits(base), digits(modes)
    assert told(agent, IN_USE) == {(DEVICE, first): 1, (NODE, second): 1}
    assert told(agent, CHANGED) == {(DEVICE,): 0, (NODE,): 0}
    read = {each["file"]: each["sha256"] for each in agent.log() if "file" in each}
    assert read == {DEVICE: first, NODE: second}

    base.write(chart_config(defaultCores=5))
    modes.write(entry(4))
    record = agent.wait_logged("configuration file changed")
    assert (record["in_use"], record["on_disk"]) == (first, digits(base))
    eventually(lambda: told(agent, IN_USE) == {(DEVICE, first): 1, (NODE, digits(modes)): 1})
    assert told(agent, CHANGED) == {(DEVICE,): 1, (NODE,): 0}

    modes.write(entry(0))
    eventually(lambda: told(agent, CHANGED) == {(DEVICE,): 1, (NODE,): 1})

    assert agent.terminate() == 0
    modes.write(entry(4))
    agent = cards.started(*flags)
    assert told(agent, IN_USE) == {(DEVICE, digits(base)): 1, (NODE, digits(modes)): 1}
    assert told(agent, CHANGED) == {(DEVICE,): 0, (NODE,): 0}


def test_an_agent_without_files_tells_of_none(cards: CardScene) -> None:
    """The metrics have no values then."""
    agent = cards.started()
    assert told(agent, IN_USE) == told(agent, CHANGED) == {}
