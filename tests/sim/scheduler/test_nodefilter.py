"""Extended resources that device plugins offer: what is free, and what a pod takes of it."""

from typing import Any

import pytest

from sim.scheduler.nodefilter import unfit

RESOURCE = "example.com/gpu"
Json = dict[str, Any]


def container(number: int, **more: Any) -> Json:
    """Return a container that asks for *number*."""
    return {"resources": {"limits": {RESOURCE: str(number)}}, **more}


def sidecar(number: int) -> Json:
    """Return an init container that runs on."""
    return container(number, restartPolicy="Always")


def pod(
    *containers: Json, init: tuple[Json, ...] = (), phase: str = "Running", **spec: Any
) -> Json:
    """Return a pod."""
    whole = {"containers": list(containers), "initContainers": list(init), **spec}
    return {"spec": whole, "status": {"phase": phase}}


def node(allocatable: str | None, capacity: str = "8") -> Json:
    """Return a node that offers *allocatable*."""
    offered = {} if allocatable is None else {RESOURCE: allocatable}
    status = {"allocatable": offered, "capacity": {RESOURCE: capacity}}
    return {"metadata": {"name": "a"}, "status": status}


@pytest.mark.parametrize(
    ("asked", "peak"),
    [
        (pod(container(2), container(1)), 3),
        (pod(container(1), init=(container(3), container(2))), 3),
        (pod(container(1), init=(container(1),)), 1),
        (pod(container(1), init=(sidecar(2),)), 3),
        (pod(container(1), init=(sidecar(2), container(3))), 5),
        (pod(container(1), init=(container(3), sidecar(2))), 3),
        (pod(container(1), init=(sidecar(1), sidecar(2), container(1))), 4),
    ],
)
def test_a_pod_takes_what_it_has_at_its_peak(asked: Json, peak: int) -> None:
    """Containers and sidecars add up; init containers stand beside the sidecars before them."""
    assert unfit(asked, node(str(peak)), []) == ""
    assert unfit(asked, node(str(peak - 1)), []) == f"Insufficient {RESOURCE}"


def test_what_others_hold_is_not_free() -> None:
    """Pods on the node count until they have ended, those elsewhere do not."""
    others = [
        pod(container(2), nodeName="a"),
        pod(container(2), nodeName="a", phase="Pending"),
        pod(container(2), nodeName="a", phase="Failed"),
        pod(container(2), nodeName="b"),
    ]
    assert unfit(pod(container(4)), node("8"), others) == ""
    assert unfit(pod(container(5)), node("8"), others) == f"Insufficient {RESOURCE}"


@pytest.mark.parametrize("allocatable", ["0", None])
def test_capacity_alone_is_nothing(allocatable: str | None) -> None:
    """What is there and ill, or was there once, cannot be had."""
    assert unfit(pod(container(1)), node(allocatable), []) == f"Insufficient {RESOURCE}"
    assert unfit(pod({}), node(allocatable), []) == ""
