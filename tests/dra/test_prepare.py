"""Prepare and unprepare on real files."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu.refusal import RefusedError
from tests.dra.builders import UID, a_claim, a_gpu, a_mig_gpu, a_result
from tests.dra.nodes import UID_2, Node, Reference, put_second, traces_of
from tests.fakes.claim_server import ClaimServer


def test_a_prepared_share_has_record_region_and_spec(node: Node) -> None:
    """The spec carries the limits, the region is a file, the record says both."""
    record = node.prepare()
    assert node.traces() == traces_of(UID)
    assert [limit.memory_mib for limit in record.limits] == [3000]
    env = node.spec()["containerEdits"]["env"]
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=3000m" in env
    assert (node.directory / "regions" / UID / "region.cache").stat().st_mode & 0o777 == 0o666


def test_a_whole_gpu_has_no_region(node: Node, server: ClaimServer) -> None:
    """Nothing is limited and no library is loaded."""
    put_second(server, None)
    node.prepare(UID_2, "second")
    assert node.traces() == {"state": {UID_2}, "specs": {UID_2}, "regions": set()}
    assert "LIMIT" not in str(node.spec(UID_2))


def test_repeated_calls_give_equal_answers(node: Node) -> None:
    """Kubelet compares them; the spec is written again with the same bytes."""
    first = node.prepare()
    content = node.specs.read(UID)
    node.specs.delete(UID)
    assert node.prepare() == first
    assert node.specs.read(UID) == content


def test_a_restart_gives_equal_answers(node: Node, server: ClaimServer) -> None:
    """Record and spec do not depend on the process."""
    first, content = node.prepare(), node.specs.read(UID)
    node.close()
    again = Node(node.directory, server)
    assert again.prepare() == first
    assert again.specs.read(UID) == content
    again.close()


def test_preparing_again_keeps_the_region(node: Node) -> None:
    """Running processes use it, and a second file would double the limit."""
    node.prepare()
    region = node.directory / "regions" / UID / "region.cache"
    inode = region.stat().st_ino
    node.prepare()
    assert region.stat().st_ino == inode


def test_a_new_allocation_begins_with_a_new_region(node: Node, server: ClaimServer) -> None:
    """A region keeps the limits that it was first used with."""
    node.prepare()
    region = node.directory / "regions" / UID / "region.cache"
    region.write_bytes(b"x" * region.stat().st_size)
    server.put(a_claim(a_result(a_gpu(1), "4000Mi"), resourceVersion="9"))
    record = node.prepare()
    assert [limit.memory_mib for limit in record.limits] == [4000]
    assert set(region.read_bytes()) == {0}
    assert node.traces() == traces_of(UID)


def test_a_reboot_begins_with_a_new_region(node: Node, server: ClaimServer) -> None:
    """No process from before it lives, but its usage would count; the next prepare keeps it."""
    node.prepare()
    node.close()
    region = node.directory / "regions" / UID / "region.cache"
    region.write_bytes(b"x" * region.stat().st_size)
    shutil.rmtree(node.directory / "cdi")
    rebooted = Node(node.directory, server, boot_id="another-boot")
    assert rebooted.prepare().boot_id == "another-boot"
    assert set(region.read_bytes()) == {0}
    assert rebooted.traces() == traces_of(UID)
    inode = region.stat().st_ino
    rebooted.prepare()
    assert region.stat().st_ino == inode
    rebooted.close()


def test_unprepare_leaves_nothing(node: Node, server: ClaimServer) -> None:
    """It does not ask the API server, which may not know the claim any more."""
    node.prepare()
    asked = server.request_count
    assert node.preparer.unprepare(UID) is not None
    assert server.request_count == asked
    assert node.traces() == traces_of()


def test_unprepare_of_an_unknown_claim_succeeds(node: Node) -> None:
    """Kubelet repeats the call, and calls for what was never prepared."""
    node.prepare()
    assert node.preparer.unprepare(UID) is not None
    assert node.preparer.unprepare(UID) is None
    assert node.preparer.unprepare(UID_2) is None


def test_a_claim_waits_for_the_device_that_another_holds(node: Node, server: ClaimServer) -> None:
    """A force-deleted pod still runs: its claim has to be unprepared first."""
    put_second(server, None)
    node.prepare()
    said = node.refusal(UID_2, "second")
    assert said.startswith("DeviceInUse")
    assert "team-a/claim" in said
    assert node.traces() == traces_of(UID)
    node.preparer.unprepare(UID)
    assert node.refusal(UID_2, "second") == ""


def test_a_late_prepare_does_not_bring_a_claim_back(node: Node, server: ClaimServer) -> None:
    """The version that was released is refused, also by another process; a new one is taken."""
    node.prepare()
    node.preparer.unprepare(UID)
    assert node.refusal().startswith("ClaimWasReleased")
    node.close()
    again = Node(node.directory, server)
    assert again.refusal().startswith("ClaimWasReleased")
    assert again.traces() == traces_of()
    server.put(a_claim(a_result(a_gpu(0), "3000Mi"), resourceVersion="8"))
    assert again.refusal() == ""
    again.close()


def test_a_prepare_overtaken_by_unprepare_is_refused(node: Node, server: ClaimServer) -> None:
    """The claim was never prepared, so only the order of the calls tells."""
    overtaken = threading.Event()

    def wanted() -> bool:
        # Reached with the lock held, so the unprepare has to wait: bury by hand before.
        node.preparer._bury(UID)
        overtaken.set()
        return True

    with pytest.raises(RefusedError, match="ClaimWasReleased"):
        node.preparer.prepare(Reference(), wanted=wanted)
    assert overtaken.is_set()
    assert node.traces() == traces_of()
    assert node.refusal() == ""


def test_a_call_that_kubelet_gave_up_changes_nothing(node: Node) -> None:
    """Nobody would unprepare what it left behind."""
    with pytest.raises(RefusedError, match="CallEnded"):
        node.preparer.prepare(Reference(), wanted=lambda: False)
    assert node.traces() == traces_of()


def test_a_claim_without_devices_of_ours_is_answered(node: Node, server: ClaimServer) -> None:
    """A spec without devices would be invalid, so there is none."""
    server.put(a_claim(a_result(a_gpu(0), driver="other.example.com")))
    assert node.prepare().devices == ()
    assert node.specs.claim_uids() == set()
    node.preparer.restore()
    assert node.specs.claim_uids() == set()
    node.preparer.unprepare(UID)
    assert node.traces() == traces_of()


def test_two_instances_never_exceed_a_gpu(node: Node, server: ClaimServer) -> None:
    """Each sees what the other has prepared, although both could alone."""
    put_second(server, "14000Mi")
    other = Node(node.directory, server)
    node.prepare()
    assert other.refusal(UID_2, "second").startswith("CapacityExceeded")
    other.close()


def test_many_claims_at_once(tmp_path: Path, server: ClaimServer) -> None:
    """Ten shares of each GPU are prepared and unprepared by many threads; nothing leaks."""
    gpus = tuple(a_gpu(number) for number in range(4))
    node = Node(tmp_path, server, gpus=gpus)
    uids = [f"{UID[:-3]}{number:03}" for number in range(100, 140)]
    for index, uid in enumerate(uids):
        result = a_result(gpus[index % 4], "1600Mi", shareID=f"share-{index}")
        server.put(a_claim(result, name=f"claim-{index}", uid=uid))
    with ThreadPoolExecutor(8) as pool:
        names = [f"claim-{index}" for index in range(40)]
        assert list(pool.map(node.refusal, uids, names)) == [""] * 40
        assert node.traces() == traces_of(*uids)
        list(pool.map(node.preparer.unprepare, uids))
    assert node.traces() == traces_of()
    node.close()


def test_partitions_are_prepared_beside_each_other(tmp_path: Path, server: ClaimServer) -> None:
    """Each is a device of its own."""
    gpu = a_mig_gpu(0)
    node = Node(tmp_path, server, gpus=(gpu,))
    for number, mig in enumerate(gpu.mig_devices):
        uid = f"{UID[:-1]}{number}"
        result = a_result(a_gpu(0), None, device=mig.uuid.lower())
        server.put(a_claim(result, name=f"mig-{number}", uid=uid))
        assert node.refusal(uid, f"mig-{number}") == ""
        assert mig.uuid in str(node.spec(uid))
    node.close()
