"""What ails GPUs, and when that is over."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.health import History, Reading, Sighting, XidEvent, code_of, is_over
from gpu.model import Ailment, Gpu, GpuFault, GpuUuid, Inventory
from tests.dra.gpus import GPU, MIG, many_gpus

A, B = (gpu.uuid for gpu in many_gpus(2))
FIRST, SECOND = GpuUuid("MIG-1"), GpuUuid("MIG-2")
PARTITIONED = replace(
    GPU,
    mig_enabled=True,
    mig_devices=(
        replace(MIG, uuid=FIRST, gpu_instance_id=7, compute_instance_id=0),
        replace(MIG, uuid=SECOND, gpu_instance_id=7, compute_instance_id=1),
    ),
)
RECOVERY_S = 60.0


def reading(
    *gpus: Gpu,
    actions: Mapping[GpuUuid, int | None] | None = None,
    faults: tuple[GpuFault, ...] = (),
    driver: str = "580.1",
) -> Reading:
    """Return a reading of *gpus*, for which the driver advises nothing unless *actions* say."""
    return Reading(
        inventory=Inventory(
            driver_version=driver, cuda_driver_version="13.0", gpus=gpus, faults=faults
        ),
        actions={gpu.uuid: 0 for gpu in gpus} | dict(actions or {}),
    )


def fault(uuid: GpuUuid | None, reason: str) -> GpuFault:
    """Return a fault of a GPU."""
    return GpuFault(index=0, uuid=uuid, pci_bus_id=None, reason=reason, call="nvmlDeviceGetName")


def xid(number: int, uuid: GpuUuid | None = A, **instance: int) -> XidEvent:
    """Return an event."""
    return XidEvent(
        gpu_uuid=uuid,
        xid=number,
        gpu_instance_id=instance.get("gpu_instance"),
        compute_instance_id=instance.get("compute_instance"),
    )


def after(history: History, seen: Reading, *events: XidEvent, now_s: float = 0.0) -> History:
    """Return what is known after *seen* and *events*."""
    return history.after(seen, events, now_s=now_s, recovery_s=RECOVERY_S)


def codes(history: History, seen: Reading) -> list[tuple[str, str]]:
    """Return what ails which device."""
    return [(each.uuid, each.code) for each in history.diagnosed(seen.inventory).ailments]


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (1, "GpuResetNeeded"),
        (2, "NodeRebootNeeded"),
        (3, "DrainP2pNeeded"),
        (4, "DrainAndResetNeeded"),
        (5, "ImexRecoveryNeeded"),
        (6, "BusResetNeeded"),
        (7, "SystemRebootNeeded"),
        (8, "RecoveryAction8"),
        (2**64 - 1, "RecoveryAction18446744073709551615"),
    ],
)
def test_the_drivers_advice_ails_a_gpu_until_it_is_taken_back(action: int, code: str) -> None:
    """Each advice has a code; one that is not known counts too, and failing to read it not."""
    gpus = many_gpus(2)
    ill = reading(*gpus, actions={A: action})
    history = after(History(), ill)
    assert codes(history, ill) == [(A, code)]
    silent = reading(*gpus, actions={A: None})
    history = after(history, silent)
    assert codes(history, silent) == [(A, code)]
    well = reading(*gpus)
    assert codes(after(history, well), well) == []


def test_an_xid_ails_its_gpu_until_it_was_quiet_for_a_while() -> None:
    """The time counts from the last critical XID of that GPU, whichever it was."""
    seen = reading(*many_gpus(2))
    history = after(History(), seen, xid(48), now_s=100.0)
    assert codes(history, seen) == [(A, "Xid48")]
    history = after(history, seen, xid(79), now_s=130.0)
    history = after(history, seen, xid(95, B), now_s=140.0)
    history = after(history, seen, now_s=189.0)
    assert codes(history, seen) == [(A, "Xid48"), (A, "Xid79"), (B, "Xid95")]
    history = after(history, seen, now_s=190.0)
    assert codes(history, seen) == [(B, "Xid95")]
    assert after(history, seen, now_s=200.0).sightings == ()


def test_an_xid_stays_while_the_driver_advises_something() -> None:
    """Both are said; when the advice is taken back long after the XID, both are over."""
    ill = reading(*many_gpus(1), actions={A: 1})
    history = after(History(), ill, xid(48))
    history = after(history, ill, now_s=1000.0)
    assert codes(history, ill) == [(A, "GpuResetNeeded"), (A, "Xid48")]
    well = reading(*many_gpus(1))
    assert codes(after(history, well, now_s=1001.0), well) == []


def test_without_advice_an_xid_stays_until_the_gpu_was_gone() -> None:
    """Time alone proves nothing then."""
    silent = reading(*many_gpus(1), actions={A: None})
    history = after(History(), silent, xid(79))
    history = after(history, silent, now_s=1e6)
    assert codes(history, silent) == [(A, "Xid79")]
    gone = reading()
    history = after(history, gone, now_s=1e6)
    assert codes(history, gone) == []
    history = after(history, silent, now_s=1e6)
    assert codes(history, silent) == []


@pytest.mark.parametrize(
    ("found", "was_gone"),
    [
        (fault(A, "GPU_IS_LOST"), True),
        (fault(B, "UNKNOWN"), True),
        (fault(A, "UNKNOWN"), False),
        (fault(None, "GPU_IS_LOST"), False),
    ],
)
def test_a_gpu_that_cannot_be_read_is_not_gone(found: GpuFault, was_gone: bool) -> None:  # noqa: FBT001
    """One that is lost is, and one that nothing is heard of; one that may be another is not."""
    silent = reading(*many_gpus(1), actions={A: None})
    history = after(History(), silent, xid(79))
    history = after(history, reading(faults=(found,)))
    assert (codes(after(history, silent), silent) == []) is was_gone


def test_an_xid_that_comes_again_has_to_end_again() -> None:
    """That the GPU was gone before says nothing about an XID after it."""
    silent = reading(*many_gpus(1), actions={A: None})
    history = after(after(History(), silent, xid(79)), reading())
    history = after(history, silent, xid(79))
    assert codes(history, silent) == [(A, "Xid79")]
    assert codes(after(history, silent), silent) == [(A, "Xid79")]


def test_an_xid_of_a_lost_gpu_is_kept_for_its_return() -> None:
    """XID 79 comes with the loss; a driver that gives advice has to call the GPU well first."""
    history = after(History(), reading(faults=(fault(A, "GPU_IS_LOST"),)), xid(79), now_s=0.0)
    seen = reading(*many_gpus(1))
    history = after(history, seen, now_s=10.0)
    assert codes(history, seen) == [(A, "Xid79")]
    assert codes(after(history, seen, now_s=60.0), seen) == []


def test_another_driver_begins_anew() -> None:
    """XIDs and advice of the driver before are forgotten, those of the new one count."""
    gpus = many_gpus(2)
    old = reading(*gpus, actions={A: 1, B: None})
    history = after(History(), old, xid(79), xid(79, B))
    new = reading(*gpus, actions={A: None, B: None}, driver="590.1")
    history = after(history, new, xid(95))
    assert codes(history, new) == [(A, "Xid95")]


@pytest.mark.parametrize(
    ("instance", "hit"),
    [
        ({"gpu_instance": 7, "compute_instance": 1}, [SECOND]),
        ({"gpu_instance": 7}, [FIRST, SECOND]),
        ({"gpu_instance": 7, "compute_instance": 2}, []),
        ({"gpu_instance": 8, "compute_instance": 0}, []),
        ({}, [GPU.uuid]),
    ],
)
def test_an_xid_of_a_partition_is_that_partitions(
    instance: dict[str, int], hit: list[GpuUuid]
) -> None:
    """The others go on; one that is no more cannot be ill; without a partition it is the GPU."""
    seen = reading(PARTITIONED)
    history = after(History(), seen, xid(48, GPU.uuid, **instance))
    assert codes(history, seen) == [(uuid, "Xid48") for uuid in hit]


def test_a_partition_of_a_gpu_that_has_none_is_the_gpu() -> None:
    """Ids mean nothing where MIG is off, and are not known where the GPU cannot be read."""
    seen = reading(GPU)
    history = after(History(), seen, xid(48, GPU.uuid, gpu_instance=1, compute_instance=0))
    assert codes(history, seen) == [(GPU.uuid, "Xid48")]
    history = after(History(), reading(), xid(48, GPU.uuid, gpu_instance=1, compute_instance=0))
    assert codes(history, seen) == [(GPU.uuid, "Xid48")]


def test_a_partition_that_is_removed_takes_its_xids_with_it() -> None:
    """A new one in its place is another device."""
    seen = reading(PARTITIONED)
    history = after(History(), seen, xid(48, GPU.uuid, gpu_instance=7, compute_instance=0))
    less = reading(replace(PARTITIONED, mig_devices=PARTITIONED.mig_devices[1:]))
    assert after(history, less).sightings == ()


def test_an_xid_of_nobody_ails_nobody() -> None:
    """A GPU that cannot be named cannot be called ill."""
    seen = reading(*many_gpus(1))
    assert after(History(), seen, xid(79, None)) == after(History(), seen)


def test_what_ails_says_what_is_wrong() -> None:
    """The message has the XID and its meaning, or the advice."""
    seen = reading(*many_gpus(1), actions={A: 1})
    history = after(History(), seen, xid(79))
    assert history.diagnosed(seen.inventory).ailments == (
        Ailment(uuid=A, code="GpuResetNeeded", message="the driver asks for a reset of the GPU"),
        Ailment(uuid=A, code="Xid79", message="XID 79: the GPU has fallen off the bus"),
    )


ACTIONS = st.none() | st.integers(0, 9)
TIMES = st.floats(0, 1e6)
SIGHTINGS = st.builds(
    Sighting, uuid=st.just(A), gpu_uuid=st.just(A), xid=st.just(79), seen_s=TIMES,
    was_gone=st.booleans(),
)  # fmt: skip


@given(sighting=SIGHTINGS, action=ACTIONS, is_there=st.booleans(), now_s=TIMES, latest_s=TIMES)
def test_when_an_xid_is_over(
    sighting: Sighting,
    action: int | None,
    is_there: bool,  # noqa: FBT001
    now_s: float,
    latest_s: float,
) -> None:
    """The GPU has to be there, and to be called well for a while or to have been gone."""
    over = is_over(
        sighting,
        latest_s=latest_s,
        action=action,
        is_there=is_there,
        now_s=now_s,
        recovery_s=RECOVERY_S,
    )
    by_word = action == 0 and now_s - latest_s >= RECOVERY_S
    by_absence = action is None and sighting.was_gone
    assert over == (is_there and (by_word or by_absence))


STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([48, 79]), max_size=2),
        ACTIONS,
        st.sampled_from(["there", "gone", "lost", "unreadable"]),
        st.floats(0, 100),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_no_history_says_well_what_is_not(
    steps: list[tuple[list[int], int | None, str, float]],
) -> None:
    """Whatever happens, a GPU that is there is called well only when all of it is over."""
    history, now_s, told = History(), 0.0, 0
    latest_s, was_gone = None, False
    for numbers, action, state, passed_s in steps:
        now_s += passed_s
        if numbers:
            latest_s, was_gone = now_s, False
        seen = {
            "there": reading(*many_gpus(1), actions={A: action}),
            "gone": reading(),
            "lost": reading(faults=(fault(A, "GPU_IS_LOST"),)),
            "unreadable": reading(faults=(fault(A, "UNKNOWN"),)),
        }[state]
        was_gone = was_gone or state in {"gone", "lost"}
        history = after(history, seen, *(xid(number) for number in numbers), now_s=now_s)
        assert after(history, seen, now_s=now_s) == history
        ailing = {each.code for each in history.diagnosed(seen.inventory).ailments}
        if state != "there":
            assert ailing == set()
            continue
        told = told if action is None else action
        over_by_time = action == 0 and latest_s is not None and now_s - latest_s >= RECOVERY_S
        if latest_s is not None and (over_by_time or (action is None and was_gone)):
            latest_s = None
        assert any(code.startswith("Xid") for code in ailing) == (latest_s is not None)
        assert (len(ailing) > len([code for code in ailing if code.startswith("Xid")])) == (
            told != 0
        )


@given(order=st.permutations([xid(48), xid(79), xid(48, B), xid(95, B)]))
def test_the_order_of_ailments_is_stable(order: list[XidEvent]) -> None:
    """An inventory with the same ailments is equal, in whichever order they came."""
    seen = reading(*many_gpus(2))
    assert codes(after(History(), seen, *order), seen) == [
        *((A, code) for code in ("Xid48", "Xid79")),
        *((B, code) for code in ("Xid48", "Xid95")),
    ]


@pytest.mark.parametrize(
    ("reason", "code"),
    [("GPU_IS_LOST", "GpuIsLost"), ("UNKNOWN", "Unknown"), ("ERROR_999", "Error999")],
)
def test_reasons_become_codes(reason: str, code: str) -> None:
    """NVML's words in the form that ailments have."""
    assert code_of(reason) == code
