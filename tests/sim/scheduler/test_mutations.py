"""Break one rule of device allocation at a time: the recorded cases notice each."""

import pytest

from tests.sim.scheduler.mutation import Mutation, Simulated, load
from tests.sim.scheduler.mutations import MUTATIONS
from tests.sim.scheduler.recorded import CASES, agrees, answer_of
from tests.sim.scheduler.vector import Vector


def _notices(vector: Vector, release: str, simulated: Simulated) -> bool:
    recorded = vector.recorded[release]
    try:
        answer = answer_of(vector, release, simulated)
    except (AttributeError, KeyError):
        return True
    return not any(agrees(answer, each) for each in recorded.get("any_of", [recorded]))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_broken_rule_is_noticed(mutation: Mutation) -> None:
    """Some recorded case comes out otherwise."""
    simulated = load(mutation)
    assert any(_notices(vector, release, simulated) for vector, release in CASES)
