"""Putting back what prepared claims need, and removing what belongs to none."""

import shutil

from tests.dra.builders import UID, a_gpu
from tests.dra.nodes import UID_2, Node, put_second, traces_of
from tests.fakes.claim_server import ClaimServer


def test_restore_repairs_what_was_lost(node: Node) -> None:
    """After the runtime's directory was wiped, claims have their specs and regions again."""
    node.prepare()
    content = node.specs.read(UID)
    shutil.rmtree(node.directory / "cdi")
    shutil.rmtree(node.directory / "regions")
    node.preparer.restore()
    assert node.specs.read(UID) == content
    assert node.traces() == traces_of(UID)


def test_restore_repairs_what_was_changed(node: Node) -> None:
    """A spec that says something else is written again."""
    node.prepare()
    content = node.specs.read(UID)
    node.specs.write(UID, b"{}")
    (node.directory / "regions" / UID / "region.cache").unlink()
    node.preparer.restore()
    assert node.specs.read(UID) == content
    assert node.traces() == traces_of(UID)


def test_restore_removes_what_belongs_to_no_claim(node: Node) -> None:
    """Left over by a process that was killed between two steps."""
    node.prepare()
    node.specs.write(UID_2, b"{}")
    node.regions.ensure(UID_2)
    node.preparer.restore()
    assert node.traces() == traces_of(UID)


def test_restore_respects_another_instance(node: Node, server: ClaimServer) -> None:
    """What the other process of an update prepared is neither removed nor forgotten."""
    put_second(server, "1000Mi")
    other = Node(node.directory, server)
    node.prepare()
    other.prepare(UID_2, "second")
    node.preparer.restore()
    assert node.traces() == traces_of(UID, UID_2)
    node.preparer.unprepare(UID_2)
    other.preparer.restore()
    assert other.traces() == traces_of(UID)
    other.close()


def test_one_bad_claim_does_not_stop_restore(node: Node, server: ClaimServer) -> None:
    """A device that is gone and a directory nobody can remove leave the others to be repaired."""
    put_second(server, "1000Mi", gpu=1)
    node.prepare()
    node.prepare(UID_2, "second")
    shutil.rmtree(node.directory / "cdi")
    (node.directory / "regions" / "0-strange" / "deep").mkdir(parents=True)
    node.show(a_gpu(1))
    node.preparer.restore()
    assert node.specs.claim_uids() == {UID_2}
    assert set(node.store.current()) == {UID, UID_2}
