"""In which order devices are looked at, and what nodes are worth."""

import pytest

from extender.fitting.scoring import device_score, node_score
from extender.model import NodeUsage, Policies
from hami.preferences import ScoringWeights
from hami.requests import DeviceRequest
from tests.extender.nodes import (
    device,
    fit,
    limited,
    node,
    placed,
    pod,
    usage,
    uuids,
)

POLICY = "hami.io/gpu-scheduler-policy"


def loaded(*gpus_of: tuple[int, int, int, int]) -> NodeUsage:
    """Return GPUs with index, NUMA node, used slots and MiB."""
    return node(
        *(
            usage(device(f"G{index}", index, numa=numa), slots, mib)
            for index, numa, slots, mib in gpus_of
        )
    )


NUMA_BIND = {"nvidia.com/numa-bind": "true"}


@pytest.mark.parametrize(
    ("policy", "annotations", "on", "expected"),
    [
        ("binpack", {}, [(0, 0, 1, 900), (1, 1, 2, 900)], "G1 G0"),
        ("binpack", {}, [(0, 1, 1, 9), (1, 0, 1, 9)], "G0 G1"),
        ("spread", {}, [(0, 0, 1, 900), (1, 1, 2, 900)], "G0 G1"),
        ("spread", {}, [(0, 1, 1, 9), (1, 0, 1, 9)], "G0 G1"),
        ("nonsense", {}, [(0, 0, 1, 900), (1, 1, 2, 900)], "G0 G1"),
        ("mutex", {}, [(0, 1, 0, 0), (1, 0, 0, 0)], "G0 G1"),
        ("numa", {}, [(3, 0, 5, 0), (1, 0, 1, 0), (0, 1, 9, 9)], "G0 G3"),
        ("numa,spread", {}, [(0, 1, 9, 0), (1, 0, 0, 0)], "G0 G1"),
        ("numa,spread", {}, [(0, 0, 9, 0), (1, 0, 0, 0)], "G1 G0"),
        ("spread,numa", {}, [(0, 1, 9, 0), (1, 0, 0, 0)], "G1 G0"),
        ("binpack,spread", {}, [(0, 1, 1, 0), (1, 0, 1, 0)], "G1 G0"),
        ("topology-aware,mutex", {}, [(0, 0, 0, 0), (1, 1, 0, 0)], "G1 G0"),
        ("binpack", NUMA_BIND, [(0, 0, 1, 0), (1, 0, 9, 0), (2, 1, 5, 0), (3, 1, 1, 0)], "G1 G0"),
        ("spread", NUMA_BIND, [(0, 0, 1, 0), (1, 0, 9, 0), (2, 1, 5, 0), (3, 1, 1, 0)], "G3 G2"),
        (
            "binpack,spread",
            NUMA_BIND,
            [(0, 0, 9, 0), (1, 0, 9, 0), (2, 1, 5, 0), (3, 1, 1, 0)],
            "G2 G3",
        ),
    ],
)
def test_policies_sort_gpus(
    policy: str,
    annotations: dict[str, str],
    on: list[tuple[int, int, int, int]],
    expected: str,
) -> None:
    """From the end; equal ones by NUMA node, then index."""
    raw = pod(limited(gpu=2, mem=1), annotations={POLICY: policy, **annotations})
    assert uuids(fit(loaded(*on), raw)) == expected


def test_the_administrators_policy_holds_where_the_pod_says_none() -> None:
    """A blank one is none."""
    on = loaded((0, 0, 1, 900), (1, 1, 2, 900))
    binpack = Policies(gpu_policy="binpack")
    assert uuids(fit(on, pod(limited(gpu=1, mem=1)), policies=binpack)) == "G1"
    blank = pod(limited(gpu=1, mem=1), annotations={POLICY: " "})
    assert uuids(fit(on, blank, policies=binpack)) == "G1"
    spread = pod(limited(gpu=1, mem=1), annotations={POLICY: "spread"})
    assert uuids(fit(on, spread, policies=binpack)) == "G0"


def request(memory_mib: int | None, cores: int, percent: int | None = None) -> DeviceRequest:
    """Return a request of devices that are registered by the vendor's word."""
    return DeviceRequest(
        word="W", count=1, memory_mib=memory_mib, memory_percent=percent, cores=cores
    )


@pytest.mark.parametrize(
    ("sizes", "used", "requests", "weights", "expected"),
    [
        ((10, 8192, 4), (2, 2048, 1), [], (1, 1, 1), 7.0),
        ((10, 8192, 4), (2, 2048, 1), [request(1024, 1)], (1, 1, 1), 11.75),
        ((10, 10000, 10), (0, 0, 0), [request(None, 2, 50)], (1, 1, 1), 8.0),
        (
            (10, 10000, 10),
            (0, 0, 0),
            [request(None, 1, 10), request(None, 2, 20)],
            (1, 1, 1),
            8.0,
        ),
        ((10, 100, 100), (1, 10, 90), [request(None, 0, 40)], (1, 1, 1), 16.0),
        ((10, 100, 100), (7, 20, 10), [request(None, 0, 40)], (1, 1, 1), 15.0),
        ((10, 100, 100), (1, 10, 90), [request(None, 0, 40)], (1, 1, 3), 26.0),
        ((10, 100, 100), (7, 20, 10), [request(None, 0, 40)], (1, 1, 3), 27.0),
        ((10, 100, 100), (1, 10, 90), [request(None, 0, 40)], (1, 3, 1), 34.0),
        ((10, 100, 100), (7, 20, 10), [request(None, 0, 40)], (1, 3, 1), 17.0),
        ((0, 100, 100), (7, 20, 10), [], (1, 1, 1), 0.0),
        ((10, 0, 100), (7, 20, 10), [], (1, 1, 1), 0.0),
        ((10, 100, 0), (7, 20, 10), [], (2**63 - 1, 1, 1), 0.0),
    ],
)
def test_devices_are_weighed_as_hami_weighs_them(
    sizes: tuple[int, int, int],
    used: tuple[int, int, int],
    requests: list[DeviceRequest],
    weights: tuple[int, int, int],
    expected: float,
) -> None:
    """With the request where the device is registered by the vendor's word."""
    count, memory_mib, cores = sizes
    one = device("D", word="W", type="W", count=count, memory_mib=memory_mib, cores=cores)
    slot, core, memory = weights
    found = device_score(
        usage(one, *used), requests, ScoringWeights(slot=slot, core=core, memory=memory)
    )
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_request_does_not_weigh_on_models() -> None:
    """Which is what NVIDIA's nodes register."""
    model = usage(device("D", word="W", count=10, memory_mib=100, cores=100))
    assert device_score(model, [request(100, 100)]) == 0.0


def test_what_is_equal_on_paper_is_equal() -> None:
    """However the parts of a weight are added up."""
    one, two = usage(device("A", cores=100, memory_mib=100)), usage(device("B", 1, memory_mib=100))
    one.used_slots, one.used_cores, one.used_mib = 1, 20, 30
    two.used_slots, two.used_cores, two.used_mib = 3, 20, 10
    assert device_score(one, []) == device_score(two, [])


def test_nodes_are_weighed_by_all_their_devices() -> None:
    """Slots, MiB and cores alike; without one of them not at all."""
    assert node_score((1, 3000, 30), (20, 81920, 200)) == pytest.approx(2.366, abs=1e-3)
    assert node_score((1, 0, 1), (1, 0, 1)) == 0.0


def test_weights_change_the_order() -> None:
    """Memory counts for more than use here."""
    on = loaded((0, 0, 9, 0), (1, 0, 0, 20000))
    weighed = {"hami.io/device-scoring-weights": "slot=1,core=1,memory=3"}
    raw = pod(limited(gpu=1, mem=1), annotations=weighed)
    assert uuids(fit(on, pod(limited(gpu=1, mem=1)))) == "G1"
    assert uuids(fit(on, raw)) == "G0"


def test_scores_are_higher_where_the_policy_among_nodes_wants_the_pod() -> None:
    """The fuller node under binpack, the emptier under spread."""
    empty, full = loaded((0, 0, 0, 0)), loaded((0, 0, 5, 9000))
    raw = pod(limited(gpu=1, mem=1))
    spread = Policies(node_policy="spread")
    assert placed(fit(empty, raw)).score < placed(fit(full, raw)).score
    assert (
        placed(fit(empty, raw, policies=spread)).score
        > placed(fit(full, raw, policies=spread)).score
    )
    own = pod(limited(gpu=1, mem=1), annotations={"hami.io/node-scheduler-policy": "spread"})
    assert placed(fit(empty, own)).score > placed(fit(full, own)).score
