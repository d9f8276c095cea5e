"""Which claims a rebuild takes for prepared when objects, specs and devices do not agree."""

from gpu import names
from tests.dra.builders import UID, a_claim, a_gpu, a_result
from tests.dra.nodes import UID_2, Node, put_second, traces_of
from tests.dra.rebuilding import damaged, is_marked, mark, region
from tests.fakes.claim_server import ClaimServer
from tests.patience import eventually


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
