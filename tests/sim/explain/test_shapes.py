"""Objects that no API server gives out are left out by name, and never end the explanation."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from kube.objects import ObjectKey
from sim.explain.errors import ExplainError
from sim.explain.explainer import explain_pod
from tests.sim.explain.world import (
    NAMESPACE,
    POD,
    RULES,
    Json,
    asking,
    claim,
    device_class,
    explained,
    gpu,
    holding,
    node,
    pod,
    published,
    selecting,
    snapshot,
)

TAINT = {"key": "example.com/sick", "effect": "NoSchedule"}
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
NODE_SELECTOR = {"nodeSelectorTerms": [TERM]}
ODD: tuple[Any, ...] = (
    None,
    5,
    -1,
    1.5,
    "",
    "nonsense",
    True,
    [],
    {},
    [None],
    [5],
    {"a": 5},
    {"a": None},
)


def cluster() -> list[Json]:
    """Return objects that have every field which the rules read."""
    containers = [{"name": "main", "resources": {"limits": {"example.com/nic": "1"}}}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR}
    taken = holding("own", "a", "g1", capacity={"memory": "1Gi", "shares": "1"}, pods=("x",))
    taken["status"]["allocation"]["nodeSelector"] = NODE_SELECTOR
    counters = [{"counterSet": "slots", "counters": {"memory": {"value": "1Gi"}}}]
    sets = [{"name": "slots", "counters": {"memory": {"value": "9Gi"}}}]
    return [
        node("a", labels={"zone": "x"}, taints=[TAINT])
        | {"status": {"allocatable": {"example.com/nic": "2"}}},
        published("a", gpu("g0", taints=[TAINT]), gpu("g1", consumesCounters=counters)),
        published("b", gpu("g0"), sharedCounters=sets, nodeName=None, nodeSelector=NODE_SELECTOR),
        device_class("share"),
        claim(
            asking(capacity={"memory": "50Gi"}, selectors=selecting("true"), tolerations=[TAINT]),
            {"name": "any", "firstAvailable": [{"name": "one", "deviceClassName": "share"}]},
            constraints=[{"matchAttribute": "gpu.example.com/numa"}],
        ),
        taken,
        holding("other", "a", "g0", capacity={"memory": "9Gi", "shares": "1"}, pods=("x",)),
        pod(
            "want",
            "own",
            containers=containers,
            tolerations=[TAINT],
            nodeSelector={"zone": "x"},
            affinity={"nodeAffinity": affinity},
        ),
    ]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from _places(value[key], (*path, key))


PLACES = tuple(path for path in _places(cluster()) if len(path) > 1)


def _spoiled(path: tuple[Any, ...], odd: Any) -> list[Json]:
    """Return the cluster with something else at *path*, or nothing for `absent`."""
    items: Any = deepcopy(cluster())
    parent = items
    for key in path[:-1]:
        parent = parent[key]
    if odd == "absent":
        del parent[path[-1]]
    else:
        parent[path[-1]] = odd
    return list(items)


@pytest.mark.parametrize("odd", [*ODD, "absent"], ids=str)
def test_a_spoiled_object_ends_nothing(odd: Any) -> None:
    """Whatever stands in any place, there is an explanation or a sentence why there is none."""
    for path in PLACES:
        cut = snapshot(*_spoiled(path, odd))
        with suppress(ExplainError):
            assert explain_pod(cut, ObjectKey(NAMESPACE, POD), rules=RULES).message, path


def test_what_was_left_out_is_told() -> None:
    """A claim with an amount that is none holds nothing here, and it is said which one."""
    broken = holding("other", "a", "g0", capacity={"memory": "much"})
    said = explained(node("a"), published("a", gpu("g0")), broken, pod(), claim())
    assert said.verdict == "fits"
    (note,) = said.notes
    assert note.startswith("ResourceClaim other is left out: status.allocation.devices.results.0")
    assert "`much` is no quantity" in note


@pytest.mark.parametrize("field", ["namespace", "uid"])
def test_manifests_are_taken_for_objects(field: str) -> None:
    """What has not been at a server lies in the default namespace and has an identity."""
    items = [pod(), claim(asking(capacity={"memory": "1Gi"}))]
    for item in items:
        del item["metadata"][field]
    assert explained(node("a"), published("a", gpu("g0")), *items).verdict == "fits"
