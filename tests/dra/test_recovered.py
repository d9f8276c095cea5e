"""A record made from a spec stands for the record that the spec was made from."""

from hypothesis import given
from hypothesis import strategies as st

from cdi.recovery import RecoveredSpec, recover
from dra.grants import limits
from dra.record import LimitOptions, PreparedClaim, PreparedDevice
from dra.recovered import from_spec
from gpu import names
from tests.dra.builders import BOOT_ID, LIBRARY, NODE, a_gpu, a_held, a_mig_gpu, a_record, a_view

GPUS = (a_gpu(0), a_gpu(1), a_mig_gpu(2))
VIEW = a_view(*GPUS)
WHOLE_MIB = 16000

SHARES = st.builds(
    lambda gpu, share, memory_mib, cores: a_held(
        a_gpu(gpu),
        share_id=f"5a5a0000-0000-4000-8000-{share:012x}",
        memory_mib=memory_mib,
        cores_percent=cores,
    ),
    st.sampled_from([0, 1]),
    st.integers(0, 2**40),
    st.integers(1, WHOLE_MIB // 4),
    st.integers(0, 25),
)
WHOLE = st.sampled_from([0, 1]).map(
    lambda gpu: a_held(a_gpu(gpu), share_id=None, dedicated=True, memory_mib=WHOLE_MIB)
)
MIG = st.sampled_from(GPUS[2].mig_devices).map(a_held)
DEVICES = (
    st.lists(SHARES, min_size=1, max_size=4, unique_by=lambda device: device.share_id)
    | WHOLE.map(lambda device: [device])
    | MIG.map(lambda device: [device])
)


def a_claim(devices: list[PreparedDevice]) -> PreparedClaim:
    """Return the record of a claim with *devices*, limited where a prepare would limit it."""
    found = limits(tuple(devices), VIEW.devices)
    options = LimitOptions(library_sha256=LIBRARY.sha256, priority=1, log_level=3)
    return a_record(1, *devices, limits=found, options=options if found else None)


def found_again(claim: PreparedClaim) -> PreparedClaim:
    """Return the record of *claim* as its spec tells it."""
    spec = recover(claim.uid, VIEW.renderer.render(claim))
    who = (claim.uid, claim.namespace, claim.name)
    record = from_spec(who, spec, VIEW.devices, pool=NODE, boot_id=BOOT_ID)
    assert record is not None
    return record


@given(DEVICES)
def test_the_spec_of_the_record_is_the_same(devices: list[PreparedDevice]) -> None:
    """Nothing changes for containers that were started with it."""
    claim = a_claim(devices)
    assert VIEW.renderer.render(found_again(claim)) == VIEW.renderer.render(claim)


@given(DEVICES)
def test_nothing_that_is_held_is_counted_as_free(devices: list[PreparedDevice]) -> None:
    """Each GPU has at least as much taken as before, of memory exactly what limits say."""
    claim = a_claim(devices)
    found = found_again(claim)
    for gpu in {device.parent_uuid for device in devices}:
        was = [each for each in claim.devices if each.parent_uuid == gpu]
        now = [each for each in found.devices if each.parent_uuid == gpu]
        assert sum(each.memory_mib for each in now) >= sum(each.memory_mib for each in was)
        assert sum(each.cores_percent for each in now) >= sum(each.cores_percent for each in was)
        assert sum(each.shares for each in now) == sum(each.shares for each in was)
        assert {each.dedicated for each in now} == {each.dedicated for each in was}
        if claim.limits:
            assert sum(each.memory_mib for each in now) == sum(each.memory_mib for each in was)
    kept = [(each.device, each.share_id, each.uuid) for each in found.devices]
    assert sorted(kept, key=str) == sorted(
        ((each.device, each.share_id, each.uuid) for each in devices), key=str
    )


def test_a_share_without_limits_is_counted_as_all() -> None:
    """Its spec does not say how much it is, and its containers may take everything."""
    claim = a_record(1, a_held(a_gpu(), memory_mib=1))
    (device,) = found_again(claim).devices
    assert (device.memory_mib, device.cores_percent) == (WHOLE_MIB, 100)
    assert not device.dedicated


def a_spec(*devices: str) -> RecoveredSpec:
    """Return a spec with *devices* and no limits."""
    return RecoveredSpec(
        devices=devices,
        library_sha256=None,
        limits=(),
        priority=None,
        core_policy="default",
        log_level=None,
    )


def test_a_device_that_is_away_is_known_by_its_name() -> None:
    """It is held as soon as it is back."""
    away = a_gpu(7)
    share_id = "5a5a0000-0000-4000-8000-000000000001"
    spec = a_spec(f"{names.device_name(away.uuid)}-{share_id}")
    record = from_spec(("uid", "a", "b"), spec, VIEW.devices, pool=NODE, boot_id=BOOT_ID)
    assert record is not None
    (device,) = record.devices
    assert (device.uuid, device.parent_uuid, device.share_id) == (away.uuid, away.uuid, share_id)


def test_a_name_that_is_no_device_makes_no_record() -> None:
    """Half of the devices would be half of what the claim holds."""
    known = names.device_name(a_gpu().uuid)
    for name in ("card-0", f"x{known}", "gpu-00000000"):
        spec = a_spec(known, name)
        found = from_spec(("uid", "a", "b"), spec, VIEW.devices, pool=NODE, boot_id=BOOT_ID)
        assert found is None
