"""An agent of a device plugin that is killed between any two steps, and started again."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from cdi.elf import empty_header
from cdi.faults import FaultPoint
from tests.agent.cards import CardScene, card_scene
from tests.agent.crashing import (
    NEED_MOUNTS,
    OF_ALLOCATE,
    OF_CARD_CLEANING,
    OF_CARD_RELEASE,
    OF_CARD_RESTORE,
    OF_CARD_START,
    OF_CARDS_GONE,
    OF_FULL_CONTAINERS,
    OF_INSTALLATION,
    OF_RESET,
    OF_UNUSED_LIBRARIES,
    killed,
    needs_mounts,
)
from tests.agent.mounts import fill, may_mount, small_disk, unmount
from tests.agent.process import Agent
from tests.patience import eventually
from tests.region_user import is_empty, leave_marks

SOON = ("--restore-interval-s=0.2", "--container-grace-s=0")
"""What is left of a pod goes at once."""
LOCKS = ("--vgpu-lock",) if may_mount() else ()


@pytest.fixture
def cards() -> Iterator[CardScene]:
    """Make a node with two GPUs and a kubelet; no agent yet."""
    with card_scene() as made:
        yield made


def reachable(points: list[FaultPoint]) -> list[FaultPoint]:
    """Return those of *points* to which this machine lets the agent come."""
    return [point for point in points if point not in NEED_MOUNTS or may_mount()]


def crash_in_allocate(cards: CardScene, agent: Agent, point: FaultPoint) -> tuple[str, str]:
    """Let *agent* be killed at *point* while it serves a new pod; return its name and UID."""
    pod = cards.place()
    agent.die_at(point)
    with pytest.raises(grpc.RpcError):
        cards.allocate()
    assert killed(agent)
    return pod


def check_serves(cards: CardScene) -> str:
    """Check that the next pod is served, as the last on the node; return its UID."""
    name, uid = cards.place(1, 1234)
    assert cards.allocate(1).envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1234m"
    assert (cards.cluster.phase(name), cards.cluster.locked_by()) == ("success", "")
    assert is_empty(cards.region(uid))
    return uid


@pytest.mark.parametrize("point", OF_CARD_START)
def test_a_crash_in_the_first_start_is_repaired(cards: CardScene, point: FaultPoint) -> None:
    """The next start goes on wherever the first was cut off."""
    assert killed(cards.agent(die_at=point))

    cards.started()
    cards.check_left(check_serves(cards))
    assert [path.name for path in cards.host.cdi.iterdir()] == ["k8s.gpuslice.io-card.json"]
    node_mode = cards.host.plugin / "node-mode"
    assert node_mode.read_text() == "device-plugin\n"


def test_a_crash_in_allocate_is_repaired(cards: CardScene) -> None:
    """A kubelet that asks again for the same pod gets what it asked for; each start follows one."""
    agent = cards.started(*LOCKS)
    served = list[str]()
    for point in reachable(OF_ALLOCATE):
        if point is FaultPoint.CONTAINERS_DIRECTORY_MADE:
            shutil.rmtree(cards.host.plugin / "containers")
        name, uid = crash_in_allocate(cards, agent, point)

        agent = cards.started(*LOCKS)
        assert cards.allocate().envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
        assert (cards.cluster.phase(name), cards.cluster.locked_by()) == ("success", "")
        served.append(uid)
        cards.check_left(*served)
        assert is_empty(cards.region(uid))


@pytest.mark.parametrize("point", [FaultPoint.CONTAINER_WRITTEN, FaultPoint.REGION_CREATED])
def test_nothing_is_left_of_a_pod_that_was_given_up(cards: CardScene, point: FaultPoint) -> None:
    """Its lock, record and region go with it, whoever made them."""
    name, _ = crash_in_allocate(cards, cards.started(*SOON), point)
    cards.cluster.set_status(name, {"phase": "Failed"})
    cards.cluster.delete(name)

    cards.started(*SOON)
    eventually(lambda: not cards.cluster.locked_by())
    last = check_serves(cards)
    eventually(lambda: len(list(cards.host.regions.iterdir())) == 1)
    eventually(lambda: len(list((cards.host.plugin / "containers").iterdir())) == 1)
    cards.check_left(last)


def test_a_crash_while_restoring_is_repaired(cards: CardScene) -> None:
    """After a reboot the region is made again from the record, before kubelet is served."""
    agent = cards.started(*LOCKS)
    _, uid = cards.place()
    cards.allocate()
    record = cards.record(uid).read_bytes()
    for point in reachable(OF_CARD_RESTORE):
        agent.kill()
        cards.host.reboot()
        shutil.rmtree(cards.host.regions)

        assert killed(cards.agent(*LOCKS, die_at=point))
        agent = cards.agent(*LOCKS)
        agent.wait_started()

        cards.check_left(uid)
        assert is_empty(cards.region(uid))
        assert cards.record(uid).read_bytes() == record


def test_a_crash_while_a_gone_pod_is_cleaned_up_is_repaired(cards: CardScene) -> None:
    """The next agent ends what the first began; the other container keeps what it has."""
    agent = cards.started(*SOON)
    other = check_serves(cards)
    for point in reachable(OF_CARD_RELEASE):
        name, uid = cards.place()
        cards.allocate()
        if point is FaultPoint.REGION_FILE_REMOVED and may_mount():
            # As where the agent may not mount.
            unmount(cards.region(uid).parent)
            cards.region(uid).touch()
        agent.die_at(point)
        cards.cluster.delete(name)
        assert killed(agent)

        agent = cards.started(*SOON)
        record, region = cards.record(uid), cards.region(uid)
        eventually(lambda: not (record.exists() or region.parent.exists()))  # noqa: B023
        cards.check_left(other)


@pytest.mark.parametrize("point", OF_CARD_CLEANING)
def test_a_crash_while_cleaning_up_after_a_crash_is_repaired(
    cards: CardScene, point: FaultPoint
) -> None:
    """Halves of records are gone after one whole start."""
    crash_in_allocate(cards, cards.started(), FaultPoint.CONTAINER_TEMPORARY_WRITTEN)
    assert cards.host.temporary_files()
    assert killed(cards.agent(die_at=point))

    cards.started()
    cards.allocate()
    assert cards.host.temporary_files() == []


@pytest.mark.parametrize("point", OF_RESET)
def test_a_crash_in_the_reset_of_a_region_is_repaired(cards: CardScene, point: FaultPoint) -> None:
    """The region is empty and whole in the end, and still the file that a container has mounted."""
    first = cards.started()
    _, uid = cards.place()
    cards.allocate()
    region = cards.region(uid)
    inode = region.stat().st_ino
    first.die_at(point)
    leave_marks(region)
    assert killed(first)

    cards.started()
    eventually(lambda: is_empty(region))
    assert region.stat().st_ino == inode


@needs_mounts
@pytest.mark.parametrize("point", OF_FULL_CONTAINERS)
def test_a_crash_on_a_full_disk_is_repaired(cards: CardScene, point: FaultPoint) -> None:
    """A container whose record does not fit gets nothing, and the next one is served."""
    with small_disk(cards.host.plugin / "containers", size_kib=16):
        agent = cards.started()
        filler = fill(cards.host.plugin / "containers")
        crash_in_allocate(cards, agent, point)
        filler.unlink()

        cards.started()
        assert cards.allocate().envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
        assert cards.host.temporary_files() == []


@pytest.mark.parametrize("point", OF_CARDS_GONE)
def test_a_crash_when_all_gpus_are_gone_is_repaired(cards: CardScene, point: FaultPoint) -> None:
    """No spec names a device that is not there, and they come back."""
    first = cards.started("--scan-interval-s=0.2")
    first.die_at(point)
    gpus = cards.host.gpus_file.read_text()
    cards.host.set_gpus("gpus: []")
    assert killed(first)

    cards.host.gpus_file.write_text(gpus)
    cards.host.install_driver()
    cards.started()
    cards.check_left(check_serves(cards))


_INSTALL = """
import os, signal, sys
from cdi.faults import listen
from cli.main import main

def die(point):
    if point == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

listen(die)
sys.exit(main(sys.argv[2:]))
"""


def install(source: Path, target: Path, point: str = "") -> int:
    """Run `gpuslice install-library`, killed at *point*; return its exit status."""
    words = [point, "install-library", "--from", str(source), "--to", str(target)]
    return subprocess.run([sys.executable, "-c", _INSTALL, *words], check=False).returncode  # noqa: S603


@pytest.mark.parametrize("point", OF_INSTALLATION)
def test_a_crash_while_a_library_is_installed_is_repaired(
    cards: CardScene, point: FaultPoint
) -> None:
    """The init container is run again, and containers get the library that it brought."""
    source, target = cards.host.root / "image", cards.host.plugin / "libraries"
    source.mkdir()
    shutil.copy(cards.host.library, source)
    assert install(source, target, point) == -signal.SIGKILL
    assert install(source, target) == 0

    cards.started(f"--hami-core-library={target / 'libvgpu.so'}")
    cards.check_left(check_serves(cards))


@pytest.mark.parametrize("point", OF_UNUSED_LIBRARIES)
def test_a_crash_while_an_unused_library_is_removed_is_repaired(
    cards: CardScene, point: FaultPoint
) -> None:
    """The copy that a container has stays, whichever library is there now."""
    first = cards.started()
    uid = check_serves(cards)
    libraries = cards.host.plugin / "libraries"
    (used,) = libraries.iterdir()
    first.kill()
    unused = libraries / ("0" * 64)
    shutil.copytree(used, unused)
    cards.host.library.write_bytes(empty_header() + b"another")
    for copy in (used, unused):
        os.utime(copy, (0, 0))
    assert killed(cards.agent(*SOON, die_at=point))
    if unused.exists():
        os.utime(unused, (0, 0))

    cards.started(*SOON)
    eventually(lambda: not unused.exists())
    assert used.exists()
    assert len(list(libraries.iterdir())) == 2
    cards.check_left(uid)
