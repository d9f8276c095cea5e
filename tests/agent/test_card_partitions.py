"""An agent that makes MIG instances, and is killed while it does."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from cdi.faults import FaultPoint
from hami import keys
from sim.instancestore import InstanceStore, Made
from tests.agent.cards import CardScene, card_scene
from tests.agent.crashing import OF_PARTITIONS, killed
from tests.agent.process import Agent
from tests.hami.chartconfig import chart_config
from tests.patience import eventually

GPUS = "gpus: [{profile: a30, mig: []}]"


class MigScene:
    """A node with a GPU of which instances are made."""

    def __init__(self, cards: CardScene, folder: Path) -> None:
        self.cards = cards
        self._base, self._modes = folder / "device-config.yaml", folder / "config.json"
        self._base.write_text(chart_config(), encoding="utf-8")
        self._modes.write_text(json.dumps({"nodeconfig": [{"name": "*", "operatingmode": "mig"}]}))
        self._pods = 0

    def started(self) -> Agent:
        """Start an agent."""
        return self.cards.started(f"--device-config={self._base}", f"--node-config={self._modes}")

    def place(self, start: int) -> str:
        """Create a pod for which a place is reserved; return its name."""
        self._pods += 1
        name = f"mig-{self._pods}"
        gpu = self.cards.host.gpus[0].uuid
        allocation = {
            "containerIndex": 0,
            "deviceIndex": 0,
            "gpuUUID": gpu,
            "profile": "1g.6gb",
            "placement": {"start": start, "size": 1},
        }
        annotations = {keys.MIG_ALLOCATIONS: json.dumps([allocation])}
        self.cards.cluster.pod(name, f"{gpu},NVIDIA,5952,25:;", annotations=annotations)
        return name

    def made(self) -> list[Made]:
        """Return the instances that are there."""
        return list(InstanceStore(self.cards.host.gpus_file).read())

    def told(self, name: str) -> str:
        """Return the UUID of which a pod tells."""
        text = self.cards.cluster.get(name)["metadata"]["annotations"][keys.MIG_ALLOCATIONS]
        return str(json.loads(text)[0]["migUUID"])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[MigScene]:
    """Make a node; no agent yet."""
    with card_scene(GPUS) as cards:
        yield MigScene(cards, tmp_path)


def crash(scene: MigScene, point: FaultPoint) -> str:
    """Let an agent be killed at *point* while it serves a new pod; return the pod's name."""
    agent = scene.started()
    name = scene.place(1)
    agent.die_at(point)
    with pytest.raises(grpc.RpcError):
        scene.cards.allocate()
    assert killed(agent)
    return name


@pytest.mark.parametrize("point", OF_PARTITIONS)
def test_a_crash_is_repaired(scene: MigScene, point: FaultPoint) -> None:
    """A kubelet that asks again for the same pod gets one instance, which goes with the pod."""
    name = crash(scene, point)

    scene.started()
    answer = scene.cards.allocate()
    (made,) = scene.made()
    assert made.start == 1
    assert scene.told(name) == made.uuid
    assert [each.name for each in answer.cdi_devices] == [f"k8s.gpuslice.io/card={made.uuid}"]
    assert (scene.cards.cluster.phase(name), scene.cards.cluster.locked_by()) == ("success", "")
    assert scene.cards.host.temporary_files() == []
    scene.cards.cluster.set_status(name, {"phase": "Succeeded"})
    eventually(lambda: not scene.made())


def test_nothing_is_left_of_a_pod_that_was_given_up(scene: MigScene) -> None:
    """Whatever was made of its instance is destroyed, and its place is free again."""
    name = crash(scene, FaultPoint.PARTITIONS_WRITTEN)
    scene.cards.cluster.set_status(name, {"phase": "Failed"})

    scene.started()
    eventually(lambda: not scene.cards.cluster.locked_by())
    second = scene.place(1)
    scene.cards.allocate()
    assert [each.uuid for each in scene.made()] == [scene.told(second)]


def test_an_instance_is_there_after_a_restart(scene: MigScene) -> None:
    """The agent goes on from its record: what lives stays, and what has ended goes."""
    agent = scene.started()
    name = scene.place(0)
    scene.cards.allocate()
    (made,) = scene.made()
    agent.kill()

    scene.started()
    second = scene.place(1)
    scene.cards.allocate()
    assert [each.uuid for each in scene.made()] == [made.uuid, scene.told(second)]
    scene.cards.cluster.delete(name)
    eventually(lambda: len(scene.made()) == 1)
