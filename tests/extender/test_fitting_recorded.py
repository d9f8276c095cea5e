"""What HAMi v2.10's scheduler was seen to choose, without what it does wrong."""

import json

import pytest

from extender.accounting import Booking, apply, collapse
from extender.model import Misfit, NodeUsage, Placement
from hami.devices import MigPlacement
from tests.extender.nodes import (
    MIG_PROFILES,
    container,
    device,
    fit,
    gpus,
    limited,
    node,
    placed,
    pod,
    text,
    uuids,
)


def pair_of_a100() -> NodeUsage:
    """Return the node of the first recording."""
    return node(device("A", 0, numa=0), device("B", 1, numa=1))


def book(on: NodeUsage, found: Placement | Misfit, uid: str, init_count: int = 0) -> None:
    """Let *found* be the pod *uid*."""
    placement = placed(found)
    uses = collapse(placement.slots, init_count)
    assert apply(on, Booking(uid=uid, uses=uses, mig=placement.mig)) == ()


def test_a_sequence_of_pods_gets_the_devices_and_scores_that_hami_gave() -> None:
    """Five pods after one another, with an init container's peak and every position written."""
    on = pair_of_a100()
    bare = container("i0")
    rows = [
        (pod(limited(gpu=1, mem=3000, cores=30)), 0, "B,NVIDIA,3000,30:;", "0.00"),
        (
            pod(container("c0"), container("c1", gpu=1, mem=2000, cores=10)),
            0,
            ";A,NVIDIA,2000,10:;",
            "2.37",
        ),
        (
            pod(limited(gpu=1, mem=2000, cores=10), init=[bare]),
            1,
            ";A,NVIDIA,2000,10:;",
            "3.61",
        ),
        (
            pod(
                limited(gpu=1, mem=1000, cores=10),
                init=[container("i0", gpu=1, mem=5000, cores=20)],
            ),
            1,
            "B,NVIDIA,5000,20:;B,NVIDIA,1000,10:;",
            "4.85",
        ),
        (pod(limited(gpu=1, mem=100)), 0, "A,NVIDIA,100,0:;", "6.96"),
    ]
    for number, (raw, init_count, written, score) in enumerate(rows):
        found = placed(fit(on, raw))
        assert (text(found), f"{found.score:.2f}") == (written, score)
        book(on, found, f"u{number}", init_count)
    assert [each.used_mib for each in on.devices["NVIDIA"]] == [4100, 8000]


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        ({"gpu": 3}, "NodeInsufficientDevice"),
        ({"gpu": 1, "mem": 50000}, "2/2 CardInsufficientMemory"),
    ],
)
def test_what_is_too_much_is_refused_in_hamis_words(limits: dict[str, int], refusal: str) -> None:
    """A third device and memory that no device has."""
    assert text(fit(pair_of_a100(), pod(limited(**limits)))) == refusal


def two_models() -> NodeUsage:
    """Return the node of the second recording, whose pairs score 100 inside a NUMA node."""
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    scores = [
        {
            "uuid": f"G{one}",
            "score": {
                f"G{two}": 100 if pairs[one] == two else 20 for two in range(4) if two != one
            },
        }
        for one in range(4)
    ]
    types = ["NVIDIA-Tesla T4", "NVIDIA-Tesla T4", "NVIDIA A10", "NVIDIA A10"]
    return node(
        *(
            device(f"G{each}", each, memory_mib=16384, type=types[each], numa=each // 2)
            for each in range(4)
        ),
        name="n4",
        annotations={"hami.io/node-nvidia-score": json.dumps(scores)},
    )


def used(on: NodeUsage, *names: str, times: int = 1) -> NodeUsage:
    """Return *on* with a small pod on each GPU named."""
    for usage in on.devices["NVIDIA"]:
        if usage.device.uuid in names:
            usage.used_slots += times
            usage.used_mib += 1000 * times
            usage.used_cores += 10 * times
    return on


POLICY = "hami.io/gpu-scheduler-policy"


@pytest.mark.parametrize(
    ("busy", "limits", "annotations", "expected"),
    [
        ("", {"gpu": 1, "mem": 1000, "cores": 10}, {}, "G3"),
        ("G3", {"gpu": 1, "mem": 1000, "cores": 10}, {}, "G2"),
        ("G2 G3", {"gpu": 1, "mem": 1000, "cores": 10}, {POLICY: "binpack"}, "G3"),
        ("G2 G3", {"gpu": 2, "mem": 1000}, {POLICY: "mutex"}, "G1 G0"),
        (
            "G0 G1 G2 G3",
            {"gpu": 1, "mem": 1000},
            {POLICY: "mutex"},
            "4/4 ExclusiveDeviceAllocateConflict",
        ),
        ("G0 G1 G2 G3", {"gpu": 1, "mem": 100, "cores": 100}, {}, "4/4 CardInsufficientCore"),
        ("", {"gpu": 2, "mem": 100}, {"nvidia.com/numa-bind": "true"}, "G3 G2"),
        (
            "",
            {"gpu": 3, "mem": 100},
            {"nvidia.com/numa-bind": "true"},
            "2/4 AllocatedCardsInsufficientRequest, 2/4 NumaNotFit",
        ),
        ("", {"gpu": 1, "mem": 100}, {POLICY: "topology-aware"}, "G3"),
        ("G3", {"gpu": 2, "mem": 100}, {POLICY: "topology-aware"}, "G2 G3"),
        ("", {"gpu": 2, "mem": 100}, {"nvidia.com/use-gputype": " a10 ,"}, "G3 G2"),
        (
            "",
            {"gpu": 1, "mem": 100},
            {"nvidia.com/nouse-gputype": "T4,A10"},
            "4/4 CardTypeMismatch",
        ),
        ("", {"gpu": 1, "mem": 100}, {"nvidia.com/vgpu-mode": "mig"}, "4/4 CardTypeMismatch"),
    ],
)
def test_policies_and_annotations_choose_as_hami_does(
    busy: str, limits: dict[str, int], annotations: dict[str, str], expected: str
) -> None:
    """Rows recorded on a node of two models, of which some GPUs are in use."""
    on = used(two_models(), *busy.split())
    assert uuids(fit(on, pod(limited(**limits), annotations=annotations))) == expected


def test_uuids_select_and_exclude() -> None:
    """What is excluded is not selected."""
    names = [f"GPU-{each}" for each in range(4)]
    on = node(*(device(name, index) for index, name in enumerate(names)))
    annotations = {
        "nvidia.com/use-gpuuuid": "GPU-3, GPU-1",
        "nvidia.com/nouse-gpuuuid": "GPU-3",
    }
    assert uuids(fit(on, pod(limited(gpu=1, mem=1), annotations=annotations))) == "GPU-1"


@pytest.mark.parametrize(
    ("limits", "written"),
    [
        ({"gpu": 1, "percent": 25}, "G3,NVIDIA,4096,0:;"),
        ({"gpu": 1, "mem": 0, "percent": 30}, "G3,NVIDIA,4915,0:;"),
        ({"gpu": 1, "mem": 700}, "G3,NVIDIA,700,0:;"),
    ],
)
def test_sizes_are_what_hami_resolves_them_to(limits: dict[str, int], written: str) -> None:
    """Percentages are of the registered memory, rounded down."""
    assert text(fit(two_models(), pod(limited(**limits)))) == written


def test_containers_of_a_pod_are_placed_one_after_the_other() -> None:
    """The second sees what the first was given."""
    raw = pod(
        container("c", gpu=1, mem=1000, cores=10),
        container("d", gpu=2, mem=500),
    )
    expected = "G3,NVIDIA,1000,10:;G2,NVIDIA,500,0:G1,NVIDIA,500,0:;"
    assert text(fit(two_models(), raw)) == expected


def test_scaled_cores_hold_two_whole_requests_and_then_nobody() -> None:
    """A device of 200 cores is exclusive to none, and full to one without cores."""
    on = node(device("S", memory_mib=32768, cores=200))
    for uid in ("a", "b"):
        book(on, fit(on, pod(limited(gpu=1, mem=1000, cores=100))), uid)
    refusal = "1/1 CardComputeUnitsExhausted"
    assert text(fit(on, pod(limited(gpu=1, mem=1000, cores=0)))) == refusal


def test_instances_are_packed_as_hami_packs_them() -> None:
    """Small ones from the far end, two for one request, none once memory is short."""
    on = node(device("G9", count=7, mode="mig", mig_profiles=MIG_PROFILES))
    first = placed(fit(on, pod(limited(gpu=1, mem=4000))))
    assert text(first) == "G9,NVIDIA,4864,15:;"
    (instance,) = first.mig
    assert (instance.profile, instance.placement) == ("1g.5gb", MigPlacement(start=6, size=1))
    assert (instance.container_index, instance.device_index) == (0, 0)
    book(on, first, "a")
    second = placed(fit(on, pod(limited(gpu=2, mem=5000))))
    assert text(second) == "G9,NVIDIA,9856,29:G9,NVIDIA,9856,29:;"
    assert [(each.device_index, each.placement.start) for each in second.mig] == [(0, 0), (1, 2)]
    book(on, second, "b")
    assert text(fit(on, pod(limited(gpu=1, mem=19000)))) == "1/1 CardInsufficientMemory"


class Room:
    """A quota of MiB and cores."""

    def __init__(self, memory_mib: int, cores: int) -> None:
        self.memory_mib = memory_mib
        self.cores = cores

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether both are kept."""
        assert word == "NVIDIA"
        return memory_mib <= self.memory_mib and cores <= self.cores


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"gpu": 1, "mem": 2000, "cores": 10}, True),
        ({"gpu": 1}, True),
        ({"gpu": 1, "mem": 100, "cores": 60}, True),
        ({"gpu": 1, "mem": 1000, "cores": 40}, False),
        ({"gpu": 2, "mem": 600, "cores": 10}, True),
        ({"gpu": 2, "mem": 500, "cores": 10}, False),
    ],
)
def test_a_quota_counts_all_devices_of_the_pod(limits: dict[str, int], refused: bool) -> None:  # noqa: FBT001
    """What is left of 3000 MiB and 50 cores after a pod of 2000 and 10."""
    found = fit(gpus(4), pod(limited(**limits)), room=Room(1000, 40))
    assert isinstance(found, Misfit) == refused
    if isinstance(found, Misfit):
        assert "ResourceQuotaNotFit" in found.reasons
