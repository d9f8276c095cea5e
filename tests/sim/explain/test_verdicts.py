"""The verdict is the scheduler's own, and a change that is told makes the pod fit."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.objects import ObjectKey
from sim.explain.explainer import explain_pod
from sim.explain.model import Change
from sim.explain.snapshot import snapshot_of
from sim.scheduler.allocator import Allocator
from sim.scheduler.placement import Placed, place
from tests.sim.explain.world import (
    CLAIM,
    DRIVER,
    NAMESPACE,
    POD,
    RULES,
    Json,
    asking,
    claim,
    device_class,
    gpu,
    holding,
    node,
    pod,
    published,
    selecting,
    whole,
)

TAINT = {"key": "example.com/sick", "effect": "NoSchedule"}
MODEL = f'device.attributes["{DRIVER}"].model == "a10"'
WRONG = f'device.attributes["{DRIVER}"].size == 3'
KEY = ObjectKey(NAMESPACE, POD)


def _device(*, shared: bool, memory_gib: int, sick: bool, numa: int) -> Json:
    rest: Json = {
        "taints": [TAINT] if sick else [],
        "attributes": {"model": {"string": "a10"}, "numa": {"int": numa}},
    }
    return gpu("", memory=f"{memory_gib}Gi", **rest) if shared else whole("", **rest)


def _request(*, memory_gib: int, count: int, every: bool, selector: str, of: str) -> Json:
    rest: Json = {"allocationMode": "All"} if every else {"count": count}
    if selector:
        rest["selectors"] = selecting(selector)
    capacity = {"memory": f"{memory_gib}Gi"} if memory_gib else None
    return asking(of=of, capacity=capacity, **rest)


devices = st.builds(
    _device,
    shared=st.booleans(),
    memory_gib=st.sampled_from([8, 16, 40]),
    sick=st.booleans(),
    numa=st.integers(0, 1),
)
requests = st.builds(
    _request,
    memory_gib=st.sampled_from([0, 1, 6, 20, 50]),
    count=st.integers(1, 3),
    every=st.sampled_from([False, False, False, True]),
    selector=st.sampled_from(["", "", MODEL, WRONG, "false"]),
    of=st.sampled_from(["share", "share", "share", "shares"]),
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    """Make a cluster with a pod that has one claim of one or two requests."""
    items = [device_class("share")]
    for number in range(draw(st.integers(0, 3))):
        name = f"n{number}"
        items.append(node(name, unschedulable=draw(st.sampled_from([False, False, True]))))
        made = [
            {**device, "name": f"g{index}"}
            for index, device in enumerate(draw(st.lists(devices, max_size=3)))
        ]
        incomplete = draw(st.sampled_from([1, 1, 1, 2]))
        if made:
            items.append(published(name, *made, pool={"resourceSliceCount": incomplete}))
        items += [it for device in made for it in _holders(draw, name, device)]
    wanted = draw(st.lists(requests, min_size=1, max_size=2))
    constraints: list[Any] = (
        [{"matchAttribute": f"{DRIVER}/numa"}] if draw(st.sampled_from([False, True])) else []
    )
    named = [{**request, "name": f"r{index}"} for index, request in enumerate(wanted)]
    return [*items, claim(*named, constraints=constraints), pod()]


def _holders(draw: st.DrawFn, name: str, device: Json) -> list[Json]:
    shared = device.get("allowMultipleAllocations")
    taken = draw(st.sampled_from([0, 0, 5, 7]))
    if not taken:
        return []
    amounts = {"memory": f"{taken}Gi", "cores": "0", "shares": "1"} if shared else None
    users = draw(st.sampled_from([(), ("x",)]))
    who = f"holder-{name}-{device['name']}"
    return [holding(who, name, device["name"], capacity=amounts, pods=users)]


def _placed(items: list[Json]) -> bool:
    view = snapshot_of(items).view()
    return isinstance(place(view.pods[KEY], view, Allocator("1.37")), Placed)


def _applied(change: Change, items: list[Json]) -> list[Json] | None:
    """Do by hand what *change* says; nothing for the kinds that other tests look at."""
    after = deepcopy(items)
    bodies = {item["metadata"]["name"]: item for item in after}
    edit = EDITS.get(change.code)
    if edit is None:
        return None
    edit(bodies, change)
    return after


def _changed(bodies: dict[str, Json], change: Change) -> Json:
    name = change.field.partition("requests[")[2].partition("]")[0]
    requests_now = bodies[CLAIM]["spec"]["devices"]["requests"]
    found: Json = next(it for it in requests_now if it["name"] == name)["exactly"]
    return found


def _lower(bodies: dict[str, Json], change: Change) -> None:
    request = _changed(bodies, change)
    amounts = dict(part.split(" ") for part in change.after.split(", "))
    asked = request.setdefault("capacity", {"requests": {}})["requests"]
    asked.update(amounts)


def _count(bodies: dict[str, Json], change: Change) -> None:
    _changed(bodies, change).update({"count": int(change.after), "allocationMode": "ExactCount"})


def _class(bodies: dict[str, Json], change: Change) -> None:
    _changed(bodies, change)["deviceClassName"] = change.after


def _selectors(bodies: dict[str, Json], change: Change) -> None:
    request = _changed(bodies, change)
    kept = [it for it in request["selectors"] if it["cel"]["expression"] != change.before]
    request["selectors"] = kept


def _tolerate(bodies: dict[str, Json], change: Change) -> None:
    _changed(bodies, change)["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]


def _constraints(bodies: dict[str, Json], _change: Change) -> None:
    del bodies[CLAIM]["spec"]["devices"]["constraints"]


def _free(bodies: dict[str, Json], change: Change) -> None:
    name = change.field.partition(":")[0].partition("/")[2]
    del bodies[name]["status"]["allocation"]


def _uncordon(bodies: dict[str, Json], change: Change) -> None:
    del bodies[change.node]["spec"]["unschedulable"]


EDITS: dict[str, Callable[[dict[str, Json], Change], None]] = {
    "LowerCapacity": _lower,
    "LowerCapacities": _lower,
    "LowerCount": _count,
    "OtherClass": _class,
    "DropSelector": _selectors,
    "DropConstraint": _constraints,
    "TolerateDeviceTaint": _tolerate,
    "WaitForClaim": _free,
    "DeleteUnusedClaim": _free,
    "Uncordon": _uncordon,
}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_the_verdict_is_the_schedulers(items: list[Json]) -> None:
    """A pod fits exactly when it is placed, on the same node; else there is a reason."""
    snapshot = snapshot_of(items)
    found = place(snapshot.pods[KEY], snapshot.view(), Allocator("1.37"))
    said = explain_pod(snapshot, KEY, rules=RULES)
    if isinstance(found, Placed):
        assert (said.verdict, said.node) == ("fits", found.node)
        return
    assert said.verdict == "pending"
    assert said.reasons or len(said.nodes) == len(snapshot.nodes)
    assert all(it.refusal.code != "CannotAllocate" or it.devices for it in said.nodes)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_a_change_that_is_told_helps(items: list[Json]) -> None:
    """Done by hand as its fields say, each change makes the pod fit."""
    for change in explain_pod(snapshot_of(items), KEY, rules=RULES).changes:
        after = _applied(change, items)
        if after is not None:
            assert _placed(after), change
