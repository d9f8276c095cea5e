"""What real schedulers did with the recorded cases is what is explained."""

from collections.abc import Iterator
from typing import Any

import pytest

from kube.objects import key_of
from sim.explain.explainer import explain_pod
from sim.explain.rules import Rules
from sim.explain.snapshot import Snapshot
from tests.sim.scheduler.vector import Vector, read_all


def _cases() -> Iterator[Any]:
    for vector in read_all():
        for release, answer in vector.recorded.items():
            if answer.get("refused") != "rejected":
                yield pytest.param(vector, release, id=f"{vector.name}-{release}")


CASES = tuple(_cases())


def _snapshot(vector: Vector) -> Snapshot:
    view, pod = vector.view(), vector.pod()
    return Snapshot(
        nodes=view.nodes,
        pods={key_of(pod): pod},
        claims=view.claims,
        slices=view.slices,
        classes=view.classes,
        rules=view.rules,
    )


@pytest.mark.parametrize(("vector", "release"), CASES)
def test_the_verdict_is_that_of_the_real_scheduler(vector: Vector, release: str) -> None:
    """A pod fits where it was placed, on its node; a refused one has a reason."""
    recorded = vector.recorded[release]
    answers = recorded.get("any_of", [recorded])
    placed = ["refused" not in answer for answer in answers]
    rules = Rules(release=release, gates=vector.gates)
    said = explain_pod(_snapshot(vector), key_of(vector.pod()), rules=rules)
    assert (said.verdict == "fits") in placed
    if said.verdict == "fits":
        assert said.node in {answer["node"] or said.node for answer in answers}
        return
    assert said.verdict == "pending"
    devices = [reason for node in said.nodes for reason in node.devices]
    assert said.reasons or devices or all(it.refusal.value for it in said.nodes)
