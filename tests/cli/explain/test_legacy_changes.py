"""The smallest change for a pod of HAMi's path: which one is told, and that it is enough."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.explain.legacycase import cluster_of
from extender.choosing import NodeChooser
from extender.model import Policies
from extender.parts import Chosen, Unfit
from extender.wire import Names
from sim.explain.model import Change, Verdict
from sim.explain.nodereasons import CANNOT_ALLOCATE
from tests.cli.explain.legacyworld import (
    NOW,
    NVIDIA_ONLY,
    USE_TYPE,
    legacy,
    material,
    node,
    running,
    want,
)
from tests.extender.statemachine import container, gpu
from tests.sim.explain.world import Json

CORES, MEMORY = "nvidia.com/gpucores", "nvidia.com/gpumem"
TAINT = {"key": "reserved", "effect": "NoSchedule"}


def changes(*items: Json) -> list[tuple[str, str, str]]:
    """Return code, new value and node of what is told."""
    return [(each.code, each.after, each.node) for each in legacy(*items).changes]


@pytest.mark.parametrize(
    ("limits", "held", "expected"),
    [
        ({"gpumem": 1000, "gpucores": 60}, ["GPU-a,1000,55"], ("LowerCores", "45")),
        ({"gpumem": 9000}, ["GPU-a,10000,0"], ("LowerMemory", "6384")),
        ({"gpumem_percentage": 60}, ["GPU-a,10000,0"], ("LowerMemory", "38")),
        ({}, ["GPU-a,10000,0"], ("LowerMemory", "6384")),
        ({"gpumem": 10**6}, ["GPU-a,10000,0"], ("LowerMemory", "6384")),
        ({"gpumem": 9000, "gpucores": 60}, ["GPU-a,10000,55"], ("LowerAmounts", "6384, 45")),
    ],
)
def test_a_request_is_lowered_to_the_most_that_fits(
    limits: dict[str, int], held: list[str], expected: tuple[str, str]
) -> None:
    """Amounts are those of the node with the most room, to the unit."""
    holders = [running(f"p{number}", "a", text) for number, text in enumerate(held)]
    fuller = running("fuller", "b", "GPU-b,16000,99")
    items = node("b", gpu("GPU-b")), node("a", gpu("GPU-a")), fuller, *holders
    first = changes(*items, want(container("main", gpu=1, **limits)))[0]
    assert first == (*expected, "a")


def test_an_amount_that_is_not_written_is_added() -> None:
    """A pod that names no memory asks for all of it, so that a part has to be named."""
    (change, *_) = legacy(
        node("a", gpu("GPU-a")), running("one", "a", "GPU-a,10000,0"), want(container(gpu=1))
    ).changes
    assert (change.before, change.after) == ("", "6384")
    assert change.sentence == f"container main asks for {MEMORY} 6384"


def test_fewer_devices_may_be_enough() -> None:
    """Where a node lacks devices and memory would have to be nothing, their number is lowered."""
    items = node("a", gpu("GPU-a"), gpu("GPU-b")), want(container(gpu=4, gpumem=100))
    assert changes(*items) == [("LowerCount", "2", "a")]


def test_what_another_pod_has_would_be_enough() -> None:
    """Of the pods whose end is enough the one that holds least is told."""
    items = [
        node("a", gpu("GPU-a", count=1)),
        node("b", gpu("GPU-b", count=1)),
        running("large", "a", "GPU-a,9000,0"),
        running("small", "b", "GPU-b,500,10"),
        want(container(gpu=1, gpumem=100)),
    ]
    (change,) = legacy(*items).changes
    assert (change.code, change.field) == ("WaitForPod", "pod/team/small")
    assert change.sentence == "pod team/small ends, which holds 500 MiB 10 cores of node b"


def test_an_annotation_may_be_in_the_way() -> None:
    """The one that keeps the devices away is named with its text."""
    items = node("a", gpu("GPU-a")), want(container(gpu=1), notes={USE_TYPE: "H100"})
    (change,) = legacy(*items).changes
    assert (change.code, change.before) == ("DropAnnotation", "H100")
    assert change.field == f"metadata.annotations[{USE_TYPE}]"


@pytest.mark.parametrize(
    ("spec", "code", "sentence"),
    [
        ({"unschedulable": True}, "Uncordon", "node a is uncordoned"),
        (
            {"taints": [TAINT]},
            "TolerateNodeTaint",
            "the pod tolerates the node taint reserved:NoSchedule",
        ),
    ],
)
def test_a_node_may_be_opened(spec: Json, code: str, sentence: str) -> None:
    """A node with room that the pod may not use is told with what keeps the pod from it."""
    (change,) = legacy(node("a", gpu("GPU-a"), spec=spec), want(container(gpu=1))).changes
    assert (change.code, change.sentence) == (code, sentence)


def test_two_obstacles_of_a_node_are_not_one_change() -> None:
    """A cordoned node with a taint is not opened by either change alone."""
    spec = {"unschedulable": True, "taints": [TAINT]}
    assert changes(node("a", gpu("GPU-a"), spec=spec), want(container(gpu=1))) == []


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    """Return a few nodes with GPUs, pods on these, and a pod that asks for much."""
    items: list[Json] = []
    for name in draw(st.sampled_from(["a", "ab", "abc"])):
        size = st.sampled_from([8000, 16000])
        gpus = [
            gpu(f"GPU-{name}{index}", devmem=draw(size), count=draw(st.integers(1, 3)))
            for index in range(draw(st.integers(0, 3)))
        ]
        items.append(node(name, *gpus))
        for index, each in enumerate(gpus):
            if draw(st.booleans()):
                held = f"{each['id']},{draw(st.integers(1, 8000))},{draw(st.integers(0, 100))}"
                items.append(running(f"p{name}{index}", name, held))
    amounts = st.integers(1, 20000)
    limits = {"gpu": draw(st.integers(1, 3)), "gpumem": draw(amounts)}
    if draw(st.booleans()):
        limits["gpucores"] = draw(st.integers(1, 100))
    wants = want(container("main", **limits))
    wants["metadata"]["annotations"] = draw(st.sampled_from([{}, {USE_TYPE: "A10"}]))
    return [*items, wants]


@given(clusters())
def test_the_verdict_is_the_extenders(items: list[Json]) -> None:
    """The same node is chosen, or the same text is said of each node that refuses."""
    said = legacy(*items)
    cluster = material(items)
    state = cluster_of(cluster.snapshot, (), NVIDIA_ONLY, NOW)
    names = [item["metadata"]["name"] for item in items if item["kind"] == "Node"]
    answer = NodeChooser(state, Policies()).choose(items[-1], Names.of(names))
    if said.verdict is Verdict.FITS:
        assert isinstance(answer, Chosen)
        assert answer.node == said.node
        return
    assert isinstance(answer, Unfit)
    told = {it.node: it.refusal for it in said.nodes}
    assert answer.failed.keys() == told.keys()
    for name, refusal in told.items():
        if refusal.code == CANNOT_ALLOCATE:
            assert answer.failed[name] == refusal.value
        elif refusal.code != "NodeUnregistered":
            assert answer.failed[name] == refusal.code


@given(clusters())
def test_each_change_is_enough_and_the_most(items: list[Json]) -> None:
    """Made as it is told, a change makes the pod fit; of an amount one more does not."""
    for change in legacy(*items).changes:
        assert legacy(*_made(items, change)).verdict is Verdict.FITS
        if change.code in {"LowerCores", "LowerMemory", "LowerCount"}:
            less = Change(**{**_plain(change), "after": str(int(change.after) + 1)})
            assert legacy(*_made(items, less)).verdict is Verdict.PENDING


def _plain(change: Change) -> dict[str, str]:
    names = ("code", "field", "before", "after", "sentence", "node")
    return {name: getattr(change, name) for name in names}


def _made(items: list[Json], change: Change) -> list[Json]:
    found = deepcopy(items)
    pod = found[-1]
    limits: Json = pod["spec"]["containers"][0]["resources"]["limits"]
    match change.code:
        case "LowerCores" | "LowerMemory" | "LowerCount":
            limits[change.field.rpartition("[")[2].rstrip("]")] = change.after
        case "LowerAmounts":
            limits[MEMORY], limits[CORES] = change.after.split(", ")
        case "DropAnnotation":
            pod["metadata"]["annotations"] = {}
        case "WaitForPod":
            name = change.field.rpartition("/")[2]
            found = [item for item in found if item["metadata"]["name"] != name]
        case other:
            pytest.fail(f"{other} is not made")
    return found
