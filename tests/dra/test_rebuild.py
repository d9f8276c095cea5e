"""A damaged state is rebuilt from the API server and from the CDI specs, and nobody notices."""

import pytest

from dra.journal import encode_line
from tests.agent.damage import KINDS, damage
from tests.dra.builders import NODE, UID, a_claim, a_gpu, a_result
from tests.dra.nodes import UID_2, Node, put_second, traces_of
from tests.dra.rebuilding import asides, damaged, is_marked, mark, region, restarted
from tests.dra.stores import journal_of
from tests.fakes.claim_server import ClaimServer
from tests.patience import eventually


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


def test_a_cut_that_only_the_next_start_sees_is_no_damage(node: Node, server: ClaimServer) -> None:
    """A record that was never acknowledged is dropped as ever, without a rebuild."""
    node.prepare()
    with journal_of(node.directory / "state").open("ab") as journal:
        journal.write(encode_line({"op": "withdrawn", "uid": UID})[:-1])
    with restarted(node, server) as last:
        assert last.store.rebuild_problem() is None
        assert last.traces() == traces_of(UID)


def test_all_pages_of_claims_are_read(node: Node, server: ClaimServer) -> None:
    """A cluster has more claims than one answer of the server holds."""
    for number in range(2, 8):
        server.put(
            a_claim(a_result(a_gpu(1), "10Mi"), name=f"c-{number}", uid=UID[:-1] + f"{number}")
        )
    with damaged(node, server) as last:
        last.rebuild.run()
        assert len(last.store.claims()) == 7
