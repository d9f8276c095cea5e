"""Break one rule of device allocation at a time: recorded cases notice each."""

import pytest

from tests.sim.scheduler.mutation import Mutation, Simulated, load, read_mutations
from tests.sim.scheduler.recorded import agrees, answer_of
from tests.sim.scheduler.vector import Vector, read_all

MUTATIONS = read_mutations()


def _notices(vector: Vector, release: str, simulated: Simulated) -> bool:
    recorded = vector.recorded[release]
    try:
        answer = answer_of(vector, release, simulated)
    except (AttributeError, KeyError):
        # What the rule keeps out is not to be had.
        return True
    return not any(agrees(answer, each) for each in recorded.get("any_of", [recorded]))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_broken_rule_is_noticed(mutation: Mutation) -> None:
    """The case that shows the rule comes out otherwise for some release."""
    (vector,) = read_all([mutation.shown_by])
    simulated = load(mutation)
    assert any(_notices(vector, release, simulated) for release in vector.recorded)


def test_an_unbroken_scheduler_is_not() -> None:
    """Loaded in the same way with nothing broken, all those cases come out as recorded."""
    nothing = Mutation(
        rule="none", shown_by="", module="search", old="CALLS_MAX = ", new="CALLS_MAX = 0 + "
    )
    simulated = load(nothing)
    vectors = read_all(sorted({mutation.shown_by for mutation in MUTATIONS}))
    for vector in vectors:
        assert not any(_notices(vector, release, simulated) for release in vector.recorded)
