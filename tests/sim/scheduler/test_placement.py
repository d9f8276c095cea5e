"""The node of a pod follows from its claims and from how alternatives are ordered."""

from typing import Any

import pytest

from kube.objects import ObjectKey, key_of
from sim.scheduler.allocator import Allocator
from sim.scheduler.placement import Placed, View, place
from sim.scheduler.podclaims import RESERVED_MAX, WaitingError, claims_of
from sim.scheduler.reasons import explain, pending_of

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def _node(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec}


def _slice(node: str, memory: str, gpus: int = 1, **attributes: Json) -> Json:
    device = {
        "allowMultipleAllocations": True,
        "attributes": attributes,
        "capacity": {
            "memory": {
                "value": memory,
                "requestPolicy": {
                    "default": memory,
                    "validRange": {"min": "1Mi", "step": "1Mi"},
                },
            }
        },
    }
    return {
        "metadata": {"name": f"{node}-slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": f"gpu-{index}", **device} for index in range(gpus)],
        },
    }


def _claim(name: str, **request: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", **request}]}},
    }


def _exactly(memory: str) -> Json:
    asked = {"requests": {"memory": memory}}
    return {"exactly": {"deviceClassName": "gpu", "capacity": asked}}


def _sub(name: str, expression: str, memory: str) -> Json:
    return {
        "name": name,
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": expression}}],
        "capacity": {"requests": {"memory": memory}},
    }


def _pod(*claims: str, **spec: Any) -> Json:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod"},
        "spec": {"containers": [], "resourceClaims": entries, **spec},
    }


def _view(nodes: list[Json], slices: list[Json], claims: list[Json]) -> View:
    return View(
        nodes=tuple(nodes),
        pods={},
        claims={key_of(claim): claim for claim in claims},
        slices=tuple(slices),
        classes={"gpu": {"spec": {}}},
    )


def _placed_one_by_one(nodes: list[Json], slices: list[Json], claims: list[Json]) -> list[str]:
    """Place one pod per claim and return the nodes; `` for a pod that stays pending."""
    allocator = Allocator("1.36")
    live: list[Json] = []
    chosen = []
    for claim in claims:
        found = place(
            _pod(claim["metadata"]["name"]), _view(nodes, slices, [*live, claim]), allocator
        )
        chosen.append(found.node if isinstance(found, Placed) else "")
        if isinstance(found, Placed):
            live.append({**claim, "status": {"allocation": found.allocations[0]}})
    return chosen


def test_half_of_any_card() -> None:
    """Half a card as two alternatives fills the small cards first and then the large ones."""
    memory = f'device.capacity["{DRIVER}"].memory.compareTo(quantity'
    subs = [
        _sub("small", f'{memory}("40Gi")) == 0', "20Gi"),
        _sub("large", f'{memory}("80Gi")) == 0', "40Gi"),
    ]
    claims = [_claim(f"c{index}", firstAvailable=subs) for index in range(5)]
    nodes, slices = [_node("a"), _node("b")], [_slice("a", "80Gi"), _slice("b", "40Gi")]
    assert _placed_one_by_one(nodes, slices, claims) == ["b", "b", "a", "a", ""]


def test_rank_of_alternatives_packs_nodes() -> None:
    """A first alternative for nodes in use draws all claims to that node."""
    level = f'device.attributes["{DRIVER}"].fillLevel'
    subs = [_sub("used", f"{level} > 0", "1Gi"), _sub("any", "true", "1Gi")]
    claims = [_claim(f"c{index}", firstAvailable=subs) for index in range(6)]
    nodes = [_node(name) for name in "abc"]
    slices = [_slice(name, "40Gi", fillLevel={"int": int(name == "b")}) for name in "abc"]
    assert _placed_one_by_one(nodes, slices, claims) == ["b"] * 6


def test_model_is_a_soft_wish() -> None:
    """A first alternative for one model takes it while there is room, then any other."""
    model = f'device.attributes["{DRIVER}"].productName.lowerAscii().contains("t4")'
    subs = [_sub("t4", model, "8Gi"), _sub("any", "true", "8Gi")]
    claims = [_claim(f"c{index}", firstAvailable=subs) for index in range(3)]
    slices = [
        _slice("a", "80Gi", productName={"string": "NVIDIA A100"}),
        _slice("z", "16Gi", productName={"string": "Tesla T4"}),
    ]
    assert _placed_one_by_one([_node("a"), _node("z")], slices, claims) == ["z", "z", "a"]


def test_equal_nodes_go_by_name() -> None:
    """Of nodes that serve a claim equally well the first by name is taken."""
    nodes, slices = [_node("b"), _node("a")], [_slice("b", "1Gi"), _slice("a", "1Gi")]
    claims = [_claim("c0", **_exactly("1Gi")), _claim("c1", **_exactly("1Gi"))]
    assert _placed_one_by_one(nodes, slices, claims) == ["a", "b"]


def test_shared_claim_keeps_its_node() -> None:
    """A claim that is allocated draws its next pod to the node of its devices."""
    selector = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
        ]
    }
    allocation = {"devices": {"results": []}, "nodeSelector": selector}
    claim = {**_claim("c", **_exactly("1Gi")), "status": {"allocation": allocation}}
    nodes = [_node("a"), _node("b")]
    found = place(_pod("c"), _view(nodes, [], [claim]), Allocator("1.36"))
    assert isinstance(found, Placed)
    assert (found.node, found.allocations) == ("b", ())


@pytest.mark.parametrize(
    ("node", "pod", "reason"),
    [
        ({"unschedulable": True}, {}, "unschedulable"),
        ({"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}, {}, "k=v:NoExecute"),
        ({}, {"nodeSelector": {"zone": "x"}}, "affinity/selector"),
        (
            {},
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
                            ]
                        }
                    }
                }
            },
            "affinity/selector",
        ),
        (
            {},
            {"containers": [{"resources": {"limits": {"nvidia.com/gpumem": "100"}}}]},
            "Insufficient nvidia.com/gpumem",
        ),
    ],
)
def test_unfit_node_is_named(node: Json, pod: Json, reason: str) -> None:
    """What keeps a pod from a node beside devices stands in its condition."""
    why = pending_of(_pod(**pod), _view([_node("a", **node)], [], []), Allocator("1.36"))
    assert why is not None
    assert why.message.startswith("0/1 nodes are available: 1 ")
    assert reason in why.message


def test_tolerated_node_is_used() -> None:
    """Taints and cordons that a pod tolerates do not keep it away."""
    node = _node("a", unschedulable=True, taints=[{"key": "k", "effect": "NoSchedule"}])
    pod = _pod(tolerations=[{"operator": "Exists"}])
    assert isinstance(place(pod, _view([node], [], []), Allocator("1.36")), Placed)


def test_message_names_what_is_short() -> None:
    """The condition says per request what was asked, what is free, and on how many devices."""
    nodes, slices = [_node("a"), _node("b")], [_slice("a", "40Gi", 2), _slice("b", "24Gi")]
    view = _view(nodes, slices, [_claim("c", **_exactly("50Gi"))])
    why = pending_of(_pod("c"), view, Allocator("1.36"))
    assert why is not None
    assert why.reason == "Unschedulable"
    assert why.message == (
        "0/2 nodes are available: 2 cannot allocate all claims. claim c request gpu: "
        "MemoryInsufficient on 3 devices (asked 50Gi, free 40Gi of 40Gi)."
    )


def test_explain_tells_every_device() -> None:
    """Each device of each node has the first rule that refused it."""
    nodes, slices = [_node("a"), _node("b")], [_slice("a", "40Gi", 2), _slice("b", "24Gi")]
    view = _view(nodes, slices, [_claim("c", **_exactly("50Gi"))])
    told = explain(_pod("c"), view, profile="1.36")
    assert [(it.node, it.device and it.device.device, str(it.refused)) for it in told] == [
        ("a", "gpu-0", "asked 50Gi, free 40Gi of 40Gi"),
        ("a", "gpu-1", "asked 50Gi, free 40Gi of 40Gi"),
        ("b", "gpu-0", "asked 50Gi, free 24Gi of 24Gi"),
    ]
    assert explain(_pod(), view, profile="1.36") == []


def test_fatal_error_names_its_code() -> None:
    """A claim that no node can ever serve says why, whatever the nodes offer."""
    view = _view([_node("a")], [], [_claim("c", exactly={"deviceClassName": "nothing"})])
    why = pending_of(_pod("c"), view, Allocator("1.36"))
    assert why is not None
    assert why.message.startswith("ClassMissing: request gpu")


def test_cluster_without_nodes_says_so() -> None:
    """Without any node the condition says that there is none."""
    why = pending_of(_pod(), _view([], [], []), Allocator("1.36"))
    assert why is not None
    assert "no nodes" in why.message


def _generated(claim: str | None) -> Json:
    pod = _pod()
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    if claim is not None:
        entry = {"name": "gpu", "resourceClaimName": claim} if claim else {"name": "gpu"}
        pod["status"] = {"resourceClaimStatuses": [entry]}
    return pod


def _owned(by: str, **status: Any) -> dict[ObjectKey, Json]:
    claim = _claim("made", **_exactly("1Gi"))
    claim["metadata"]["ownerReferences"] = [{"uid": by}]
    return {key_of(claim): {**claim, "status": status}}


@pytest.mark.parametrize(
    ("pod", "claims", "said"),
    [
        (_pod("c"), {}, '"c" not found'),
        (_generated(None), {}, 'not yet made from template "t"'),
        (_generated("made"), {}, '"made" not found'),
        (_generated("made"), _owned("another"), "was not made for this pod"),
        (
            _generated("made"),
            _owned("pod", reservedFor=[{"uid": str(index)} for index in range(RESERVED_MAX)]),
            "in use by 256 pods",
        ),
    ],
)
def test_claim_is_waited_for(pod: Json, claims: dict[ObjectKey, Json], said: str) -> None:
    """A pod whose claim is not there says which one it waits for."""
    with pytest.raises(WaitingError, match=said):
        claims_of(pod, claims)


def test_claim_that_goes_away_is_waited_for() -> None:
    """A claim that is being deleted is not given to another pod."""
    claim = _claim("c", **_exactly("1Gi"))
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(WaitingError, match="being deleted"):
        claims_of(_pod("c"), {key_of(claim): claim})


def test_generated_claim_is_found() -> None:
    """A claim made from a template is found by its note in the pod's status."""
    found = claims_of(_generated("made"), _owned("pod"))
    assert [claim["metadata"]["name"] for claim in found.pending] == ["made"]


def test_template_that_gives_no_claim_needs_none() -> None:
    """A note without a name means that the pod runs without that claim."""
    assert claims_of(_generated(""), {}).pending == ()
