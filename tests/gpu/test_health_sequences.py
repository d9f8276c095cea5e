"""What holds for the health of GPUs after any sequence of XIDs, advice and absences."""

from hypothesis import given
from hypothesis import strategies as st

from gpu.health import History, Sighting, XidEvent, is_over
from tests.dra.gpus import many_gpus
from tests.gpu.histories import RECOVERY_S, A, B, after, codes, fault, reading, xid

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
