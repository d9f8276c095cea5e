"""No device is held by more than it has room for."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra import overlap
from dra.grants import devices_by_name
from dra.record import PreparedClaim, PreparedDevice
from gpu.refusal import RefusedError
from tests.dra.builders import a_gpu, a_held, a_mig_gpu, a_record, an_inventory

GPU, OTHER, MIG = a_gpu(0), a_gpu(1), a_mig_gpu(2)
ON_NODE = devices_by_name(an_inventory(GPU, OTHER, MIG))
SHARES = dict.fromkeys(ON_NODE, 10)
WHOLE = a_held(GPU, dedicated=True, share_id=None, memory_mib=16000, cores_percent=100)


def refusal_of(claim: PreparedClaim, *others: PreparedClaim) -> str:
    """Return why *claim* has no room beside *others*, empty when it has."""
    try:
        overlap.check(claim, others, ON_NODE, SHARES)
    except RefusedError as error:
        return str(error)
    return ""


def beside(mine: PreparedDevice, theirs: PreparedDevice) -> str:
    """Return why one claim cannot hold *mine* while another holds *theirs*."""
    return refusal_of(a_record(1, mine), a_record(2, theirs))


def test_an_empty_node_takes_anything_that_fits_on_it() -> None:
    """Shares, a whole GPU and a partition are fine alone."""
    for device in (a_held(GPU), WHOLE, a_held(MIG.mig_devices[0])):
        assert refusal_of(a_record(1, device)) == ""


def test_a_whole_gpu_and_a_share_exclude_each_other() -> None:
    """The refusal names the claim that has to go first."""
    for mine, theirs in ((WHOLE, a_held(GPU)), (a_held(GPU), WHOLE), (WHOLE, WHOLE)):
        said = beside(mine, theirs)
        assert said.startswith("DeviceInUse")
        assert f"`{mine.device}`" in said
        assert "`team-a/claim-2`" in said
        assert "kubelet tries again" in said


def test_other_gpus_do_not_matter() -> None:
    """Only what is on the same device counts."""
    assert beside(WHOLE, a_held(OTHER, memory_mib=16000)) == ""


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ({"memory_mib": 8001}, {"memory_mib": 8000}, "16001 MiB"),
        ({"cores_percent": 51}, {"cores_percent": 50}, "101 percent"),
        ({"shares": 6}, {"shares": 5}, "11 shares"),
    ],
)
def test_sums_stay_within_the_gpu(mine: dict[str, int], theirs: dict[str, int], said: str) -> None:
    """One MiB, percent or share too many is refused, one less is taken."""
    refusal = beside(a_held(GPU, **mine), a_held(GPU, **theirs))
    assert refusal.startswith("CapacityExceeded")
    assert said in refusal
    assert "`team-a/claim-2`" in refusal
    (name, value), *_ = theirs.items()
    assert beside(a_held(GPU, **mine), a_held(GPU, **{name: value - 1})) == ""


def test_a_claim_that_exceeds_the_gpu_alone_is_refused() -> None:
    """Its own shares of one GPU are summed too."""
    parts = [a_held(GPU, memory_mib=8001), a_held(GPU, memory_mib=8000, share_id="other")]
    assert "16001 MiB with what `this claim`" in refusal_of(a_record(1, *parts))


def test_administrative_access_neither_takes_nor_waits() -> None:
    """Monitoring looks at a GPU that is held, and holds nothing."""
    admin = a_held(GPU, dedicated=True, admin=True, memory_mib=16000, cores_percent=100)
    assert beside(admin, WHOLE) == ""
    assert beside(WHOLE, admin) == ""
    assert beside(a_held(GPU), admin) == ""


def test_the_same_claim_is_not_counted_twice() -> None:
    """A claim that was given something else replaces what it held."""
    assert refusal_of(a_record(1, WHOLE), a_record(1, WHOLE)) == ""


def test_partitions_exclude_each_other_only_by_device() -> None:
    """One partition is held once, its neighbour is free."""
    first, second = (a_held(mig) for mig in MIG.mig_devices)
    assert beside(first, second) == ""
    assert beside(first, first).startswith("DeviceInUse")


def test_a_partition_and_its_whole_gpu_exclude_each_other() -> None:
    """Claims from before the GPU was put into MIG mode still count."""
    gpu = a_gpu(2)
    whole = a_held(gpu, dedicated=True, memory_mib=16000, cores_percent=100)
    share, partition = a_held(gpu), a_held(MIG.mig_devices[0])
    assert beside(partition, whole).startswith("DeviceInUse")
    assert beside(partition, share).startswith("DeviceInUse")
    plain = devices_by_name(an_inventory(gpu))
    with pytest.raises(RefusedError, match="DeviceInUse"):
        overlap.check(a_record(1, share), [a_record(2, partition)], plain, dict.fromkeys(plain, 10))


def test_every_device_of_a_claim_is_looked_at() -> None:
    """The second device may be the one that is held."""
    claim = a_record(1, a_held(OTHER), a_held(GPU))
    assert refusal_of(claim, a_record(2, WHOLE)).startswith("DeviceInUse")


HELD = st.builds(
    lambda gpu, memory_mib, cores_percent, shares, dedicated: a_held(
        gpu,
        memory_mib=16000 if dedicated else memory_mib,
        cores_percent=100 if dedicated else cores_percent,
        shares=shares,
        dedicated=dedicated,
    ),
    st.sampled_from([GPU, OTHER]),
    st.integers(1, 16000),
    st.integers(0, 100),
    st.integers(1, 4),
    st.booleans(),
)


@given(st.lists(st.lists(HELD, min_size=1, max_size=3), max_size=12))
def test_what_is_taken_never_exceeds_a_gpu(wanted: Sequence[list[PreparedDevice]]) -> None:
    """Whatever comes, in whatever order, the sums of what got in stay within each GPU."""
    taken: list[PreparedClaim] = []
    for number, devices in enumerate(wanted):
        claim = a_record(number, *devices)
        if not refusal_of(claim, *taken):
            taken.append(claim)
    for gpu in (GPU, OTHER):
        held = [(claim.uid, each) for claim in taken for each in claim.devices]
        here = [(uid, each) for uid, each in held if each.uuid == gpu.uuid]
        if any(each.dedicated for _, each in here):
            assert len({uid for uid, _ in here}) == 1
        elif here:
            assert sum(each.memory_mib for _, each in here) <= 16000
            assert sum(each.cores_percent for _, each in here) <= 100
            assert sum(each.shares for _, each in here) <= 10
