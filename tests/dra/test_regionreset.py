"""Regions are reset when nobody uses them: real processes, real notices of the kernel."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cdi.regionstore import RegionStore
from dra.regionreset import RegionResets
from tests.agent import mounts
from tests.patience import DEADLINE_S, eventually
from tests.region_user import Use, is_empty, leave_marks, using

UID = "c1a10000-0000-4000-8000-000000000001"
UID_2 = UID[:-1] + "2"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RegionStore]:
    """Make a store as the agent has it, with one region."""
    made = RegionStore(tmp_path / "regions", "/host", may_mount=mounts.may_mount())
    made.ensure(UID)
    yield made
    for uid in made.owners():
        made.remove(uid)


@contextmanager
def running(store: RegionStore) -> Iterator[RegionResets]:
    """Reset the regions of *store* in a thread, as long as the block lasts."""
    resets, stopping = RegionResets(store), threading.Event()
    thread = threading.Thread(target=resets.run, args=(stopping,))
    thread.start()
    try:
        yield resets
    finally:
        stopping.set()
        resets.set()
        thread.join(DEADLINE_S)
        resets.close()
    assert not thread.is_alive()


def look(resets: RegionResets, store: RegionStore) -> None:
    """Have all regions looked at, and wait until that has been done."""
    witness = f"{UID[:-1]}f"
    store.ensure(witness)
    leave_marks(store.path(witness))
    resets.set()
    eventually(lambda: is_empty(store.path(witness)))
    store.remove(witness)


def test_region_of_a_killed_process_is_reset(store: RegionStore) -> None:
    """Again and again, without anybody asking for it, and the file stays the same."""
    path = store.path(UID)
    inode = path.stat().st_ino
    with capture_logs() as logs, running(store) as resets:
        look(resets, store)
        for _ in range(3):
            leave_marks(path)
            eventually(lambda: is_empty(path))
    assert path.stat().st_ino == inode
    # Its own work is nothing to start again for.
    assert [each["claim_uid"] for each in logs if each["event"] == "region reset"].count(UID) == 3


def test_region_that_an_earlier_process_has_left_is_reset(store: RegionStore) -> None:
    """Whoever died while nobody watched is found at the start."""
    leave_marks(store.path(UID))
    with running(store):
        eventually(lambda: is_empty(store.path(UID)))


@pytest.mark.parametrize("use", [Use.MAPS, Use.FORKED])
def test_region_in_use_is_left_until_its_last_process_ends(store: RegionStore, use: Use) -> None:
    """Others of the container may die meanwhile."""
    path = store.path(UID)
    with running(store) as resets, using(path, use) as user:
        look(resets, store)
        leave_marks(path)
        look(resets, store)
        assert not is_empty(path)
        user.kill()
        eventually(lambda: is_empty(path))


def test_reader_keeps_the_region_until_somebody_asks_again(store: RegionStore) -> None:
    """Nobody is told of the end of a reader; the next look at all regions finds it."""
    path = store.path(UID)
    with running(store) as resets:
        look(resets, store)
        with using(path, Use.READS):
            leave_marks(path)
            look(resets, store)
            assert not is_empty(path)
        resets.set()
        eventually(lambda: is_empty(path))


def test_region_that_is_made_later_is_watched_too(store: RegionStore) -> None:
    """Whoever prepares a claim has the regions looked at."""
    with running(store) as resets:
        look(resets, store)
        store.ensure(UID_2)
        look(resets, store)
        leave_marks(store.path(UID_2))
        eventually(lambda: is_empty(store.path(UID_2)))


def test_region_that_was_made_anew_is_watched_too(store: RegionStore) -> None:
    """A process that still uses the one before changes nothing."""
    with running(store) as resets:
        look(resets, store)
        with using(store.path(UID)) as user:
            store.remove(UID)
            store.ensure(UID)
            look(resets, store)
            user.kill()
            leave_marks(store.path(UID))
            eventually(lambda: is_empty(store.path(UID)))


def test_regions_that_are_removed_meanwhile_do_no_harm(store: RegionStore) -> None:
    """Nothing is said of them, and the others are served."""
    store.ensure(UID_2)
    with capture_logs() as logs, running(store) as resets:
        look(resets, store)
        with using(store.path(UID_2)) as user:
            store.remove(UID_2)
            user.kill()
        leave_marks(store.path(UID))
        eventually(lambda: is_empty(store.path(UID)))
        assert resets.problem() is None
    assert {each["event"] for each in logs} == {"region reset"}, logs


_RESTLESS = """
import os, sys
print("opens and closes", flush=True)
while True:
    os.close(os.open(sys.argv[1], os.O_RDWR))
"""


def test_restless_container_keeps_nobody_from_being_served(store: RegionStore) -> None:
    """One that opens and closes its region all the time; others get their resets all the same."""
    store.ensure(UID_2)
    words = [sys.executable, "-E", "-S", "-c", _RESTLESS, str(store.path(UID))]
    with running(store) as resets:
        look(resets, store)
        with subprocess.Popen(words, stdout=subprocess.PIPE) as restless:  # noqa: S603 - our own
            assert restless.stdout is not None
            restless.stdout.readline()
            leave_marks(store.path(UID_2))
            eventually(lambda: is_empty(store.path(UID_2)))
            restless.kill()


def test_two_instances_do_no_harm(store: RegionStore) -> None:
    """As in a rolling update: both see the end of a process, and one of them comes first."""
    path = store.path(UID)
    with running(store) as first, running(store) as second:
        look(first, store)
        look(second, store)
        for _ in range(20):
            leave_marks(path)
            eventually(lambda: is_empty(path))


def test_fresh_regions_are_not_touched(store: RegionStore) -> None:
    """A look costs nothing where there is nothing to do."""
    before = store.path(UID).stat().st_mtime_ns
    with running(store) as resets:
        look(resets, store)
    assert store.path(UID).stat().st_mtime_ns == before


def test_what_cannot_be_known_is_said(store: RegionStore) -> None:
    """On storage without leases nothing is reset; it is logged once, and shown while it is so."""
    path = store.path(UID)
    path.unlink()
    os.mkfifo(path)
    with capture_logs() as logs, running(store) as resets:
        look(resets, store)
        look(resets, store)
        problem = eventually(resets.problem)
        assert problem is not None
        assert (problem.code, problem.value) == ("RegionsNotReset", str(path))
        assert "CAP_LEASE" in problem.remedy
        path.unlink()
        store.ensure(UID)
        look(resets, store)
        eventually(lambda: resets.problem() is None)
    assert [each["event"] for each in logs].count("region not reset") == 1


def test_asking_after_the_end_does_no_harm(store: RegionStore) -> None:
    """Other threads of the agent may end later."""
    with running(store) as resets:
        pass
    resets.set()
