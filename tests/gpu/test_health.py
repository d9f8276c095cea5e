"""What ails GPUs, and when that is over."""

import pytest

from gpu.health import History, code_of
from gpu.model import Ailment, GpuFault
from tests.dra.gpus import many_gpus
from tests.gpu.histories import A, B, after, codes, fault, reading, xid


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


@pytest.mark.parametrize(
    ("reason", "code"),
    [("GPU_IS_LOST", "GpuIsLost"), ("UNKNOWN", "Unknown"), ("ERROR_999", "Error999")],
)
def test_reasons_become_codes(reason: str, code: str) -> None:
    """NVML's words in the form that ailments have."""
    assert code_of(reason) == code
