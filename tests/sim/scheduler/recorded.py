"""Replay recorded cases on the simulated scheduler, or on one that was changed."""

from collections.abc import Iterator
from typing import Final

from sim.scheduler import allocator, placement, reasons
from tests.cluster.vectors.answers import placed, refused
from tests.sim.scheduler.mutation import Simulated
from tests.sim.scheduler.vector import Json, Vector, read_all

UNCHANGED: Final = Simulated(placement, allocator, reasons)


def answer_of(vector: Vector, release: str, simulated: Simulated = UNCHANGED) -> Json:
    """Return what the scheduler of *release* answers, in the form of a record."""
    made = simulated.allocator.Allocator(release, gates=vector.gates)
    found = simulated.placement.place(vector.pod(), vector.view(), made)
    if isinstance(found, simulated.placement.Placed):
        mappings = found.extended.mappings if found.extended else ()
        return placed(found.node, found.allocations, mappings)
    said = simulated.reasons.pending(found)
    return refused({"reason": said.reason, "message": said.message})


def agrees(answer: Json, recorded: Json) -> bool:
    """Tell whether *answer* is the recorded one; a node that was waited for is not known."""
    if "refused" in recorded:
        return bool(answer.get("refused") == recorded["refused"])
    said = {key: it for key, it in recorded.items() if key != "version"}
    return answer == {**said, "node": said["node"] or answer.get("node")}


def _cases() -> Iterator[tuple[Vector, str]]:
    for vector in read_all():
        for release, answer in vector.recorded.items():
            if answer.get("refused") != "rejected":
                yield vector, release


CASES: Final = tuple(_cases())
"""Each case with each release that took its objects."""
