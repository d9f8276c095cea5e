"""The demo's scene on an older cluster notices what is not as a manifest asks."""

from typing import Any

import pytest

from cli.demo.older import FOLDER, configuration, row_of
from cli.demo.scenes import examples_directory, manifests
from sim.scheduler.configuration import read_configuration

UUID = "GPU-1"
TOTAL_MIB = {UUID: 40960}


def pod(name: str = "older-share", devices: str = f"{UUID},NVIDIA,3000,30:;") -> dict[str, Any]:
    """Return a pod that asked for 3000 MiB and 30 % of a GPU, and has *devices*."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k", "nvidia.com/gpucores": "30"}
    return {
        "metadata": {
            "name": name,
            "labels": {"hami.io/vgpu-node": "a"},
            "annotations": {"hami.io/vgpu-devices-allocated": devices},
        },
        "spec": {"nodeName": "a", "containers": [{"resources": {"limits": limits}}]},
    }


def waiting(name: str, message: str) -> dict[str, Any]:
    """Return a pod that waits."""
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    found = pod(name, "")
    del found["spec"]["nodeName"]
    return {**found, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("found", "differences"),
    [
        (pod(), []),
        (waiting("older-large", "0/1 nodes: 1/1 CardInsufficientMemory."), []),
        (pod(devices=f"{UUID},NVIDIA,2000,30:;"), ["has 2000 MiB and not 3000"]),
        (pod(devices=f"{UUID},NVIDIA,3000,0:;"), ["has 0 % and not 30"]),
        (pod(devices=";"), ["has 0 devices and not 1"]),
        (waiting("older-share", "no room"), ["is pending: no room"]),
        (waiting("older-large", "no quota"), ["is pending for another reason: no quota"]),
        (
            pod("older-large"),
            ["was given a device although it cannot fit", "is pending for another reason: "],
        ),
    ],
)
def test_what_is_not_as_asked_is_told(found: dict[str, Any], differences: list[str]) -> None:
    """Devices, memory, cores and the reason of the one that waits are compared."""
    assert list(row_of(found, TOTAL_MIB).differences) == differences


def test_the_chart_configures_a_scheduler_that_the_simulation_takes() -> None:
    """What the chart installs is a configuration with which a scheduler starts."""
    read = read_configuration(configuration("http://127.0.0.1:1"))
    (policy,) = read.extenders
    assert read.name == "hami-scheduler"
    assert policy.url_prefix == "http://127.0.0.1:1"
    assert policy.bind_verb == "bind"
    assert policy.node_cache_capable
    assert not policy.ignorable
    assert "nvidia.com/gpumem" in policy.ignored_resources


def test_the_example_explains_itself() -> None:
    """The folder has a README and pods."""
    assert (examples_directory() / FOLDER / "README.md").read_text().startswith("# ")
    assert {each["kind"] for each in manifests(FOLDER)} == {"Pod"}
