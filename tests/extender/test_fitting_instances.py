"""MIG instances: which, where, and how they are counted."""

from extender.fitting import migpacking
from extender.model import Misfit
from hami.devices import MigPlacement, MigProfile
from tests.extender.nodes import (
    NoMore,
    container,
    fit,
    limited,
    mig_gpu,
    node,
    placed,
    pod,
    text,
)

POLICY = "hami.io/gpu-scheduler-policy"


def profile(name: str, memory_mib: int, starts: tuple[int, ...], size: int) -> MigProfile:
    """Return a profile."""
    return MigProfile(
        name=name,
        memory_mib=memory_mib,
        cores=1,
        slice_count=int(name[0]),
        placements=tuple(MigPlacement(start=start, size=size) for start in starts),
    )


PACKED = (
    profile("1g.5gb", 5120, (0, 1, 2, 3, 4, 5, 6), 1),
    profile("2g.10gb", 10240, (0, 2, 4), 2),
    profile("3g.20gb", 20480, (0, 4), 4),
)


def test_instances_are_placed_so_that_large_ones_still_fit() -> None:
    """Three slices at 4, two at 0, then single ones before the former."""
    occupied: list[MigPlacement] = []
    starts = []
    for memory_mib in (20000, 10000, 5000, 5000):
        found = migpacking.select(PACKED, occupied, memory_mib)
        assert found is not None
        occupied.append(found[1])
        starts.append(found[1].start)
    assert starts == [4, 0, 3, 2]


def test_no_place_is_no_instance() -> None:
    """Three of two slices leave one for a single one alone."""
    occupied = [MigPlacement(start=start, size=2) for start in (0, 2, 4)]
    assert migpacking.select(PACKED, occupied, 10000) is None
    found = migpacking.select(PACKED, occupied, 5000)
    assert found == (PACKED[0], MigPlacement(start=6, size=1))
    assert migpacking.select(PACKED, [], 30000) is None
    assert migpacking.select((), [], 1) is None


def test_a_gpu_without_a_place_is_infeasible() -> None:
    """Which is another reason than its memory."""
    gpu = mig_gpu()
    on = node(gpu)
    gpu.mig.extend(placed(fit(on, pod(limited(gpu=1, mem=4000)))).mig)
    assert text(fit(on, pod(limited(gpu=1, mem=40000)))) == "1/1 CardMigTopologyInfeasible"
    refusal = "1/1 CardMigTopologyInfeasible, 6/1 AllocatedCardsInsufficientRequest"
    assert text(fit(on, pod(limited(gpu=8, mem=1)))) == refusal


def test_instances_number_from_zero_in_each_container() -> None:
    """Whatever links chose, and init containers come first."""
    on = node(mig_gpu())
    raw = pod(
        container("a", gpu=2, mem=4000),
        container("b", gpu=1, mem=4000),
        init=[container("i", gpu=1, mem=4000), container("j")],
        annotations={POLICY: "topology-aware"},
    )
    found = placed(fit(on, raw))
    places = [(each.container_index, each.device_index) for each in found.mig]
    assert places == [(0, 0), (2, 0), (2, 1), (3, 0)]
    starts = [each.placement.start for each in found.mig]
    assert starts == [6, 6, 5, 4]


def test_slots_bound_the_instances() -> None:
    """A GPU of two slots holds no third instance."""
    on = node(mig_gpu(count=2))
    refusal = "1/1 CardTimeSlicingExhausted, 2/1 AllocatedCardsInsufficientRequest"
    assert text(fit(on, pod(limited(gpu=3, mem=1)))) == refusal


def test_a_quota_counts_the_size_of_the_instance() -> None:
    """And not the smaller one that was asked for."""
    raw = pod(limited(gpu=1, mem=4000))
    assert isinstance(fit(node(mig_gpu()), raw, room=NoMore(4863)), Misfit)
    assert text(fit(node(mig_gpu()), raw, room=NoMore(4864))) == "G9,NVIDIA,4864,15:;"
