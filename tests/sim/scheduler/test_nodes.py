"""Node selectors and taints mean what they mean for Kubernetes' own scheduler."""

from typing import Any

import pytest

from sim.scheduler.nodes import Node, selects
from sim.scheduler.taints import tolerates, untolerated

NODE = Node(name="node-a", labels={"zone": "z1", "gpus": "8"})


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (_expression("zone", "In", "z0", "z1"), True),
        (_expression("zone", "In", "z0"), False),
        (_expression("rack", "In", "r1"), False),
        (_expression("zone", "NotIn", "z1"), False),
        (_expression("rack", "NotIn", "r1"), True),
        (_expression("zone", "Exists"), True),
        (_expression("rack", "Exists"), False),
        (_expression("rack", "DoesNotExist"), True),
        (_expression("zone", "DoesNotExist"), False),
        (_expression("gpus", "Gt", "7"), True),
        (_expression("gpus", "Gt", "8"), False),
        (_expression("gpus", "Lt", "9"), True),
        (_expression("zone", "Lt", "9"), False),
        (_expression("gpus", "Lt"), False),
        (_expression("zone", "Near", "z1"), False),
        ({}, False),
        (
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["node-a"]},
                ]
            },
            True,
        ),
        (
            {
                "matchFields": [
                    {"key": "metadata.uid", "operator": "In", "values": ["node-a"]},
                ]
            },
            False,
        ),
    ],
)
def test_term(term: dict[str, Any], *, expected: bool) -> None:
    """One term matches by labels and by the node's name."""
    assert selects({"nodeSelectorTerms": [term]}, NODE) is expected


def test_terms_are_alternatives() -> None:
    """One matching term of several is enough; without any nothing matches."""
    terms = [_expression("zone", "In", "z0"), _expression("zone", "In", "z1")]
    assert selects({"nodeSelectorTerms": terms}, NODE)
    assert not selects({"nodeSelectorTerms": []}, NODE)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_toleration(toleration: dict[str, str], *, expected: bool) -> None:
    """A toleration covers a taint by key, value and effect; what it leaves out matches all."""
    assert tolerates(toleration, {"key": "k", "value": "v", "effect": "NoSchedule"}) is expected


def test_every_taint_needs_a_toleration() -> None:
    """The first taint that blocks and is not tolerated is returned; advice never blocks."""
    taints = [
        {"key": "advice", "effect": "PreferNoSchedule"},
        {"key": "a", "effect": "NoSchedule"},
        {"key": "b", "effect": "NoExecute"},
    ]
    assert untolerated(taints, [{"key": "a", "operator": "Exists"}]) == taints[2]
    assert untolerated(taints[:2], [{"key": "a", "operator": "Exists"}]) is None
