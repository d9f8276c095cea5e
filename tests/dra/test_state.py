"""The memory of prepared claims in one process."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dra.generations import UnknownFormatError
from dra.journal import encode_line
from dra.record import PREPARED_CLAIM, PreparedClaim
from dra.state import StateError, StateStore
from dra.transaction import TOMBSTONE_S
from gpu import names
from tests.dra.builders import BOOT_ID, a_gpu, a_held, a_limited_record, a_mig_gpu, a_record
from tests.dra.disks import fill, small_disk
from tests.dra.stores import journal_of, opened, put, release


def test_a_record_survives_a_restart_field_by_field(tmp_path: Path) -> None:
    """What is read after a restart equals what was put: tuples, options, MIG, pods."""
    (mig, _) = a_mig_gpu().mig_devices
    claims = [
        a_limited_record(1, pod_uids=("pod-1", "pod-2")),
        a_record(2, a_held(mig), a_held(a_gpu(1), admin=True, share_id=None)),
    ]
    store = opened(tmp_path)
    put(store, *claims)
    store.close()
    again = opened(tmp_path)
    assert dict(again.claims()) == {claim.uid: claim for claim in claims}
    again.close()


def test_a_device_name_in_a_record_is_the_published_one() -> None:
    """The builders of these tests speak of the same devices as the slices do."""
    assert a_held(a_gpu()).device == names.device_name(a_gpu().uuid)


def test_opening_says_which_boot_wrote_the_state(tmp_path: Path) -> None:
    """The first start knows of none; the next ones of the one before."""
    for boot_id, expected in (("boot-1", ""), ("boot-2", "boot-1"), ("boot-2", "boot-2")):
        store = StateStore(tmp_path, boot_id=boot_id)
        assert store.open() == expected
        store.close()


def test_a_released_claim_leaves_a_tombstone_with_its_version(tmp_path: Path) -> None:
    """The tombstone outlives a restart and goes after its time, or when the claim returns."""
    claim, later = a_record(1), a_record(2)
    store = opened(tmp_path)
    put(store, claim, later)
    release(store, claim, now_s=1000)
    store.close()
    store = opened(tmp_path)
    with store.transaction() as transaction:
        assert claim.uid not in transaction.claims
        tombstone = transaction.released(claim.uid)
        assert tombstone is not None
        assert (tombstone.at_s, tombstone.resource_version) == (1000, claim.resource_version)
    put(store, claim)
    with store.transaction() as transaction:
        assert transaction.released(claim.uid) is None
    release(store, claim, now_s=1000)
    release(store, later, now_s=1000 + TOMBSTONE_S + 1)
    with store.transaction() as transaction:
        assert transaction.released(claim.uid) is None
        assert transaction.released(later.uid) is not None
    store.close()


def test_a_withdrawn_claim_leaves_nothing(tmp_path: Path) -> None:
    """It may be prepared again at once."""
    claim = a_record(1)
    store = opened(tmp_path)
    put(store, claim)
    with store.transaction() as transaction:
        transaction.withdraw(claim)
    store.close()
    store = opened(tmp_path)
    with store.transaction() as transaction:
        assert not transaction.claims
        assert transaction.released(claim.uid) is None
    store.close()


def test_a_cut_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    """A crash in the middle of a line harms neither what was before nor what comes after."""
    store = opened(tmp_path)
    put(store, a_record(1))
    line = encode_line({"op": "prepared", "claim": PREPARED_CLAIM.dump_python(a_record(2))})
    with journal_of(tmp_path).open("ab") as journal:
        journal.write(line[:40])
    put(store, a_record(3))
    expected = {a_record(1).uid, a_record(3).uid}
    assert store.claims().keys() == expected
    store.close()
    again = opened(tmp_path)
    assert again.claims().keys() == expected
    again.close()


def test_a_damaged_newest_snapshot_is_made_up_for(tmp_path: Path) -> None:
    """The generation before and the journals give all claims back."""
    store = opened(tmp_path)
    put(store, a_record(1))
    store.close()
    store = opened(tmp_path)
    put(store, a_record(2))
    store.close()
    newest = max(tmp_path.glob("snapshot.*"))
    newest.write_bytes(newest.read_bytes().replace(b"claim-1", b"claim-X"))
    again = opened(tmp_path)
    assert again.claims().keys() == {a_record(1).uid, a_record(2).uid}
    again.close()


def test_fields_of_a_later_minor_version_are_ignored(tmp_path: Path) -> None:
    """An older program reads what a newer one of the same format wrote."""
    store = opened(tmp_path)
    store.close()
    entry = PREPARED_CLAIM.dump_python(a_record(1), mode="json") | {"colour": "green"}
    with journal_of(tmp_path).open("ab") as journal:
        journal.write(encode_line({"op": "prepared", "claim": entry, "why": "because"}))
    again = opened(tmp_path)
    assert dict(again.claims()) == {a_record(1).uid: a_record(1)}
    again.close()


def test_a_record_of_a_newer_version_stops_the_start(tmp_path: Path) -> None:
    """What this version does not know it neither overwrites nor takes for damage."""
    opened(tmp_path).close()
    with journal_of(tmp_path).open("ab") as journal:
        journal.write(encode_line({"op": "painted"}))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UnknownFormatError, match="unknown kind 'painted'"):
        StateStore(tmp_path, boot_id=BOOT_ID).open()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_journal_stays_short(tmp_path: Path) -> None:
    """After thousands of changes a new generation begins and the claims are still there."""
    store = opened(tmp_path)
    claim = a_record(1)
    generation = journal_of(tmp_path).name
    with store.transaction() as transaction:
        for number in range(2100):
            transaction.put(replace(claim, resource_version=str(number)))
    assert journal_of(tmp_path).name > generation
    assert journal_of(tmp_path).stat().st_size == 0
    put(store, a_record(2))
    store.close()
    again = opened(tmp_path)
    assert again.claims()[claim.uid].resource_version == "2099"
    assert len(again.claims()) == 2
    again.close()


def test_many_threads_lose_no_change(tmp_path: Path) -> None:
    """Concurrent callers each find their change on disk when they return."""
    store = opened(tmp_path)
    claims = [a_record(number) for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda claim: put(store, claim), claims))
        list(pool.map(lambda claim: release(store, claim), claims[::2]))
    expected = {claim.uid for claim in claims[1::2]}
    assert store.claims().keys() == expected
    copy = tmp_path.parent / "copy"
    shutil.copytree(tmp_path, copy)
    again = opened(copy)
    assert again.claims().keys() == expected
    again.close()
    store.close()


def test_a_full_disk_refuses_changes_and_keeps_the_state(tmp_path: Path) -> None:
    """What was refused is not there, not even in part; with room again all goes on."""
    with small_disk(tmp_path / "disk", size_kib=512) as disk:
        store = opened(disk)
        put(store, a_record(1))
        ballast = fill(disk)
        refused = [a_record(number, *[a_held(a_gpu())] * 20) for number in range(2, 5)]
        for claim in refused:
            with pytest.raises(StateError, match=f"{disk}: No space left on device"):
                put(store, claim)
        assert store.claims().keys() == {a_record(1).uid}
        store.close()
        # A restart works too: nothing can be prepared, but what is prepared is known.
        store = opened(disk)
        assert store.claims().keys() == {a_record(1).uid}
        ballast.unlink()
        put(store, refused[0])
        store.close()
        store = opened(disk)
        assert store.claims().keys() == {a_record(1).uid, refused[0].uid}
        store.close()


def test_a_first_start_on_a_full_disk_says_so_and_can_be_repeated(tmp_path: Path) -> None:
    """Nothing of the failed start is in the way of the next."""
    with small_disk(tmp_path / "disk", size_kib=64) as disk:
        ballast = fill(disk)
        with pytest.raises(StateError, match="No space left on device"):
            StateStore(disk / "state", boot_id=BOOT_ID).open()
        ballast.unlink()
        store = opened(disk / "state")
        put(store, a_record(1))
        store.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The start fails with the path, not with a bare number."""
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=rf"{tmp_path}/file/state: Not a directory"):
        StateStore(tmp_path / "file" / "state", boot_id=BOOT_ID).open()


def put_on_failing_disk(store: StateStore, claim: PreparedClaim) -> None:
    """Record *claim* in a journal that becomes a pipe, which no flush can bring to a disk."""
    reader, writer = os.pipe()
    try:
        with store.transaction() as transaction:
            transaction.put(claim)
            os.dup2(writer, store._journal_descriptor)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_failed_flush_is_not_trusted_later(tmp_path: Path) -> None:
    """After the disk failed to keep a change, everything is written anew before the next one."""
    store = opened(tmp_path)
    put(store, a_record(1))
    generation = journal_of(tmp_path).name
    with pytest.raises(StateError):
        put_on_failing_disk(store, a_record(2))
    put(store, a_record(3))
    assert journal_of(tmp_path).name > generation
    store.close()
    again = opened(tmp_path)
    assert again.claims().keys() == {a_record(number).uid for number in (1, 2, 3)}
    again.close()


def test_a_lock_that_is_never_free_is_an_error_in_time(tmp_path: Path) -> None:
    """Kubelet would give the call up: it gets a reason before that."""
    store, other = opened(tmp_path), opened(tmp_path, lock_wait_s=0.05)
    with store.transaction(), pytest.raises(TimeoutError, match="held for"), other.transaction():
        pass
    put(other, a_record(1))
    store.close()
    other.close()


def test_a_lock_held_by_a_thread_is_an_error_in_time(tmp_path: Path) -> None:
    """The same holds inside one process."""
    store = opened(tmp_path, lock_wait_s=0.05)
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            begun.set()
            end.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(20)
    with pytest.raises(TimeoutError, match="held for"), store.transaction():
        pass
    end.set()
    thread.join()
    store.close()
