"""Prepare and unprepare where disks, files or GPUs fail: refused, and without a trace."""

from pathlib import Path

import pytest

from dra.allocation import Allocation
from dra.journal import encode_line
from gpu.refusal import Refusal, RefusedError
from tests.dra.builders import UID, a_gpu
from tests.dra.disks import fill, small_disk, turn
from tests.dra.nodes import UID_2, Node, put_second, traces_of
from tests.fakes.claim_server import ClaimServer


def test_a_read_only_cdi_directory_leaves_no_trace(tmp_path: Path, server: ClaimServer) -> None:
    """The reason names the file; with the disk writable the next call succeeds."""
    with small_disk(tmp_path / "cdi", size_kib=512) as disk:
        node = Node(tmp_path, server)
        turn(disk, "ro")
        said = node.refusal()
        assert said.startswith("SpecNotWritable")
        assert f"ReadOnly: {disk}/" in said
        assert node.preparer.unprepare(UID_2) is None
        assert node.traces() == traces_of()
        turn(disk, "rw")
        assert node.refusal() == ""
        assert node.traces() == traces_of(UID)
        node.close()


def test_a_full_disk_under_the_plugin_leaves_no_trace(tmp_path: Path, server: ClaimServer) -> None:
    """Neither the record nor the region; with room the next call succeeds."""
    with small_disk(tmp_path / "plugin", size_kib=256) as disk:
        node = Node(disk, server)
        ballast = fill(disk)
        for _ in range(3):
            assert "No space left on device" in node.refusal()
        assert node.traces() == traces_of()
        ballast.unlink()
        assert node.refusal() == ""
        node.preparer.unprepare(UID)
        assert node.traces() == traces_of()
        node.close()


def test_regions_that_cannot_be_made_leave_no_trace(node: Node) -> None:
    """The reason names the place; with it repaired the next call succeeds."""
    directory = node.directory / "regions"
    directory.touch()
    said = node.refusal()
    assert said.startswith("SpecNotWritable")
    assert str(directory) in said
    directory.unlink()
    assert node.traces() == traces_of()
    assert node.refusal() == ""


def test_a_claim_stays_when_it_cannot_be_undone(tmp_path: Path, server: ClaimServer) -> None:
    """Kubelet calls again; until then the claim keeps its share."""
    with small_disk(tmp_path / "cdi", size_kib=512) as disk:
        node = Node(tmp_path, server)
        node.prepare()
        turn(disk, "ro")
        with pytest.raises(RefusedError, match="SpecNotWritable"):
            node.preparer.unprepare(UID)
        assert set(node.store.current()) == {UID}
        turn(disk, "rw")
        node.preparer.unprepare(UID)
        assert node.traces() == traces_of()
        node.close()


def test_a_state_of_a_newer_version_refuses_calls(node: Node) -> None:
    """Nothing is done by what another instance writes and this one cannot read."""
    node.prepare()
    with max((node.directory / "state").glob("journal.*")).open("ab") as journal:
        journal.write(encode_line({"op": "painted"}))
    said = node.refusal()
    assert said.startswith("StateNotWritable")
    assert "unknown kind 'painted'; run the version of the agent that wrote it" in said
    with pytest.raises(RefusedError, match="painted"):
        node.preparer.unprepare(UID)
    assert node.specs.claim_uids() == {UID}


def test_a_state_that_is_damaged_meanwhile_is_rebuilt(node: Node) -> None:
    """What was read before the damage is kept; prepare waits for what may be missing."""
    node.prepare()
    with max((node.directory / "state").glob("journal.*")).open("ab") as journal:
        journal.write(b"garbage\n")
    assert "checksum" not in node.refusal()
    assert node.refusal().startswith("StateRebuilding: ")
    assert node.traces() == traces_of(UID)
    node.preparer.unprepare(UID)
    assert node.traces() == traces_of()


def test_a_device_that_is_gone_is_refused(node: Node) -> None:
    """Before and after it was prepared."""
    node.show(a_gpu(1))
    assert node.refusal().startswith("DeviceGone")
    node.show(a_gpu(0))
    node.prepare()
    node.show(a_gpu(1))
    assert node.refusal().startswith("DeviceGone")
    assert node.traces() == traces_of(UID)


def test_pods_that_mix_shares_are_refused(tmp_path: Path, server: ClaimServer) -> None:
    """Only for claims with limits; nothing is left behind."""
    asked: list[str] = []

    def refuse(allocation: Allocation) -> None:
        asked.append(allocation.name)
        raise RefusedError(Refusal(code="ManySharesInContainer", field="pod", value="pod"))

    node = Node(tmp_path, server, refuse_pods=refuse)
    assert node.refusal().startswith("ManySharesInContainer")
    assert node.traces() == traces_of()
    put_second(server, None)
    assert node.refusal(UID_2, "second") == ""
    assert asked == ["claim"]
    node.close()
