"""A damaged state is rebuilt from the API server and from the CDI specs, and nobody notices."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dra.journal import encode_line
from gpu import names
from tests.agent.damage import KINDS, damage
from tests.dra.builders import NODE, UID, a_claim, a_gpu, a_result
from tests.dra.nodes import UID_2, Node, a_pod_use, put_second, traces_of
from tests.dra.stores import journal_of
from tests.fakes.claim_server import ClaimServer
from tests.patience import eventually


@contextmanager
def restarted(node: Node, server: ClaimServer, **changes: Any) -> Iterator[Node]:
    """Kill the process of *node* and run the next one on the same files."""
    node.close()
    last = Node(node.directory, server, **changes)
    try:
        yield last
    finally:
        last.close()


@contextmanager
def damaged(
    node: Node, server: ClaimServer, kind: str = "changed", **changes: Any
) -> Iterator[Node]:
    """Kill the process, damage its state, and run the next one."""
    damage(node.directory / "state", kind)
    with restarted(node, server, **changes) as last:
        yield last


def asides(node: Node) -> list[Path]:
    """Return the directories in which damaged states are kept."""
    return sorted(node.directory.glob("state.damaged-*"))


def region(node: Node, uid: str = UID) -> Path:
    """Return the region of a claim."""
    return node.directory / "regions" / uid / "region.cache"


def mark(path: Path) -> None:
    """Leave something in a region, as the processes of its claim do."""
    with path.open("r+b") as file:
        file.write(b"used")


def is_marked(path: Path) -> bool:
    """Tell whether what they left is still there."""
    return path.read_bytes()[:4] == b"used"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_state_is_found_again(node: Node, server: ClaimServer, kind: str) -> None:
    """Claim, spec and region are what they were, and the damaged files are kept."""
    put_second(server, "1000Mi", gpu=1)
    before = [node.prepare(), node.prepare(UID_2, "second")]
    spec = node.specs.read(UID)
    mark(region(node))
    files = {path.name for path in (node.directory / "state").glob("*.0*")}
    with damaged(node, server, kind) as last:
        assert last.refusal().startswith("StateRebuilding: claim.uid: ")
        last.rebuild.run()
        assert last.store.rebuild_problem() is None
        assert last.traces() == traces_of(UID, UID_2)
        assert [last.prepare(), last.prepare(UID_2, "second")] == before
        assert last.specs.read(UID) == spec
        assert is_marked(region(last))
        assert {path.name for path in asides(last)[-1].iterdir()} == files


def test_a_damaged_journal_is_found_again(node: Node, server: ClaimServer) -> None:
    """Whole snapshots do not help when what followed cannot be read."""
    before = node.prepare()
    journal = journal_of(node.directory / "state")
    journal.write_bytes(journal.read_bytes().replace(b"claim", b"CLAIM"))
    with restarted(node, server) as last:
        last.rebuild.run()
        assert last.prepare() == before
        assert last.traces() == traces_of(UID)


def test_the_end_of_a_rebuild_outlives_a_restart(node: Node, server: ClaimServer) -> None:
    """The next process finds a state like any other."""
    node.prepare()
    with damaged(node, server) as last:
        last.rebuild.run()
        with restarted(last, server) as next_one:
            assert next_one.store.rebuild_problem() is None
            assert next_one.traces() == traces_of(UID)
            assert next_one.prepare() == next_one.store.claims()[UID]


def test_a_rebuild_is_told_on_the_node(node: Node, server: ClaimServer) -> None:
    """Whoever looks at the node sees that its record was damaged, and how much was found."""
    node.prepare()
    with damaged(node, server) as last:
        last.rebuild.run()
        eventually(lambda: server.events)
        (event,) = server.events
        assert (event["reason"], event["type"]) == ("CheckpointRebuilt", "Warning")
        assert event["involvedObject"]["uid"] == f"uid of {NODE}"
        assert "was rebuilt with 1 claims" in event["message"]


def test_an_api_server_that_is_away_delays_a_rebuild(node: Node, server: ClaimServer) -> None:
    """Nothing is lost or removed meanwhile, and kubelet hears why it has to wait."""
    before = node.prepare()
    with damaged(node, server) as last:
        server.answer_status = 503
        last.rebuild.run()
        last.preparer.restore()
        assert "waits for the API server: " in last.refusal()
        assert last.specs.claim_uids() == last.regions.claim_uids() == {UID}
        server.answer_status = None
        last.rebuild.run()
        assert last.prepare() == before


def test_a_rebuild_waits_for_the_pods_of_the_node(node: Node, server: ClaimServer) -> None:
    """Without them nobody can tell which claims are used here."""
    node.prepare()
    with damaged(node, server) as last:
        last.pods = None
        last.rebuild.run()
        assert "to tell the pods of this node" in last.refusal()
        last.pods = (a_pod_use(),)
        last.rebuild.run()
        assert last.refusal() == ""


def test_a_rebuild_waits_for_the_gpus(node: Node, server: ClaimServer) -> None:
    """What a claim holds is told in terms of the devices that are there."""
    node.prepare()
    with damaged(node, server) as last:
        view, last.state._view = last.state.current(), None
        last.rebuild.run()
        assert "waits for the GPUs" in last.refusal()
        last.state.set(view)
        last.rebuild.run()
        assert last.refusal() == ""


def test_a_claim_that_is_unprepared_meanwhile_stays_away(node: Node, server: ClaimServer) -> None:
    """The API server may still show it as allocated and reserved."""
    node.prepare()
    with damaged(node, server) as last:
        assert last.preparer.unprepare(UID) is None
        assert last.traces() == traces_of()
        last.rebuild.run()
        assert last.traces() == traces_of()
        with last.store.transaction() as transaction:
            assert transaction.released(UID) is not None


def test_nothing_is_removed_before_the_rebuild(node: Node, server: ClaimServer) -> None:
    """What seems to be left over may belong to a claim that is not known again yet."""
    node.prepare()
    with damaged(node, server) as last:
        last.preparer.restore()
        assert last.specs.claim_uids() == last.regions.claim_uids() == {UID}
        last.specs.write(UID_2, b"{}")
        last.rebuild.run()
        assert last.traces() == traces_of(UID)


def test_claims_of_others_are_left_to_them(node: Node, server: ClaimServer) -> None:
    """Another node's, another driver's, and those that no pod of this node may use."""
    result = a_result(a_gpu(0), "1000Mi")
    second = a_claim(result, name="second", uid=UID_2)
    second["status"]["reservedFor"][0]["uid"] = "pod of another node"
    server.put(second)
    others = {"pool": result | {"pool": "node-2"}, "driver": result | {"driver": "gpu.nvidia.com"}}
    for number, (name, changed) in enumerate(others.items()):
        server.put(a_claim(changed, name=name, uid=f"{UID[:-1]}{number + 3}"))
    server.put(a_claim(name="pending", uid=f"{UID[:-1]}5") | {"status": {}})
    node.prepare()
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.traces() == traces_of(UID)


def test_a_claim_that_cannot_be_read_stops_no_other(node: Node, server: ClaimServer) -> None:
    """Neither what is no claim nor what cannot be planned is in the way."""
    server.claims["team-a/a"] = {"metadata": {"name": 7}}
    bad = a_claim(a_result(a_gpu(0), "1500Ki"), name="bad", uid=f"{UID[:-1]}3")
    server.put(bad)
    before = node.prepare()
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.prepare() == before
        assert last.traces() == traces_of(UID)
        eventually(lambda: len(server.events) == 2)
        said = {event["reason"]: event for event in server.events}
        assert said["MemoryNotWholeMiB"]["involvedObject"]["name"] == "bad"


def test_a_spec_that_cannot_be_read_stops_no_other(node: Node, server: ClaimServer) -> None:
    """A directory where a spec should be, and a file that is none, are passed over."""
    before = node.prepare()
    spec = node.specs.read(UID)
    node.specs.path(UID_2).mkdir()
    node.specs.write(UID[:-1] + "3", b"garbage")
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.prepare() == before
        assert last.specs.read(UID) == spec
        assert set(last.store.claims()) == {UID}


def test_a_claim_whose_spec_is_garbage_is_taken_from_its_object(
    node: Node, server: ClaimServer
) -> None:
    """The spec is written anew."""
    before = node.prepare()
    spec = node.specs.read(UID)
    node.specs.write(UID, b"garbage")
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.specs.read(UID) == spec
        assert last.prepare() == before


def test_a_claim_without_an_object_still_holds_its_share(node: Node, server: ClaimServer) -> None:
    """Its pod was deleted by force and may still run: who comes next waits for its end."""
    node.prepare()
    spec = node.specs.read(UID)
    server.claims.clear()
    put_second(server, "14000Mi")
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.traces() == traces_of(UID)
        assert last.specs.read(UID) == spec
        refusal = last.refusal(UID_2, "second")
        assert refusal.startswith("CapacityExceeded: ")
        assert f"`unknown/{UID}`" in refusal
        last.preparer.unprepare(UID)
        assert last.refusal(UID_2, "second") == ""
        assert last.traces() == traces_of(UID_2)


def test_a_claim_that_waits_for_another_is_not_taken_for_prepared(
    node: Node, server: ClaimServer
) -> None:
    """It was allocated what a force-deleted pod still holds, and was refused until the damage."""
    node.prepare()
    server.claims.clear()
    put_second(server, "14000Mi")
    assert node.refusal(UID_2, "second").startswith("CapacityExceeded: ")
    with damaged(node, server) as last:
        last.rebuild.run()
        assert set(last.store.claims()) == {UID}
        assert last.refusal(UID_2, "second").startswith("CapacityExceeded: ")


def test_a_wiped_cdi_directory_does_not_hide_claims(node: Node, server: ClaimServer) -> None:
    """The API server alone is enough for a claim that fits."""
    before = node.prepare()
    spec = node.specs.read(UID)
    node.specs.path(UID).unlink()
    with damaged(node, server) as last:
        last.rebuild.run()
        assert last.specs.read(UID) == spec
        assert last.prepare() == before


def test_a_claim_that_was_allocated_anew_is_prepared_anew(node: Node, server: ClaimServer) -> None:
    """What is on the node is of the old allocation, so that one is held until the next prepare."""
    node.prepare()
    server.put(a_claim(a_result(a_gpu(1), "2000Mi"), resourceVersion="8"))
    with damaged(node, server) as last:
        last.rebuild.run()
        (held,) = last.store.claims()[UID].devices
        assert held.device == names.device_name(a_gpu(0).uuid)
        mark(region(last))
        (given,) = last.prepare().devices
        assert given.device == names.device_name(a_gpu(1).uuid)
        assert not is_marked(region(last))
        assert last.traces() == traces_of(UID)


def test_a_claim_whose_gpu_cannot_be_read_now_is_not_forgotten(
    node: Node, server: ClaimServer
) -> None:
    """Its spec stays, and it is prepared again when the GPU is back."""
    before = node.prepare()
    spec = node.specs.read(UID)
    with damaged(node, server) as last:
        last.show(a_gpu(1))
        last.rebuild.run()
        assert last.traces() == traces_of(UID)
        assert last.specs.read(UID) == spec
        last.show(a_gpu(0), a_gpu(1))
        assert last.prepare().devices == before.devices


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


def test_few_damaged_states_are_kept(node: Node, server: ClaimServer) -> None:
    """Three for whoever looks for the cause; more would fill the disk of a node that is ill."""
    node.prepare()
    node.close()
    for _time in range(5):
        damage(node.directory / "state")
        last = Node(node.directory, server)
        last.rebuild.run()
        last.close()
    assert len(asides(node)) == 3
    numbers = [int(path.name.rpartition("-")[2]) for path in asides(node)]
    with restarted(Node(node.directory, server), server) as last:
        assert last.traces() == traces_of(UID)
        assert last.store._generation > max(numbers)


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


def test_a_cut_that_only_the_next_start_sees_is_no_damage(node: Node, server: ClaimServer) -> None:
    """A record that was never acknowledged is dropped as ever, without a rebuild."""
    node.prepare()
    with journal_of(node.directory / "state").open("ab") as journal:
        journal.write(encode_line({"op": "withdrawn", "uid": UID})[:-1])
    with restarted(node, server) as last:
        assert last.store.rebuild_problem() is None
        assert last.traces() == traces_of(UID)


def test_a_rebuild_that_cannot_be_recorded_goes_on_later(node: Node, server: ClaimServer) -> None:
    """The mark stays until the state without it is on the disk."""
    before = node.prepare()
    with damaged(node, server) as last:
        descriptor = last.store._journal_descriptor
        last.store._journal_descriptor = os.open("/dev/full", os.O_WRONLY)
        last.rebuild.run()
        assert "waits for the disk" in last.refusal()
        os.close(last.store._journal_descriptor)
        last.store._journal_descriptor = descriptor
        last.rebuild.run()
        assert last.prepare() == before


def test_all_pages_of_claims_are_read(node: Node, server: ClaimServer) -> None:
    """A cluster has more claims than one answer of the server holds."""
    for number in range(2, 8):
        server.put(
            a_claim(a_result(a_gpu(1), "10Mi"), name=f"c-{number}", uid=UID[:-1] + f"{number}")
        )
    with damaged(node, server) as last:
        last.rebuild.run()
        assert len(last.store.claims()) == 7
