"""Hold placement against what real schedulers did with the same objects."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sim.scheduler.allocator import Allocator
from sim.scheduler.placement import Placed, place
from sim.scheduler.reasons import pending
from tests.cluster.vectors.answers import refused
from tests.sim.scheduler.vector import Json, Vector, read_all, with_stars


def _cases() -> Iterator[Any]:
    for vector in read_all():
        for release, answer in vector.recorded.items():
            if answer.get("refused") != "rejected":
                yield pytest.param(vector, release, id=f"{vector.name}-{release}")


CASES = tuple(_cases())


def answer_of(vector: Vector, release: str) -> Json:
    """Return what the simulated scheduler of *release* answers, in the form of a record."""
    allocator = Allocator(release, gates=vector.gates)
    found = place(vector.pod(), vector.view(), allocator)
    if isinstance(found, Placed):
        return {"node": found.node, "allocations": with_stars(found.allocations)}
    said = pending(found)
    return refused({"reason": said.reason, "message": said.message})


def agrees(answer: Json, recorded: Json) -> bool:
    """Tell whether *answer* is the recorded one; a node that was waited for is not known."""
    if "refused" in recorded:
        return bool(answer.get("refused") == recorded["refused"])
    node = recorded["node"] or answer.get("node")
    return answer == {"node": node, "allocations": recorded["allocations"]}


@pytest.mark.parametrize(("vector", "release"), CASES)
def test_answers_as_the_real_scheduler(vector: Vector, release: str) -> None:
    """Devices, consumed capacity, config and node are the recorded ones, or the refusal's kind."""
    recorded = vector.recorded[release]
    wanted = recorded.get("any_of", [recorded])
    answer = answer_of(vector, release)
    shown = json.dumps(wanted, indent=1)
    assert any(agrees(answer, each) for each in wanted), shown
