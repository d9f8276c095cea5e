"""The checks of NVIDIA GPUs, their order and words."""

from typing import Any

import pytest

from extender.model import DeviceUsage, Misfit
from tests.extender.nodes import (
    device,
    fit,
    gpus,
    limited,
    node,
    pod,
    text,
    usage,
    uuids,
)

POLICY = "hami.io/gpu-scheduler-policy"
CORDON = "hami.io/device-cordon"


def card(slots: int = 0, mib: int = 0, cores: int = 0, **said: Any) -> DeviceUsage:
    """Return the one GPU that most rows are about."""
    return usage(device("dev-0", **({"count": 100} | said)), slots, mib, cores)


@pytest.mark.parametrize(
    ("gpu", "limits", "annotations", "expected"),
    [
        (card(memory_mib=128), {"mem": 512}, {}, "1/1 CardInsufficientMemory"),
        (card(1, 0, 100), {"cores": 50, "mem": 1}, {}, "1/1 CardInsufficientCore"),
        (card(100), {"mem": 1}, {}, "1/1 CardTimeSlicingExhausted"),
        (
            card(20),
            {"cores": 100, "mem": 1},
            {},
            "1/1 ExclusiveDeviceAllocateConflict",
        ),
        (card(1, 0, 100), {"mem": 1}, {}, "1/1 CardComputeUnitsExhausted"),
        (card(healthy=False), {"mem": 1}, {}, "1/1 CardNotHealth"),
        (card(memory_mib=0), {}, {}, "1/1 CardInsufficientMemory"),
        (card(count=0), {"mem": 1}, {}, "1/1 CardTimeSlicingExhausted"),
        (usage(device("dev-0", cores=0)), {"mem": 1}, {}, "dev-0"),
        (usage(device("dev-0", cores=0)), {"mem": 1, "cores": 1}, {}, "1/1 CardInsufficientCore"),
        (card(1), {"mem": 1}, {POLICY: "spread, mutex"}, "1/1 ExclusiveDeviceAllocateConflict"),
        (card(type="NVIDIA A10"), {}, {"nvidia.com/use-gputype": "T4"}, "1/1 CardTypeMismatch"),
        (card(), {}, {"nvidia.com/nouse-gpuuuid": "GPU-1"}, "dev-0"),
        (card(mode=""), {}, {"nvidia.com/vgpu-mode": "mig"}, "dev-0"),
        (card(), {}, {"nvidia.com/vgpu-mode": "hami-core,mig"}, "dev-0"),
    ],
)
def test_a_gpu_is_refused_for_the_first_check_that_it_fails(
    gpu: DeviceUsage, limits: dict[str, int], annotations: dict[str, str], expected: str
) -> None:
    """In HAMi's words; sizes of zero fit nothing and raise nothing."""
    raw = pod(limited(gpu=1, **limits), annotations=annotations)
    assert uuids(fit(node(gpu), raw)) == expected


def test_checks_come_in_hamis_order() -> None:
    """One ailment after the other is taken away."""
    ill = usage(
        device("GPU-0", healthy=False, count=1, memory_mib=1000, type="NVIDIA A10"), 1, 1000, 100
    )
    annotations = {
        "nvidia.com/nouse-gputype": "A10",
        "nvidia.com/nouse-gpuuuid": "GPU-0",
        POLICY: "mutex",
    }
    on = node(ill, annotations={CORDON: " GPU-0 ,"})
    seen = []

    def refusal() -> str:
        return text(fit(on, pod(limited(gpu=1, mem=500, cores=60), annotations=annotations)))

    def replace(**said: Any) -> None:
        ill.device = device("GPU-0", **({"count": 1, "memory_mib": 1000} | said))

    seen.append(refusal())
    replace(type="NVIDIA A10")
    seen.append(refusal())
    on.annotations = {}
    seen.append(refusal())
    annotations.pop("nvidia.com/nouse-gputype")
    seen.append(refusal())
    annotations.pop("nvidia.com/nouse-gpuuuid")
    seen.append(refusal())
    replace(count=2)
    seen.append(refusal())
    annotations.pop(POLICY)
    seen.append(refusal())
    ill.used_mib = 0
    seen.append(refusal())
    ill.used_cores = 40
    assert [each.removeprefix("1/1 ") for each in seen] == [
        "CardNotHealth",
        "CardCordoned",
        "CardTypeMismatch",
        "CardUuidMismatch",
        "CardTimeSlicingExhausted",
        "ExclusiveDeviceAllocateConflict",
        "CardInsufficientMemory",
        "CardInsufficientCore",
    ]
    assert refusal() == "GPU-0,NVIDIA,500,60:;"


def test_too_few_gpus_that_fit_are_counted() -> None:
    """Beside the reasons of the others."""
    on = node(device("G0", 0), device("G1", 1, healthy=False), device("G2", 2))
    on.devices["NVIDIA"][2].used_slots = 10
    found = fit(on, pod(limited(gpu=2, mem=1)))
    assert isinstance(found, Misfit)
    assert found.reasons == {
        "CardTimeSlicingExhausted": 1,
        "CardNotHealth": 1,
        "AllocatedCardsInsufficientRequest": 1,
    }
    assert found.need == "2 NVIDIA, each 1 MiB"
    assert found.have == "3 devices, at most 40960 MiB and 100 cores free on one"


def test_a_cordon_holds_at_once_and_for_all_vendors() -> None:
    """It is read from the node as it is."""
    on = node(device("dev-0"), device("dev-1", 1), annotations={CORDON: "dev-1, "})
    raw = pod(limited(gpu=1, mem=1))
    assert uuids(fit(on, raw)) == "dev-0"
    on.annotations = {CORDON: "dev-1,dev-0"}
    assert text(fit(on, raw)) == "2/2 CardCordoned"
    dcu = node(device("D", word="DCU"), annotations={CORDON: "D"})
    assert text(fit(dcu, pod(limited(**{"hygon.com/dcunum": 1})))) == "1/1 CardCordoned"


def test_a_blocked_node_says_why() -> None:
    """And nothing of its devices."""
    on = gpus(2)
    on.blocked = "pod ns/p: cannot read its allocation"
    assert text(fit(on, pod(limited(gpu=1)))) == "pod ns/p: cannot read its allocation"
