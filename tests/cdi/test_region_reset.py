"""A region is zeroed only while no process uses it: real processes, real leases."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdi.errors import StoreError
from cdi.lease import leased
from cdi.region import REGION_SIZE, Reset, create_region, reset_region
from tests.agent import mounts
from tests.patience import eventually
from tests.region_user import RegionUser, Use, is_empty, leave_marks, using


def test_region_of_a_killed_process_is_zeroed_in_place(tmp_path: Path) -> None:
    """The file that containers have mounted stays, and takes no space again."""
    path = create_region(tmp_path)
    leave_marks(path)
    assert not is_empty(path)
    before = path.stat()
    assert reset_region(path) is Reset.DONE
    after = path.stat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert is_empty(path)
    assert path.read_bytes() == bytes(REGION_SIZE)


def test_fresh_region_is_not_touched(tmp_path: Path) -> None:
    """There is nothing to do in one that nobody has written to."""
    path = create_region(tmp_path)
    before = path.stat().st_mtime_ns
    assert reset_region(path) is Reset.FRESH
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("use", list(Use))
def test_region_in_use_is_left(tmp_path: Path, use: Use) -> None:
    """Whatever way a process holds it, until the process is gone."""
    path = create_region(tmp_path)
    leave_marks(path)
    before = path.read_bytes()
    with using(path, use) as user:
        assert reset_region(path) is Reset.IN_USE
        assert path.read_bytes() == before
        user.kill()
    assert reset_region(path) is Reset.DONE


def test_last_of_two_processes_frees_the_region(tmp_path: Path) -> None:
    """The end of one takes nothing from the other."""
    path = create_region(tmp_path)
    with using(path) as first, using(path) as second:
        first.kill()
        assert reset_region(path) is Reset.IN_USE
        second.kill()
    assert reset_region(path) is Reset.DONE


@pytest.mark.skipif(not mounts.may_mount(), reason="needs the right to mount")
def test_region_in_use_by_another_name_is_left(tmp_path: Path) -> None:
    """A mount of it is no use; a process that came by way of the mount is one."""
    path = create_region(tmp_path / "region")
    leave_marks(path)
    mounted = tmp_path / "mounted"
    mounted.touch()
    with mounts.bound(path, mounted):
        assert reset_region(path) is Reset.DONE
        with using(mounted):
            assert reset_region(path) is Reset.IN_USE
        assert reset_region(path) is Reset.DONE


@pytest.mark.skipif(not mounts.may_mount(), reason="needs the right to mount")
def test_region_in_use_in_another_mount_namespace_is_left(tmp_path: Path) -> None:
    """As in a container, whose mounts the agent does not see."""
    path = create_region(tmp_path / "region")
    mounted = tmp_path / "mounted"
    mounted.touch()
    inside = f'mount --bind {path} {mounted} && exec "$@"'
    with using(mounted, within=["unshare", "--mount", "sh", "-c", inside, "-"]) as user:
        assert mounted.stat().st_size == 0
        assert reset_region(path) is Reset.IN_USE
        user.kill()
    assert reset_region(path) is Reset.DONE


@contextmanager
def newcomer(path: Path) -> Iterator[RegionUser]:
    """Start a process that uses the region, without waiting for it."""
    user = RegionUser(path)
    try:
        yield user
    finally:
        user.close()


def is_awaited(lease: int) -> bool:
    """Tell whether somebody waits for *lease* to be given back."""
    return bool(fcntl.fcntl(lease, fcntl.F_GETLEASE) == fcntl.F_UNLCK)


def test_newcomer_waits_for_the_reset(tmp_path: Path) -> None:
    """Who opens the region while it is reset finds it empty; the signal for that ends nobody."""
    path = create_region(tmp_path)
    leave_marks(path)
    with leased(path, os.O_RDWR) as lease, newcomer(path) as user:
        eventually(lambda: is_awaited(lease))
        os.ftruncate(lease, 0)
        os.ftruncate(lease, REGION_SIZE)
        os.close(os.dup(lease))
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        assert user.found() == "zeros"
        assert reset_region(path) is Reset.IN_USE


_HOLDER = """
import os, signal, sys
from pathlib import Path
from cdi.lease import leased
with leased(Path(sys.argv[1]), os.O_RDWR):
    print("leased", flush=True)
    signal.pause()
"""


@contextmanager
def holder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run another instance that resets the region and does not come to its end."""
    words = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == "leased\n"
        try:
            yield process
        finally:
            process.kill()


def test_second_instance_does_not_wait(tmp_path: Path) -> None:
    """A region that somebody else resets is in use, and no instance hangs by the other."""
    path = create_region(tmp_path)
    leave_marks(path)
    with holder(path):
        assert reset_region(path) is Reset.IN_USE


def test_lease_that_may_be_lost_is_not_relied_on(tmp_path: Path) -> None:
    """The kernel takes a lease away from a holder that is asked for it and does not run."""
    path = create_region(tmp_path)
    leave_marks(path)
    before = path.read_bytes()
    assert reset_region(path, lease_s=-1.0) is Reset.IN_USE
    assert path.read_bytes() == before
    assert reset_region(path) is Reset.DONE


def test_killed_in_the_middle_of_a_reset(tmp_path: Path) -> None:
    """The lease ends with its holder: who waited goes on, and the next reset is possible."""
    path = create_region(tmp_path)
    leave_marks(path)
    with holder(path) as process, newcomer(path) as user:
        process.kill()
        assert user.found() == "marks"
        user.kill()
        assert reset_region(path) is Reset.DONE


def test_what_is_left_of_a_half_done_reset_is_no_obstacle(tmp_path: Path) -> None:
    """A region of another length is brought to its own."""
    path = create_region(tmp_path)
    os.truncate(path, 0)
    assert reset_region(path) is Reset.DONE
    assert is_empty(path)


def test_storage_that_knows_no_leases_is_an_error(tmp_path: Path) -> None:
    """What cannot be known to be unused is never zeroed; a link is not followed either."""
    path = tmp_path / "region.cache"
    os.mkfifo(path)
    with pytest.raises(StoreError):
        reset_region(path)
    path.unlink()
    other = create_region(tmp_path / "other")
    leave_marks(other)
    path.symlink_to(other)
    with pytest.raises(StoreError):
        reset_region(path)
    assert not is_empty(other)


_NOBODY = """
import os, sys
from pathlib import Path
from cdi.region import reset_region
os.setuid(65534)
try:
    print(reset_region(Path(sys.argv[1])))
except Exception as error:
    print(error.code)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_another_users_region_needs_a_right(tmp_path: Path) -> None:
    """Without CAP_LEASE only its owner may have the kernel look after a file."""
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    path = create_region(tmp_path)
    leave_marks(path)
    said = subprocess.check_output(  # noqa: S603
        [sys.executable, "-c", _NOBODY, str(path)], text=True
    )
    assert said == "PermissionDenied\n"
    assert not is_empty(path)
