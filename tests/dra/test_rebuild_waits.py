"""What a rebuild waits for, and what may happen to claims meanwhile."""

import os

from tests.dra.builders import UID
from tests.dra.nodes import UID_2, Node, a_pod_use, traces_of
from tests.dra.rebuilding import damaged
from tests.fakes.claim_server import ClaimServer


def test_an_api_server_that_is_away_delays_a_rebuild(node: Node, server: ClaimServer) -> None:
    """Nothing is lost or removed meanwhile, and kubelet hears why it has to wait."""
    before = node.prepare()
    with damaged(node, server) as last:
        server.answer_status = 503
        last.rebuild.run()
        last.preparer.restore()
        assert "waits for the API server: " in last.refusal()
        assert last.specs.claim_uids() == last.regions.owners() == {UID}
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
        assert last.specs.claim_uids() == last.regions.owners() == {UID}
        last.specs.write(UID_2, b"{}")
        last.rebuild.run()
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
