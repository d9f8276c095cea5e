"""Hold placement against what real schedulers did with the same objects."""

import json

import pytest

from tests.sim.scheduler.recorded import CASES, agrees, answer_of
from tests.sim.scheduler.vector import Vector


@pytest.mark.parametrize(
    ("vector", "release"), [pytest.param(*it, id=f"{it[0].name}-{it[1]}") for it in CASES]
)
def test_answers_as_the_real_scheduler(vector: Vector, release: str) -> None:
    """Devices, consumed capacity, config and node are the recorded ones, or the refusal's kind."""
    recorded = vector.recorded[release]
    wanted = recorded.get("any_of", [recorded])
    answer = answer_of(vector, release)
    shown = json.dumps(wanted, indent=1)
    assert any(agrees(answer, each) for each in wanted), shown
