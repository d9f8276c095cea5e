"""One container moves to other GPUs, the rest of its pod stays."""

from typing import Any

import pytest

from extender.fitting import ENDLESS, QuotaRoom, refit
from extender.model import Misfit, NodeUsage, Policies
from hami.devices import PodDevice, Slots
from tests.extender.nodes import ask, container, device, gpus, limited, node, pod


def on_gpu(uuid: str, mib: int = 1000, cores: int = 0) -> tuple[PodDevice, ...]:
    """Return what a container has."""
    return (PodDevice(uuid=uuid, type="NVIDIA", memory_mib=mib, cores=cores),)


def moved(
    on: NodeUsage,
    raw: dict[str, Any],
    slots: Slots,
    position: int,
    allowed: str,
    room: QuotaRoom = ENDLESS,
) -> str:
    """Return the GPUs by container afterwards, or the refusal."""
    found = refit(
        on,
        ask(raw),
        Policies(),
        room,
        slots=slots,
        position=position,
        allowed=allowed.split(),
    )
    if isinstance(found, Misfit):
        return str(found)
    return " | ".join(" ".join(each.uuid for each in devices) for devices in found)


def test_only_allowed_gpus_are_chosen_by_the_pods_policy() -> None:
    """The others keep theirs."""
    raw = pod(container("a", gpu=1, mem=1000), container("b", gpu=1, mem=1000))
    slots = (on_gpu("G3"), on_gpu("G2"))
    assert moved(gpus(4), raw, slots, 0, "G0 G1") == "G1 | G2"
    assert moved(gpus(4), raw, slots, 1, "G3 G0") == "G3 | G0"
    refusal = "3/4 CardUuidMismatch, 1/4 CardInsufficientMemory"
    full = gpus(4)
    full.devices["NVIDIA"][0].used_mib = 40000
    assert sorted(moved(full, raw, slots, 0, "G0").split(", ")) == sorted(refusal.split(", "))


def test_the_pod_does_not_stand_in_its_own_way() -> None:
    """Its exclusive GPU may be chosen again, not one that its other container has alone."""
    raw = pod(container("a", gpu=1), container("b", gpu=1))
    slots = (on_gpu("G1", 40960, 100), on_gpu("G0", 40960, 100))
    assert moved(gpus(2), raw, slots, 0, "G1") == "G1 | G0"
    assert moved(gpus(2), raw, slots, 0, "G0") == "1/2 CardInsufficientMemory, 1/2 CardUuidMismatch"


def test_an_init_container_moves_past_apps() -> None:
    """They do not run beside it; a sidecar before it does."""
    sidecar = {**container("s", gpu=1, mem=30000), "restartPolicy": "Always"}
    init, app = container("i", gpu=1, mem=30000), container("c", gpu=1, mem=30000)
    raw = pod(app, init=[init, sidecar])
    slots = (on_gpu("G0", 30000), on_gpu("G1", 30000), on_gpu("G2", 30000))
    assert moved(gpus(3), raw, slots, 0, "G2") == "G2 | G1 | G2"
    assert moved(gpus(3), raw, slots, 1, "G2") == "1/3 CardInsufficientMemory, 2/3 CardUuidMismatch"
    assert moved(gpus(3), raw, slots, 1, "G0") == "G0 | G0 | G2"


def test_a_sidecar_does_not_move_onto_an_init_container_that_follows() -> None:
    """Which is seen only when all are put together."""
    sidecar = {**container("s", gpu=1, mem=30000), "restartPolicy": "Always"}
    raw = pod(container("c"), init=[sidecar, container("i", gpu=1, mem=30000)])
    slots = (on_gpu("G0", 30000), on_gpu("G1", 30000), ())
    assert moved(gpus(2), raw, slots, 0, "G1") == "1/2 CardInsufficientMemory"


class Room:
    """A quota of MiB."""

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether it is kept."""
        del word, cores
        return memory_mib <= 4000


@pytest.mark.parametrize(("uuid", "fits"), [("G0", True), ("G1", False)])
def test_a_quota_counts_where_init_containers_lie(uuid: str, fits: bool) -> None:  # noqa: FBT001
    """On the same GPU the larger counts, on two GPUs both do."""
    raw = pod(limited(gpu=1, mem=4000), init=[container("i", gpu=1, mem=4000)])
    slots = (on_gpu("G0", 4000), on_gpu("G0", 4000))
    found = moved(gpus(2), raw, slots, 1, uuid, Room())
    assert (found == f"G0 | {uuid}") == fits


def test_what_cannot_move_is_refused() -> None:
    """Instances, containers without a GPU, positions that are none."""
    raw = pod(limited(gpu=1, mem=1000), container("b"))
    cut = node(device("G0"), device("G1", 1, mode="mig"))
    slots = (on_gpu("G0"), ())
    assert moved(cut, raw, slots, 0, "G1") == "1/2 CardUuidMismatch, 1/2 ModeNotFit"
    assert moved(cut, raw, slots, 1, "G0") == "NodeInsufficientDevice"
    assert moved(cut, raw, slots, 2, "G0") == "NodeInsufficientDevice"
