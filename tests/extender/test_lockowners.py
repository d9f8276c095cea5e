"""When the pod in a node's lock counts for nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from extender.lockowners import Gone, Judge
from extender.parts import PodFacts
from hami.nodelock import NodeLock, Owner

_AT = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
_JUDGE = Judge(node="gpu1", bind_max=timedelta(seconds=35))


def _pod(node: str = "gpu1", phase: str = "Pending", bind_phase: str = "allocating") -> PodFacts:
    return PodFacts(
        namespace="ns", name="p", uid="u1", node=node, phase=phase, bind_phase=bind_phase
    )


@pytest.mark.parametrize(
    ("pod", "age_s", "taken_by", "expected"),
    [
        (_pod(), 299, "u1", None),
        (_pod(), 299, None, None),
        (_pod(), 1, "u0", Gone.REPLACED),
        (_pod(phase="Succeeded"), 0, None, Gone.OVER),
        (_pod(phase="Failed"), 0, None, Gone.OVER),
        (_pod(phase="Running"), 60, None, None),
        (_pod(node="gpu2"), 0, None, Gone.ELSEWHERE),
        (_pod(node=""), 30, None, None),
        (_pod(node=""), 36, None, Gone.UNBOUND),
        (_pod(bind_phase="success"), 1, None, None),
        (_pod(bind_phase="success"), 6, None, Gone.DONE),
        (_pod(bind_phase="failed"), 6, None, Gone.DONE),
    ],
)
def test_owners_are_respected_as_long_as_they_may_let_go(
    pod: PodFacts, age_s: int, taken_by: str | None, expected: Gone | None
) -> None:
    """A running pod whose devices are not handed out yet keeps it; one that is over does not."""
    lock = NodeLock(at=_AT, owner=Owner("ns", "p"))
    now = _AT + timedelta(seconds=age_s)
    assert _JUDGE.gone(lock, pod, now=now, taken_by=taken_by) is expected
