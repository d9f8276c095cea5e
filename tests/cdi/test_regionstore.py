"""HAMi-core's regions on bounded storage, and where mounting is not allowed."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from cdi.region import REGION_SIZE, RegionLayout, Reset, reset_region
from cdi.regionstore import RegionStore
from gpu.refusal import RefusedError
from tests.dra.disks import small_disk
from tests.region_user import Use, using

UID = "c1a10000-0000-4000-8000-000000000001"


def plain(directory: Path) -> RegionStore:
    """Return a store that never mounts."""
    return RegionStore(directory, "/host/regions", may_mount=False)


@pytest.fixture
def mounting(tmp_path: Path) -> Iterator[RegionStore]:
    """Make a store that mounts; skip where that is not allowed."""
    with small_disk(tmp_path / "probe", size_kib=64):
        pass
    store = RegionStore(tmp_path / "regions", "/host/regions")
    yield store
    for uid in store.owners():
        store.remove(uid)


def test_the_host_has_its_own_path_to_a_region(tmp_path: Path) -> None:
    """The runtime mounts it from there."""
    assert plain(tmp_path).host_path(UID) == f"/host/regions/{UID}/region.cache"


def test_a_region_is_a_file_for_everybody_in_a_directory_for_nobody(tmp_path: Path) -> None:
    """A container can write the file, and neither replace it nor add another."""
    store = plain(tmp_path)
    store.ensure(UID)
    file = tmp_path / UID / "region.cache"
    assert file.stat().st_size == REGION_SIZE
    assert file.stat().st_mode & 0o777 == 0o666
    assert file.parent.stat().st_mode & 0o022 == 0
    assert store.owners() == {UID}
    assert not store.bounded


def test_a_region_that_is_there_is_left_alone(mounting: RegionStore, tmp_path: Path) -> None:
    """Running processes have it mapped."""
    mounting.ensure(UID)
    before = (tmp_path / "regions" / UID / "region.cache").stat()
    mounting.ensure(UID)
    after = (tmp_path / "regions" / UID / "region.cache").stat()
    assert (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino)


def test_bounded_storage_takes_a_region_and_no_more(mounting: RegionStore, tmp_path: Path) -> None:
    """A container that writes on and on fills its own few megabytes."""
    mounting.ensure(UID)
    assert mounting.bounded
    file = tmp_path / "regions" / UID / "region.cache"
    assert file.parent.is_mount()
    with file.open("r+b", buffering=0) as region:
        assert region.write(b"x" * REGION_SIZE) == REGION_SIZE
        with pytest.raises(OSError, match="No space left on device"):
            more(region, 8 * 2**20)
    assert file.stat().st_size < 4 * 2**20


def more(file: FileIO, size: int) -> None:
    """Write *size* bytes behind what was written to *file*."""
    for _ in range(size // 65536):
        file.write(b"x" * 65536)


def make_files(directory: Path, count: int) -> None:
    """Make *count* empty files in *directory*."""
    for number in range(count):
        (directory / str(number)).touch()


def test_bounded_storage_takes_few_files(mounting: RegionStore, tmp_path: Path) -> None:
    """Empty files would take memory too."""
    mounting.ensure(UID)
    directory = tmp_path / "regions" / UID
    with pytest.raises(OSError, match="No space left on device"):
        make_files(directory, 100)
    assert len(list(directory.iterdir())) < 8


def test_regions_are_apart(mounting: RegionStore, tmp_path: Path) -> None:
    """Each claim has storage of its own."""
    other = UID.replace("1", "2")
    mounting.ensure(UID)
    mounting.ensure(other)
    devices = {path.stat().st_dev for path in (tmp_path / "regions").iterdir()}
    assert len(devices) == 2


def test_removal_leaves_nothing(mounting: RegionStore, tmp_path: Path) -> None:
    """It may be repeated, and works while a process still has the region open."""
    mounting.ensure(UID)
    with (tmp_path / "regions" / UID / "region.cache").open("rb"):
        mounting.remove(UID)
    mounting.remove(UID)
    assert mounting.owners() == set()
    assert not (tmp_path / "regions" / UID).exists()


def test_removal_takes_away_every_mount(mounting: RegionStore, tmp_path: Path) -> None:
    """Two instances of an earlier version may have mounted over each other."""
    mounting.ensure(UID)
    mounting._mount(tmp_path / "regions" / UID)
    mounting.remove(UID)
    assert not (tmp_path / "regions" / UID).exists()


def test_removal_of_a_plain_region_leaves_nothing(tmp_path: Path) -> None:
    """A temporary file that a killed process left goes as well."""
    store = plain(tmp_path / "regions")
    store.remove(UID)
    store.ensure(UID)
    (tmp_path / "regions" / UID / ".region.cache.tmp").touch()
    store.remove(UID)
    assert store.owners() == set()


def test_there_are_no_regions_before_the_first(tmp_path: Path) -> None:
    """The directory need not exist."""
    assert plain(tmp_path / "missing").owners() == set()


def test_a_region_has_the_size_that_its_library_wants(tmp_path: Path) -> None:
    """Readers tell layouts by it; another size is mended."""
    store = plain(tmp_path / "regions")
    store.ensure(UID, size=RegionLayout.V0.file_size)
    assert store.path(UID).stat().st_size == 1197897
    store.path(UID).write_bytes(b"x" * 1197897)
    assert reset_region(store.path(UID)) is Reset.DONE
    assert store.path(UID).stat().st_size == 1197897
    store.ensure(UID, size=RegionLayout.V1_1_LONG.file_size)
    assert store.path(UID).stat().st_size == 2008985


def test_a_directory_for_locks_lies_on_the_same_small_storage(mounting: RegionStore) -> None:
    """Everybody may write there, and fill nothing but the container's own storage."""
    mounting.ensure(UID, with_lock=True)
    directory = mounting.path(UID).parent / "lock"
    assert mounting.lock_host_path(UID) == f"/host/regions/{UID}/lock"
    assert directory.stat().st_mode & 0o777 == 0o777
    assert directory.stat().st_dev == mounting.path(UID).stat().st_dev
    mounting.ensure(UID, with_lock=True)
    (directory / "lock").touch()
    with pytest.raises(OSError, match="No space left on device"):
        make_files(directory, 100)
    assert mounting.remove_unused(UID)
    assert mounting.owners() == set()


def test_a_directory_for_locks_on_the_nodes_disk_is_refused(tmp_path: Path) -> None:
    """A container could fill the disk through it."""
    with pytest.raises(RefusedError, match="LockDirectoryUnbounded"):
        plain(tmp_path).ensure(UID, with_lock=True)


@pytest.mark.parametrize("use", list(Use))
def test_a_region_in_use_is_not_removed(tmp_path: Path, use: Use) -> None:
    """A process that maps it would go on in a file that nobody sees."""
    store = plain(tmp_path / "regions")
    store.ensure(UID)
    with using(store.path(UID), use) as user:
        assert not store.remove_unused(UID)
        assert store.path(UID).exists()
        user.kill()
        assert store.remove_unused(UID)
    assert store.owners() == set()
    assert store.remove_unused(UID)


def test_a_bounded_region_in_use_is_not_removed(mounting: RegionStore) -> None:
    """Nor its storage."""
    mounting.ensure(UID)
    with using(mounting.path(UID)) as user:
        assert not mounting.remove_unused(UID)
        assert mounting.path(UID).parent.is_mount()
        user.kill()
        assert mounting.remove_unused(UID)
    assert mounting.owners() == set()


def test_what_others_keep_among_the_regions_stays(tmp_path: Path) -> None:
    """HAMi's own plugin has its directories at the same place."""
    store = plain(tmp_path / "regions")
    store.ensure(UID)
    (tmp_path / "regions" / UID / "c0ffee.cache").touch()
    assert not store.remove_unused(UID)
    assert store.path(UID).exists()


def test_two_instances_make_one_region(mounting: RegionStore, tmp_path: Path) -> None:
    """A second mount would hide the region that a container already uses."""
    others = [RegionStore(tmp_path / "regions", "/host/regions") for _ in range(7)]
    start = threading.Barrier(8)
    found: list[tuple[int, int]] = []

    def make(store: RegionStore) -> None:
        start.wait()
        store.ensure(UID)
        stat = (tmp_path / "regions" / UID / "region.cache").stat()
        found.append((stat.st_dev, stat.st_ino))

    threads = [threading.Thread(target=make, args=(store,)) for store in [mounting, *others]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


_UNPRIVILEGED = """
import os, sys
from pathlib import Path
from cdi.regionstore import RegionStore

os.chown(sys.argv[1], 65534, 65534)
os.setuid(65534)
store = RegionStore(Path(sys.argv[1]) / "regions", "/host")
store.ensure("uid-1")
store.ensure("uid-2")
print(store.bounded, sorted(store.owners()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_where_mounting_is_not_allowed_a_plain_directory_does(tmp_path: Path) -> None:
    """The agent goes on and says it once."""
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _UNPRIVILEGED, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "False ['uid-1', 'uid-2']"
    assert (done.stdout + done.stderr).count("region storage left unbounded") == 1
