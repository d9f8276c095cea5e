"""What is left on the node with a kubelet when no pod uses a claim any more: nothing.

Five places are looked at, for each of them has been found with something in real drivers: CDI
specs, usage regions, their mounts, the plugin's durable state, and kubelet's own list of claims.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dra.state import StateStore
from tests.cluster.scenes.driver import Driver
from tests.patience import eventually

_KUBELET_STATE: Final = "dra_manager_state"
_LEVELS: Final = ("error", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What the node holds for claims."""

    cdi_files: tuple[str, ...] = ()
    """Everything in the folder, whoever wrote it."""
    regions: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    """Mount points of regions, one as often as something is mounted on it."""
    prepared: tuple[str, ...] = ()
    """UIDs in the plugin's state."""
    kubelet: tuple[str, ...] = ()
    """UIDs in kubelet's state."""


def holdings(driver: Driver) -> Holdings:
    """Return what is there now."""
    cdi = driver.cluster.outside(driver.first.cdi_folder)
    return Holdings(
        cdi_files=tuple(sorted(each.name for each in cdi.iterdir())),
        regions=tuple(each.name for each in driver.regions()),
        mounts=region_mounts(driver),
        prepared=prepared_claims(driver),
        kubelet=claims_of_kubelet(driver),
    )


def expect_nothing_left(driver: Driver) -> None:
    """Fail when something stays behind on the node with a kubelet."""
    found = [Holdings(cdi_files=("unknown",))]

    def empty() -> bool:
        found[0] = holdings(driver)
        return found[0] == Holdings()

    try:
        eventually(empty)
    except AssertionError as error:
        message = f"left on {driver.first.node}: {found[0]}"
        raise AssertionError(message) from error
    granted = [
        line for line in driver.first.metrics().splitlines() if "granted_memory_mib{" in line
    ]
    assert not granted, "the agent counts a claim that its state does not have"


def region_mounts(driver: Driver) -> tuple[str, ...]:
    """Return what is mounted below the folder of regions, in the cluster's mount namespace."""
    lines = Path(f"/proc/{driver.cluster.init.pid}/mountinfo").read_text().splitlines()
    below = f"{driver.first.host.plugin / 'regions'}/"
    points = [line.split()[4] for line in lines]
    return tuple(sorted(each.removeprefix(below) for each in points if each.startswith(below)))


def prepared_claims(driver: Driver) -> tuple[str, ...]:
    """Return the UIDs of the claims in the plugin's state, read from a copy of it."""
    state = driver.cluster.outside(driver.first.host.plugin / "state")
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(state, Path(folder, "state"))
        store = StateStore(copy, boot_id="a test")
        store.open()
        try:
            return tuple(sorted(store.claims()))
        finally:
            store.close()


def claims_of_kubelet(driver: Driver) -> tuple[str, ...]:
    """Return the UIDs of the claims in kubelet's checkpoint."""
    path = driver.cluster.outside(driver.cluster.kubelet_root / _KUBELET_STATE)
    data = json.loads(json.loads(path.read_text())["Data"])
    return tuple(sorted(each["ClaimUID"] for each in data["ClaimInfoStateList"] or ()))


def errors_in(log: str) -> list[str]:
    """Return the lines of an agent's log that tell of an error, or that are no entries at all."""
    lines = log.splitlines()
    return [
        line for line in lines if not line.startswith("{") or json.loads(line)["level"] in _LEVELS
    ]
