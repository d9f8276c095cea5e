"""The demo notices a container of an older cluster that did not get what its pod was given."""

from typing import Any

import pytest

from cdi.enforcement import PRELOAD_PATH, REGION_PATH
from cdi.library import CONTAINER_LIBRARY_PATH
from cli.demo.oldernode import differences, got
from hami.devices import PodDevice
from sim.runtime.container import ContainerView, MountView, PodRef

DEVICES = [
    PodDevice(uuid="GPU-1", type="NVIDIA", memory_mib=3000, cores=30),
    PodDevice(uuid="GPU-2", type="NVIDIA", memory_mib=2000, cores=20),
]
ENV = {
    "NVIDIA_VISIBLE_DEVICES": "GPU-2,GPU-1",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "2000m",
    "CUDA_DEVICE_MEMORY_LIMIT_1": "3000m",
    "CUDA_DEVICE_SM_LIMIT_0": "20",
    "CUDA_DEVICE_SM_LIMIT_1": "30",
}
PATHS = (REGION_PATH, PRELOAD_PATH, CONTAINER_LIBRARY_PATH)


def container(env: dict[str, str], paths: tuple[str, ...] = PATHS) -> ContainerView:
    """Return a container with *env* and mounts at *paths*."""
    options: dict[str, Any] = {"pod": PodRef(namespace="default", name="p", uid="u")}
    return ContainerView(
        **options,
        container="app",
        image="x",
        env=env,
        mounts=tuple(MountView(container_path=path, type="bind") for path in paths),
        devices=(),
    )


def test_what_was_given_is_what_the_container_has() -> None:
    """Limits may come in the order of the GPUs' places in the machine."""
    view = container(ENV)
    assert list(differences(view, DEVICES)) == []
    assert got(view) == (
        "CUDA_DEVICE_MEMORY_LIMIT_0=2000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1=3000m",
        "CUDA_DEVICE_SM_LIMIT_0=20",
        "CUDA_DEVICE_SM_LIMIT_1=30",
        REGION_PATH,
    )


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (None, "has no container"),
        (container({**ENV, "NVIDIA_VISIBLE_DEVICES": "GPU-3"}), "sees GPU-3"),
        (
            container({**ENV, "CUDA_DEVICE_MEMORY_LIMIT_0": "0m"}),
            "has CUDA_DEVICE_MEMORY_LIMIT_* of 0m, 3000m and not 3000m, 2000m",
        ),
        (
            container({key: value for key, value in ENV.items() if "SM" not in key}),
            "has CUDA_DEVICE_SM_LIMIT_* of nothing and not 30, 20",
        ),
        (container(ENV, PATHS[1:]), f"has no {REGION_PATH}"),
    ],
)
def test_what_differs_is_told(view: ContainerView | None, said: str) -> None:
    """Each thing that a container lacks or has otherwise is a difference."""
    assert list(differences(view, DEVICES)) == [said]
