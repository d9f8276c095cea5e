"""Pods and claims that wait for something else than a device, or for nothing."""

from typing import Any

import pytest

from tests.sim.explain.world import (
    CLAIM,
    NAMESPACE,
    SHARED,
    Json,
    asking,
    change_codes,
    claim,
    device_class,
    explained,
    gpu,
    holding,
    node,
    node_codes,
    pod,
    published,
    selecting,
)

TAINT = {"key": "example.com/own", "value": "me", "effect": "NoSchedule"}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "small", "namespace": NAMESPACE},
    "spec": {"spec": {"devices": {"requests": [asking()]}}},
}
GENERATED = [{"name": "gpu", "resourceClaimTemplateName": "small"}]
ADMIN = claim(asking(adminAccess=True))


def _labelled(**labels: str) -> Json:
    metadata = {"name": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _there(name: str = "a", *, labels: dict[str, str] | None = None, **spec: Any) -> list[Json]:
    return [node(name, labels=labels, **spec), published(name, gpu("g0"))]


def test_what_fits_is_said_with_its_devices() -> None:
    """A pod that could be placed has a node, and its claim the device that it would get."""
    said = explained(*_there(), pod(), claim(asking(capacity={"memory": "1Gi"})))
    assert (said.verdict, said.node) == ("fits", "a")
    (given,) = said.given
    assert (given.device, given.consumed["memory"]) == ("g0", "1Gi")
    assert (said.reasons, said.nodes, said.changes) == ((), (), ())


@pytest.mark.parametrize(
    ("items", "code", "value"),
    [
        ([pod()], "ClaimMissing", "want"),
        ([pod(resourceClaims=GENERATED)], "TemplateMissing", "small"),
        (
            [
                {**pod(resourceClaims=GENERATED)}
                | {
                    "status": {
                        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": CLAIM}]
                    }
                },
                claim(ownerReferences=[{"uid": "another"}]),
            ],
            "ClaimNotForPod",
            "want",
        ),
        ([pod(), claim(deletionTimestamp="2026-01-01T00:00:00Z")], "ClaimBeingDeleted", "want"),
        (
            [
                pod(),
                holding(CLAIM, "a", "g0", pods=tuple(f"p{number}" for number in range(256))),
            ],
            "ClaimReservedFull",
            "want",
        ),
    ],
)
def test_a_pod_whose_claims_are_not_there_waits_for_them(
    items: list[Json], code: str, value: str
) -> None:
    """No node is looked at, and what is missing is named with what to do first."""
    said = explained(*_there(), *items)
    refusal = said.reasons[0]
    assert (said.verdict, refusal.code, refusal.value) == ("pending", code, value)
    assert refusal.remedy
    assert (said.nodes, said.changes) == ((), ())


GATED = {"schedulingGates": [{"name": "example.com/later"}]}


@pytest.mark.parametrize(
    ("items", "codes"),
    [
        ([pod(resourceClaims=GENERATED), TEMPLATE], ["ClaimNotGenerated"]),
        ([pod(**GATED), claim()], ["SchedulingGated"]),
        (
            [pod(resourceClaims=GENERATED, **GATED), TEMPLATE],
            ["SchedulingGated", "ClaimNotGenerated"],
        ),
    ],
)
def test_a_pod_that_waits_for_what_passes_is_told_what_comes_then(
    items: list[Json], codes: list[str]
) -> None:
    """A claim that a controller makes, or a gate, does not hide where the pod would go."""
    said = explained(*_there(), *items)
    assert (said.verdict, [it.code for it in said.reasons]) == ("pending", codes)
    assert said.message == "pod default/trainer is pending, and then fits on node a"
    assert [it.device for it in said.given] == ["g0"]
    full = explained(*_there(unschedulable=True), *items)
    assert [it.code for it in full.reasons] == codes
    assert (node_codes(full), change_codes(full)) == ({"a": "NodeUnschedulable"}, ["Uncordon"])


@pytest.mark.parametrize(
    ("items", "code", "change"),
    [
        (_there(unschedulable=True), "NodeUnschedulable", "Uncordon"),
        (_there(taints=[TAINT]), "NodeTaintNotTolerated", "TolerateNodeTaint"),
    ],
)
def test_a_node_that_takes_no_pods_is_told(items: list[Json], code: str, change: str) -> None:
    """The node's code stands with the change that opens it."""
    said = explained(*items, pod(), claim())
    assert node_codes(said) == {"a": code}
    assert change_codes(said) == [change]


def test_a_node_selector_in_the_way_is_told_by_its_label() -> None:
    """Of two labels only the one that no node has is proposed to go."""
    said = explained(
        *_there(labels={"zone": "x"}), pod(nodeSelector={"zone": "x", "disk": "fast"}), claim()
    )
    assert node_codes(said) == {"a": "NodeNotChosen"}
    assert [(it.code, it.before) for it in said.changes] == [("DropNodeSelector", "disk=fast")]


def test_node_affinity_in_the_way_is_told() -> None:
    """A required affinity is proposed to go where it keeps the pod from its device."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    said = explained(*_there(), pod(affinity={"nodeAffinity": rule}), claim())
    assert change_codes(said) == ["DropNodeAffinity"]


def test_an_extended_resource_that_is_used_up_is_told() -> None:
    """What a device plugin offers is counted beside the devices of claims."""
    containers = [{"name": "main", "resources": {"limits": {"example.com/nic": "1"}}}]
    said = explained(*_there(), pod(containers=containers), claim())
    (told,) = said.nodes
    assert (told.refusal.code, told.refusal.value) == (
        "NodeResourceInsufficient",
        "example.com/nic",
    )


def test_a_claim_that_is_allocated_elsewhere_keeps_its_pod_there() -> None:
    """A pod with an allocated claim and a selector for another node fits nowhere."""
    taken = holding(CLAIM, "b", "g0", pods=("other",))
    fields = [{"key": "metadata.name", "operator": "In", "values": ["b"]}]
    taken["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    said = explained(
        *_there("a", labels={"zone": "x"}), *_there("b"), pod(nodeSelector={"zone": "x"}), taken
    )
    assert node_codes(said) == {"a": "ClaimElsewhere", "b": "NodeNotChosen"}
    assert said.nodes[0].refusal.value == "default/want is allocated for b"
    assert change_codes(said) == ["DropNodeSelector", "ReleaseClaim"]


def test_a_class_that_is_not_there_is_told_with_its_likes() -> None:
    """A slip of the pen gets the class that was meant, tried before it is told."""
    said = explained(*_there(), pod(), claim(asking(of="shares")))
    (refusal,) = said.reasons
    assert (refusal.code, refusal.value) == ("ClassMissing", "shares")
    assert refusal.field == "spec.devices.requests[gpu].exactly.deviceClassName"
    assert refusal.limit == "there is no such device class; there are share"
    assert [(it.code, it.after) for it in said.changes] == [("OtherClass", "share")]


def test_a_selector_without_an_answer_stops_the_pod() -> None:
    """An expression that fails is found in the claim, and the pod fits without it."""
    broken = 'device.attributes["gpu.example.com"].size > 3'
    said = explained(*_there(), pod(), claim(asking(selectors=selecting(broken))))
    (refusal,) = said.reasons
    assert refusal.code == "SelectorFailed"
    assert refusal.field == "spec.devices.requests[gpu].exactly.selectors[0]"
    assert "g0" in refusal.value
    assert change_codes(said) == ["DropSelector"]


def test_a_selector_of_a_class_that_fails_is_found_there() -> None:
    """Nothing in the claim helps when the class itself is wrong."""
    broken = 'device.attributes["gpu.example.com"].size > 3'
    said = explained(*_there(), pod(), claim(), device_class("share", SHARED, broken))
    (refusal,) = said.reasons
    assert refusal.field == "deviceclass/share.spec.selectors[1]"
    assert said.changes == ()


def test_too_many_devices_are_told() -> None:
    """A claim for more devices than a claim may have is refused everywhere."""
    devices = [gpu(f"g{number}") for number in range(34)]
    said = explained(node("a"), published("a", *devices), pod(), claim(asking(count=33)))
    assert [it.code for it in said.reasons] == ["TooManyDevices"]
    assert [(it.code, it.after) for it in said.changes] == [("LowerCount", "32")]


def test_admin_access_needs_a_label_on_the_namespace() -> None:
    """A namespace that is known to lack the label stops the claim, though a device is there."""
    said = explained(*_there(), pod(), ADMIN, _labelled())
    assert [it.code for it in said.reasons] == ["AdminAccessForbidden"]
    assert change_codes(said) == ["LabelNamespace"]
    label = {"resource.kubernetes.io/admin-access": "true"}
    assert explained(*_there(), pod(), ADMIN, _labelled(**label)).verdict == "fits"
    assert explained(*_there(), pod(), ADMIN).verdict == "fits"


def test_all_capacities_of_two_requests_are_counted() -> None:
    """What one request of the pod takes is missing for its other one."""
    said = explained(
        *_there(),
        pod(),
        claim(
            asking("one", capacity={"memory": "30Gi"}), asking("two", capacity={"memory": "30Gi"})
        ),
    )
    (told,) = said.nodes[0].devices
    assert (told.request, told.refusal.limit) == ("two", "free 10Gi of 40Gi")
    assert [(it.code, it.after) for it in said.changes] == [("LowerCapacity", "memory 10Gi")]


def test_nothing_is_proposed_that_does_not_help() -> None:
    """Two things that are wrong at once have no single change."""
    said = explained(
        *_there(unschedulable=True), pod(), claim(asking(selectors=selecting("false")))
    )
    assert said.verdict == "pending"
    assert said.changes == ()


def test_a_change_must_help_in_the_whole_cluster() -> None:
    """An expression that fails on another node stops the pod whatever is changed on this one."""
    other = published("b", gpu("g0", attributes={"size": {"int": 9}}))
    picky = (
        'device.attributes["gpu.example.com"].?model.orValue("") == "a10" || '
        'device.attributes["gpu.example.com"].model == "h100"'
    )
    busy = holding("other", "a", "g0", capacity={"memory": "40Gi", "shares": "1"}, pods=("x",))
    said = explained(
        *_there(), node("b"), other, pod(), busy, claim(asking(selectors=selecting(picky)))
    )
    assert [it.code for it in said.reasons] == ["SelectorFailed"]
    assert "WaitForClaim" not in change_codes(said)
