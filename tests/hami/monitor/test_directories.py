"""Directories of gone pods go, and nothing else does."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cdi.durable import mount_tmpfs, unmount
from cdi.faults import FaultPoint
from cdi.region import create_region
from hami.monitor.directories import RESYNC_S, StaleDirectories
from hami.monitor.processes import HostProcesses
from tests.agent.mounts import may_mount
from tests.hami.monitor.nodes import Node, live_region, pod, pod_uid
from tests.hami.monitor.regionfiles import placed
from tests.region_user import using


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the plugin's directory."""
    path = tmp_path / "plugin"
    path.mkdir()
    return path


def directory(root: Path, number: int = 1) -> Path:
    """Return the directory of a container, with its region."""
    path = root / f"{pod_uid(number)}_main"
    create_region(path)
    return path


def later(root: Path, seconds: float = RESYNC_S + 1) -> StaleDirectories:
    """Return what clears up so long after everything has been made."""
    newest_s = max(path.lstat().st_mtime for path in (root, *root.iterdir()))
    return StaleDirectories(root, HostProcesses(), now_s=Clock(newest_s + seconds))


def test_the_directory_of_a_gone_pod_goes(root: Path) -> None:
    """With its region, and those of other pods stay."""
    gone, kept = directory(root, 1), directory(root, 2)
    placed("a_one_proc_after_sigkill", gone / "region.cache")
    later(root).sweep([pod(2)])
    assert list(root.iterdir()) == [kept]
    assert (kept / "region.cache").exists()


def test_a_pod_that_has_ended_is_not_gone(root: Path) -> None:
    """Its container may be started again, and needs its region then."""
    kept = directory(root)
    later(root).sweep([pod(1, running=False)])
    assert (kept / "region.cache").exists()


def test_nothing_goes_while_pods_are_not_known(root: Path) -> None:
    """An API server that does not answer is no reason to take regions away."""
    kept = directory(root)
    later(root).sweep(None)
    assert kept.exists()


def test_a_young_directory_stays(root: Path) -> None:
    """Kubelet has admitted the pod already, and the watch has not shown it yet."""
    kept = directory(root)
    later(root, RESYNC_S - 1).sweep([])
    assert kept.exists()
    later(root, RESYNC_S + 1).sweep([])
    assert not kept.exists()


def test_a_region_in_use_stays(root: Path) -> None:
    """Its pod was deleted by force and its processes live on: they keep one another's count."""
    kept = directory(root)
    with using(kept / "region.cache") as user:
        later(root).sweep([])
        assert (kept / "region.cache").exists()
        user.kill()
    later(root).sweep([])
    assert not kept.exists()


def test_other_names_are_not_ours(root: Path, tmp_path: Path) -> None:
    """Files, links and directories that nobody of ours has made stay as they are."""
    outside = tmp_path / "outside"
    create_region(outside)
    (root / f"{pod_uid(1)}_main").symlink_to(outside)
    (root / f"{pod_uid(2)}_main").write_text("x")
    (root / "kubelet").mkdir()
    (root / f"{pod_uid(3)}").mkdir()
    before = sorted(root.iterdir())
    later(root).sweep([])
    assert sorted(root.iterdir()) == before
    assert (outside / "region.cache").exists()


def test_what_a_container_has_put_there_goes_too(root: Path, tmp_path: Path) -> None:
    """Directories in directories, and links, which are removed and not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    gone = root / f"{pod_uid(1)}_main"
    (gone / "a/b/c").mkdir(parents=True)
    (gone / "a/b/file").write_text("x")
    (gone / "a/link").symlink_to(outside)
    (gone / "abc.cache").symlink_to(outside / "file")
    os.mkfifo(gone / "pipe")
    later(root).sweep([])
    assert not gone.exists()
    assert (outside / "file").read_text() == "x"


def test_one_that_cannot_go_is_told_of_once(root: Path) -> None:
    """A container nested directories without end; others go all the same."""
    deep = root / f"{pod_uid(1)}_main"
    path = deep
    for _ in range(12):
        path /= "d"
    path.mkdir(parents=True)
    gone = directory(root, 2)
    stale = later(root)
    with structlog.testing.capture_logs() as logs:
        stale.sweep([])
        stale.sweep([])
    assert not gone.exists()
    assert deep.exists()
    events = [each["event"] for each in logs]
    assert events.count("container directory not removed") == 1
    assert events.count("container directory removed") == 1


@pytest.fixture
def mounted(root: Path) -> Iterator[Path]:
    """Return the directory of a container with storage of its own."""
    path = root / f"{pod_uid(1)}_main"
    path.mkdir()
    mount_tmpfs(path, b"size=2304k,nr_inodes=8,mode=0755", FaultPoint.REGION_MOUNTED)
    create_region(path)
    yield path
    while path.is_mount():
        unmount(path, FaultPoint.REGION_UNMOUNTED)


@pytest.mark.skipif(not may_mount(), reason="the right to mount is needed")
def test_storage_of_its_own_is_unmounted(mounted: Path, root: Path) -> None:
    """Also when it is mounted over itself, as after a crash."""
    mount_tmpfs(mounted, b"size=64k,mode=0755", FaultPoint.REGION_MOUNTED)
    later(root).sweep([])
    assert list(root.iterdir()) == []


def test_the_monitor_clears_up(tmp_path: Path) -> None:
    """With each look, for the plugin's directories and not for claims."""
    node = Node(tmp_path, pods=[])
    gone = live_region(node.plugin_region(1))
    kept = live_region(node.claim_region("claim-1"))
    node.now_s = gone.parent.stat().st_mtime + RESYNC_S + 1
    node.monitor().look()
    assert not gone.parent.exists()
    assert kept.exists()
