"""A rebuild across reboots, and one that two instances of the agent share."""

import pytest

from tests.agent.damage import damage
from tests.dra.builders import UID
from tests.dra.nodes import Node, traces_of
from tests.dra.rebuilding import damaged, is_marked, mark, region, restarted
from tests.fakes.claim_server import ClaimServer


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_reboot_makes_claims_of_a_damaged_state_new_too(
    node: Node, server: ClaimServer, *, rebooted: bool
) -> None:
    """Nobody uses a region of the boot before; one of this boot may be in use."""
    node.prepare()
    mark(region(node))
    boot = {"boot_id": "another boot"} if rebooted else {}
    with damaged(node, server, **boot) as last:
        last.rebuild.run()
        record = last.prepare()
        assert record.boot_id == last.boot_id
        assert is_marked(region(last)) != rebooted
        assert last.traces() == traces_of(UID)


def test_a_reboot_in_the_middle_of_a_rebuild_is_noticed(node: Node, server: ClaimServer) -> None:
    """The boot in which regions were made is not forgotten with the first try."""
    node.prepare()
    mark(region(node))
    with (
        damaged(node, server, boot_id="another boot") as first,
        restarted(first, server, boot_id="another boot") as last,
    ):
        last.rebuild.run()
        last.prepare()
        assert not is_marked(region(last))


def test_two_instances_rebuild_as_one(node: Node, server: ClaimServer) -> None:
    """Whichever has done it, the other goes on with the result."""
    node.prepare()
    with damaged(node, server) as last:
        other = Node(node.directory, server)
        assert other.refusal().startswith("StateRebuilding: ")
        assert last.refusal().startswith("StateRebuilding: ")
        other.rebuild.run()
        assert last.refusal() == other.refusal() == ""
        last.rebuild.run()
        assert last.traces() == other.traces() == traces_of(UID)
        other.close()


def test_a_running_instance_takes_part_in_the_rebuild_of_another(
    node: Node, server: ClaimServer
) -> None:
    """The old agent of an update finds that the new one set the state aside, and waits with it."""
    before = node.prepare()
    damage(node.directory / "state")
    other = Node(node.directory, server)
    assert node.refusal().startswith("StateRebuilding: ")
    assert node.specs.claim_uids() == {UID}
    other.rebuild.run()
    assert node.prepare() == before
    other.close()
