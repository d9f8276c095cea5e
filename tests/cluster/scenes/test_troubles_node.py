"""Scenes in which the node itself is in trouble: it reboots, its disk is full, kubelet ends."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.mounts import fill
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.expectations import A10, H100, L4, T4
from tests.cluster.scenes.leftovers import prepared_claims, region_mounts
from tests.cluster.scenes.manifests import claim, pod, request
from tests.cluster.scenes.reboot import rebooting
from tests.cluster.scenes.restarts import restart_kubelet
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import (
    FAILED,
    asked_of_agent,
    end,
    eventually_gone,
    expect_served,
    expect_untouched,
    gone,
    restarted,
    shares,
    uid_of,
    users,
    wake,
)
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

# Kubelet looks for claims of pods that are gone every 60 s (pkg/kubelet/cm/dra/manager.go).
_RECONCILED_S = 100.0


@pytest.mark.scene("a reboot of the node")
def test_reboot(stage: Stage) -> None:
    """Pods come back with limits and clean regions; what was deleted meanwhile is released."""
    driver = stage.driver
    stage.run(*users(stage, {"first": T4, "second": A10, "deleted": L4}))
    uid, regions = uid_of(stage, "first"), driver.cluster.mounted(driver.first.host.plugin)
    region = regions / "regions" / uid / "region.cache"
    shared = shares(stage)
    if shared:
        with region.open("r+b") as file:
            file.write(b"from before the reboot")
    with rebooting(driver):
        assert not driver.specs()
        assert not region_mounts(driver)
        stage.force_delete("deleted")
        stage.delete("ResourceClaim", "deleted")
    for name in ("first", "second"):
        eventually(lambda name=name: restarted(stage, name), 60)  # type: ignore[misc]
    expect_served(stage, "first", "second")
    if shared:
        assert set(region.read_bytes()) == {0}
    kept = {uid_of(stage, each) for each in ("first", "second")}
    eventually(lambda: set(prepared_claims(driver)) == kept, _RECONCILED_S)
    assert len(driver.specs()) == 2
    assert len(region_mounts(driver)) == (2 if shared else 0)
    stage.run(*users(stage, {"next": L4}))
    expect_served(stage, "next")


@pytest.mark.scene("a full disk below the plugin's folder")
def test_full_disk(stage: Stage) -> None:
    """New pods wait and name the disk, others run on and end; with room all goes on."""
    with small_plugin_folder(stage.driver) as folder:
        stage.run(*users(stage, {"stays": T4, "leaves": A10}))
        filler = fill(folder)
        waiting = _refused(stage)
        told = stage.told(waiting, FAILED)
        assert "StateNotWritable" in told
        assert "plugins/gpuslice.io/state" in told
        assert "No space left on device" in told
        expect_untouched(stage, "stays", "leaves")
        end(stage, "leaves")
        filler.unlink()
        wake(stage, waiting)
        if not gone(stage, "leaves"):
            wake(stage, "leaves")
        stage.report(waiting)
        eventually_gone(stage, "leaves")
        expect_served(stage, "stays")
        expect_untouched(stage, "stays")
        stage.clear()


def _refused(stage: Stage) -> str:
    """Create pods until one is refused: the last page of the state has room for a few."""
    for number in range(8):
        name = f"wants-{number}"
        asked = [
            request(each, memory="1Mi", cores=1, product=product)
            for each, product in {"t": T4, "a": A10, "l": L4, "h": H100}.items()
        ]
        stage.create(claim(name, *asked), pod(name, {"gpus": name}, node=stage.node))
        eventually(lambda name=name: stage.events(name, FAILED) or stage.events(name, "Started"))  # type: ignore[misc]
        if stage.events(name, FAILED):
            return name
    raise AssertionError("nothing was refused")


@contextlib.contextmanager
def small_plugin_folder(driver: Driver) -> Iterator[Path]:
    """Give the plugin a small disk of its own for the block, and return its folder."""
    cluster, folder = driver.cluster, str(driver.first.host.plugin)
    with driver.first_away():
        cluster.run_in("mount", "-t", "tmpfs", "-o", "size=128k", "small", folder)
    try:
        yield cluster.mounted(folder)
    finally:
        with driver.first_away():
            cluster.run_in("umount", "-l", folder)


@pytest.mark.scene("kubelet is killed while pods start")
def test_kubelet_killed_in_between(stage: Stage) -> None:
    """A prepare that nobody waits for any more is no hindrance for the next kubelet."""
    driver = stage.driver
    stage.run(*users(stage, {"stays": T4, "leaves": A10}))
    driver.first.pause()
    stage.create(*users(stage, {"first": L4, "second": H100}))
    asked_of_agent(stage, "first", "second")
    end(stage, "leaves")
    restart_kubelet(driver.cluster, signal.SIGKILL)
    driver.first.resume()
    expect_served(stage, "first", "second", "stays")
    expect_untouched(stage, "first", "second", "stays")
    eventually_gone(stage, "leaves")
    eventually(driver.first.ready)
