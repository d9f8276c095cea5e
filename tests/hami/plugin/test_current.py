"""Tests of the one offer of a node while its GPUs and its configuration change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu.links import Link, Nearness
from gpu.model import Ailment, GpuFault, GpuUuid, Inventory
from hami.deviceconfig import MigProfiles, NvidiaConfig
from hami.plugin.configfile import ConfigFiles, NodeConfigKeeper
from hami.plugin.current import CurrentOffer
from tests.hami.plugin.offers import TWO_T4, read


class Scene:
    """A node with two GPUs and a file of its configuration."""

    def __init__(self, folder: Path, base: NvidiaConfig | None = None) -> None:
        self.path = folder / "config.json"
        self.told = 0
        keeper = NodeConfigKeeper(
            ConfigFiles(base=base or NvidiaConfig(), inline=self.path), node_name="node-1"
        )
        self.current = CurrentOffer(keeper, self._tell)
        self.inventory, _ = read(TWO_T4)
        self.current.set_labels({})

    def _tell(self) -> None:
        self.told += 1

    def write(self, **fields: Any) -> None:
        """Change the configuration, and have the file looked at."""
        self.path.write_text(json.dumps({"nodeconfig": [{"name": "*", **fields}]}))
        self.current.look()

    def healths(self) -> list[bool]:
        """Return the health of each card."""
        offer = self.current.offer()
        assert offer is not None
        return [card.healthy for card in offer.cards]

    def codes(self) -> list[str]:
        """Return what an administrator is told."""
        return [each.code for each in self.current.problems()]


def ready(folder: Path) -> Scene:
    """Return a scene in which all is known."""
    scene = Scene(folder)
    scene.current.set_inventory(scene.inventory)
    assert scene.current.look()
    return scene


def test_nothing_is_offered_before_all_is_known(tmp_path: Path) -> None:
    """The GPUs alone are not enough, nor is the configuration."""
    scene = Scene(tmp_path)
    scene.write(devicesplitcount=3)
    assert scene.current.offer() is None
    scene.current.set_inventory(scene.inventory)
    offer = scene.current.offer()
    assert offer is not None
    assert [card.count for card in offer.cards] == [3, 3]


def test_changes_are_told(tmp_path: Path) -> None:
    """Whoever offers something hears of every change, and of nothing else."""
    scene = ready(tmp_path)
    told = scene.told
    scene.current.set_inventory(scene.inventory)
    scene.current.set_labels({})
    scene.current.look()
    assert scene.told == told
    ailment = Ailment(uuid=scene.inventory.gpus[0].uuid, code="Xid79", message="gone")
    scene.current.set_inventory(replace(scene.inventory, ailments=(ailment,)))
    assert scene.healths() == [False, True]
    assert scene.told == told + 1
    scene.write(enablenumatopology=True)
    assert scene.told == told + 2
    config = scene.current.config()
    assert config is not None
    assert config.numa_topology


def test_a_bad_configuration_changes_nothing(tmp_path: Path) -> None:
    """What was offered stays, and the mistake is told."""
    scene = ready(tmp_path)
    before = scene.current.offer()
    scene.write(devicesplitcount=0)
    assert scene.current.offer() == before
    assert scene.codes() == ["OutOfRange"]
    scene.write(devicesplitcount=2)
    assert scene.codes() == []
    assert scene.current.offer() != before


def test_a_driver_that_does_not_answer(tmp_path: Path) -> None:
    """All cards stay, none of them healthy, until the GPUs are read again."""
    scene = ready(tmp_path)
    scene.current.set_failure(Ailment(uuid=GpuUuid(""), code="DriverNotLoaded", message="gone"))
    assert scene.healths() == [False, False]
    scene.current.set_inventory(scene.inventory)
    assert scene.healths() == [True, True]


def test_a_card_that_was_known_stays(tmp_path: Path) -> None:
    """A GPU that can be named and not read any more is offered as it was, and not healthy."""
    scene = ready(tmp_path)
    lost = scene.inventory.gpus[1]
    fault = GpuFault(
        index=1, uuid=lost.uuid, pci_bus_id=lost.pci_bus_id, reason="GPU_IS_LOST", call="x"
    )
    one: Inventory = replace(scene.inventory, gpus=scene.inventory.gpus[:1], faults=(fault,))
    scene.current.set_inventory(one)
    assert scene.healths() == [True, False]


def test_what_an_administrator_is_told(tmp_path: Path) -> None:
    """Cards that are withheld, a node without cards, filters of nothing and faulty links."""
    scene = ready(tmp_path)
    assert scene.codes() == []
    one, other = (gpu.uuid for gpu in scene.inventory.gpus)
    scene.write(filterdevices={"index": [0, 1, 5]})
    assert scene.codes() == ["CardWithheld", "CardWithheld", "NoCardOffered", "FilterWithoutCard"]
    scene.write(filterdevices={"uuid": [one]})
    assert scene.codes() == ["CardWithheld"]
    scene.write()
    link = Link(one=one, other=other, nearness=Nearness.SAME_CPU, nvlinks=2, nvlinks_back=0)
    scene.current.set_links((link,))
    assert scene.codes() == ["AsymmetricGPUP2PLink"]


def test_points_of_pairs(tmp_path: Path) -> None:
    """They are known once the links are, and only of cards that are offered."""
    scene = ready(tmp_path)
    one, other = (gpu.uuid for gpu in scene.inventory.gpus)
    assert scene.current.scores() is None
    link = Link(one=one, other=other, nearness=Nearness.SAME_CPU, nvlinks=1, nvlinks_back=1)
    scene.current.set_links((link,))
    assert scene.current.scores() == {one: {other: 120}, other: {one: 120}}
    scene.write(filterdevices={"uuid": [one]})
    assert scene.current.scores() == {other: {}}


def test_profiles_are_kept_of_gpus_that_fail(tmp_path: Path) -> None:
    """A card of which instances are made stays in the list, as not healthy."""
    inventory, profiles = read("gpus: [{profile: a30, mig: []}, {profile: a30, mig: []}]")
    allowed = (MigProfiles(models=("A30",), profiles=("1g.6gb",)),)
    scene = Scene(tmp_path, NvidiaConfig(mig_profile_allowlist=allowed))
    scene.write(operatingmode="mig")
    scene.current.set_profiles(profiles)
    scene.current.set_inventory(inventory)
    assert scene.healths() == [True, True]
    lost = inventory.gpus[0]
    fault = GpuFault(
        index=0,
        uuid=lost.uuid,
        pci_bus_id=lost.pci_bus_id,
        reason="GPU_IS_LOST",
        call="nvmlDeviceGetName",
    )
    scene.current.set_profiles({inventory.gpus[1].uuid: profiles[inventory.gpus[1].uuid]})
    scene.current.set_inventory(replace(inventory, gpus=inventory.gpus[1:], faults=(fault,)))
    assert scene.healths() == [False, True]
