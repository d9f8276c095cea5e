"""What is kept of a container until its pod is gone."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cdi.faults import FaultPoint
from cdi.regionstore import RegionStore
from hami.monitor.places import PluginRegions
from hami.plugin.containers import ContainerRecord, ContainerStore, owner_name
from tests.agent.crashing import NEED_MOUNTS, OF_CONTAINERS
from tests.agent.mounts import may_mount
from tests.hami.plugin.responses import POD_UID, Node
from tests.region_user import Use, is_empty, leave_marks, using

OTHER_UID = POD_UID.replace("0a1b", "ffff")
LIVE = {(POD_UID, "main")}
OWNER = owner_name(POD_UID, "main")


def record(pod_uid: str = POD_UID, container: str = "main", *, sha: str = "a") -> ContainerRecord:
    """Return the record of a container."""
    return ContainerRecord(
        pod_uid=pod_uid,
        namespace="team",
        pod="trainer",
        container=container,
        library_sha256=sha * 64,
        region_size=2008953,
        with_lock=False,
    )


def test_container_keeps_its_region_while_its_pod_is_there(tmp_path: Path) -> None:
    """Also when it has ended: it may be started again."""
    node = Node(root=tmp_path)
    node.containers.keep(record())
    path = node.regions.path(OWNER)
    inode = path.stat().st_ino
    store = node.containers
    store.sweep(LIVE)
    store.sweep(LIVE)
    store.restore()
    assert path.stat().st_ino == inode


def test_region_of_a_gone_pod_goes(tmp_path: Path) -> None:
    """With its record; regions of others stay."""
    node = Node(root=tmp_path)
    store = node.containers
    for each in (record(), record(OTHER_UID), record(container="sidecar")):
        store.keep(each)
    store.sweep(LIVE)
    store.sweep(LIVE)
    assert node.regions.owners() == {OWNER}
    assert [path.name for path in (tmp_path / "containers").iterdir()] == [f"{OWNER}.json"]


def test_region_goes_after_a_while_only(tmp_path: Path) -> None:
    """A pod that was given its GPUs a moment ago may not be known here yet."""
    node = Node(root=tmp_path)
    store = ContainerStore(tmp_path / "containers", node.regions, grace_s=3600)
    store.keep(record())
    store.sweep(set())
    store.sweep(set())
    assert node.regions.owners() == {OWNER}


def test_region_of_a_pod_that_was_there_goes_at_once(tmp_path: Path) -> None:
    """Nothing more is to be learned about it by waiting."""
    node = Node(root=tmp_path)
    store = ContainerStore(tmp_path / "containers", node.regions, grace_s=3600)
    for each in (record(), record(OTHER_UID)):
        store.keep(each)
    store.sweep(LIVE)
    with using(node.regions.path(OWNER), Use.MAPS) as user:
        store.sweep(set())
        assert OWNER in node.regions.owners()
        user.kill()
        store.sweep(set())
    assert node.regions.owners() == {owner_name(OTHER_UID, "main")}


def test_region_of_a_pod_that_was_seen_to_go_goes_at_once(tmp_path: Path) -> None:
    """However short its life was: no look may have fallen into it."""
    node = Node(root=tmp_path)
    store = ContainerStore(tmp_path / "containers", node.regions, grace_s=3600)
    for each in (record(), record(OTHER_UID)):
        store.keep(each)
    store.sweep(set(), {owner_name(OTHER_UID, "main").partition("_")[0]})
    assert node.regions.owners() == {OWNER}


def test_what_an_earlier_process_left_goes_at_once(tmp_path: Path) -> None:
    """Its pods are in the first list that is read, or gone."""
    node = Node(root=tmp_path)
    for each in (record(), record(OTHER_UID)):
        node.containers.keep(each)
    store = ContainerStore(tmp_path / "containers", node.regions, grace_s=3600)
    store.prepare()
    store.sweep(LIVE)
    assert node.regions.owners() == {OWNER}


def test_container_that_is_given_gpus_again_is_not_gone(tmp_path: Path) -> None:
    """What was noticed of its absence before is forgotten."""
    node = Node(root=tmp_path)
    store = ContainerStore(tmp_path / "containers", node.regions, grace_s=3600)
    store.sweep(set())
    store.keep(record())
    store.sweep(set())
    assert OWNER in store._gone_since
    store.keep(record())
    assert OWNER not in store._gone_since


@pytest.mark.parametrize("use", list(Use))
def test_region_in_use_stays(tmp_path: Path, use: Use) -> None:
    """Whatever is known of pods: the kernel knows of processes."""
    node = Node(root=tmp_path)
    store = node.containers
    store.keep(record())
    with using(node.regions.path(OWNER), use) as user:
        store.sweep(set())
        store.sweep(set())
        assert node.regions.owners() == {OWNER}
        assert store.libraries() == frozenset({"a" * 64})
        user.kill()
        store.sweep(set())
    assert node.regions.owners() == set()
    assert store.libraries() == frozenset()


def test_what_is_nobodys_stays(tmp_path: Path) -> None:
    """HAMi's own plugin may keep its directories, and an administrator whatever he likes."""
    node = Node(root=tmp_path)
    of_hami = tmp_path / "regions" / owner_name(OTHER_UID, "main")
    of_hami.mkdir(parents=True)
    (of_hami / "5ba2.cache").touch()
    (tmp_path / "regions" / "lost+found").mkdir()
    store = node.containers
    store.sweep(set())
    store.sweep(set())
    assert len(list((tmp_path / "regions").iterdir())) == 2


def test_monitors_find_the_region(tmp_path: Path) -> None:
    """Ours by its place; HAMi's own, by its layout, where the regions are put there."""
    hook = tmp_path / "usr/local/vgpu/containers"
    regions = RegionStore(hook, "/usr/local/vgpu/containers", may_mount=False)
    store = ContainerStore(tmp_path / "containers", regions)
    store.keep(record())
    found = PluginRegions(hook)
    assert found.owners() == ((POD_UID, "main"),)
    assert found.region(found.owners()[0]) == regions.path(OWNER)
    (directory,) = hook.iterdir()
    assert directory.name == f"{POD_UID}_main"
    (cache,) = directory.glob("*.cache")
    assert store.region_host_path(record()) == f"/usr/local/vgpu/containers/{OWNER}/{cache.name}"


def test_region_that_was_left_by_killed_processes_is_empty_again(tmp_path: Path) -> None:
    """Their usage and their locks are of no concern to who comes next."""
    node = Node(root=tmp_path)
    node.containers.keep(record())
    path = node.regions.path(OWNER)
    leave_marks(path)
    assert not is_empty(path)
    node.containers.keep(record())
    assert is_empty(path)


def test_region_that_is_used_is_not_reset(tmp_path: Path) -> None:
    """Zeros would take its limits away."""
    node = Node(root=tmp_path)
    node.containers.keep(record())
    with using(node.regions.path(OWNER)):
        node.containers.keep(record())
        assert not is_empty(node.regions.path(OWNER))


def test_regions_are_there_again_after_a_reboot(tmp_path: Path) -> None:
    """Kubelet starts the container by its old answer, without asking."""
    node = Node(root=tmp_path)
    node.containers.keep(record())
    (tmp_path / "regions" / OWNER / "region.cache").unlink()
    node.containers.restore()
    assert is_empty(node.regions.path(OWNER))


def test_region_that_cannot_be_restored_stops_no_other(tmp_path: Path) -> None:
    """It is said once."""
    node = Node(root=tmp_path)
    store = node.containers
    for each in (record(), record(OTHER_UID)):
        store.keep(each)
    for directory in (tmp_path / "regions").iterdir():
        (directory / "region.cache").unlink()
        directory.rmdir()
    (tmp_path / "regions" / OWNER).touch()
    with capture_logs() as logs:
        store.restore()
        store.restore()
    assert [each["event"] for each in logs] == ["region not restored"]
    assert is_empty(node.regions.path(owner_name(OTHER_UID, "main")))


def test_libraries_of_containers_are_known(tmp_path: Path) -> None:
    """So that none of their copies is removed; with a record that says nothing none is."""
    node = Node(root=tmp_path)
    store = node.containers
    assert store.libraries() == frozenset()
    store.keep(record(sha="a"))
    store.keep(record(OTHER_UID, sha="b"))
    assert store.libraries() == frozenset({"a" * 64, "b" * 64})
    path = tmp_path / "containers" / f"{OWNER}.json"
    path.write_bytes(b"{")
    with capture_logs() as logs:
        assert store.libraries() is None
        assert store.libraries() is None
    assert len(logs) == 1
    path.write_bytes(record(OTHER_UID).model_dump_json().encode())
    assert store.libraries() is None


def test_record_of_a_newer_version_is_read(tmp_path: Path) -> None:
    """What it says beside is left alone."""
    node = Node(root=tmp_path)
    node.containers.keep(record())
    path = tmp_path / "containers" / f"{OWNER}.json"
    path.write_text(path.read_text().replace("{", '{"newer": true, ', 1))
    assert node.containers.libraries() == frozenset({"a" * 64})


_PROGRAM = """
import os, signal, sys
from pathlib import Path
from cdi.faults import listen
from cdi.regionstore import RegionStore
from hami.plugin.containers import ContainerRecord, ContainerStore

def die(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

root, mounts = Path(sys.argv[1]), sys.argv[3] == "mounts"
regions = RegionStore(root / "regions", "/host/regions", may_mount=mounts)
store = ContainerStore(root / "containers", regions, grace_s=0.0)
record = ContainerRecord.model_validate_json(sys.argv[4])
listen(die)
store.keep(record.model_copy(update={"with_lock": mounts}))
store.sweep(set())
"""


@pytest.mark.parametrize(
    "point", [*OF_CONTAINERS, FaultPoint.REGION_CREATED, FaultPoint.REGION_REMOVED]
)
def test_a_kill_at_any_moment_is_made_good(tmp_path: Path, point: FaultPoint) -> None:
    """The next start has the region or nothing, and leaves nothing over."""
    needs_mounts = point in NEED_MOUNTS | {FaultPoint.LOCK_DIRECTORY_MADE}
    if needs_mounts and not may_mount():
        pytest.skip("the right to mount is needed")
    mode = "mounts" if needs_mounts else "plain"
    words = [str(tmp_path), point, mode, record().model_dump_json()]
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, *words], check=False)  # noqa: S603
    assert ended.returncode == -signal.SIGKILL
    node = Node(root=tmp_path, may_mount=needs_mounts)
    store = node.containers
    store.prepare()
    store.restore()
    store.keep(record())
    assert is_empty(node.regions.path(OWNER))
    store.sweep(set())
    store.sweep(set())
    assert node.regions.owners() == set()
    assert list((tmp_path / "containers").iterdir()) == []
