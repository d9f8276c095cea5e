"""The ValidatingAdmissionPolicies that hold a node agent to its own node."""

from typing import Any, Final

import pytest

from tests.charts.admission import refusals, write
from tests.charts.nodeagent import rendered, rights
from tests.charts.rendering import Object, nested, of_kind

SLICES: Final = "gpuslice-own-slices"
STATUS: Final = "gpuslice-own-status"
NODE: Final = "gpuslice-own-node"
_WRITES: Final = {
    "create": "CREATE",
    "update": "UPDATE",
    "patch": "UPDATE",
    "delete": "DELETE",
    "associated-node:update": "UPDATE",
}


def _policies(values: dict[str, Any] | None = None, **options: Any) -> dict[str, Object]:
    found = of_kind(rendered(values, **options), "ValidatingAdmissionPolicy")
    return {each["metadata"]["name"]: each for each in found if "-own-" in each["metadata"]["name"]}


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.0", set()),
        ("auto", "v1.29.11-eks-56e63d8", set()),
        ("auto", "1.30.0", {NODE}),
        ("auto", "v1.31.2+k3s1", {NODE}),
        ("auto", "1.34.0", {NODE, SLICES, STATUS}),
        ("auto", "1.36.0", {SLICES, STATUS}),
        ("dra", "1.34.0", {SLICES, STATUS}),
        ("dra", "1.37.2", {SLICES, STATUS}),
        ("hami", "1.28.0", set()),
        ("hami", "1.37.2", {NODE}),
    ],
)
def test_policies_are_those_of_what_is_installed(
    mode: str, kubernetes: str, expected: set[str]
) -> None:
    """From 1.30 on, which has them and tells the node of a pod's token; each is bound."""
    objects = rendered({"mode": mode}, kubernetes=kubernetes)
    assert set(_policies({"mode": mode}, kubernetes=kubernetes)) == expected
    bound = {
        each["spec"]["policyName"]: each["spec"]["validationActions"]
        for each in of_kind(objects, "ValidatingAdmissionPolicyBinding")
        if "-own-" in each["metadata"]["name"]
    }
    assert bound == {name: ["Deny"] for name in expected}


@pytest.mark.parametrize(
    ("mode", "kubernetes"),
    [("auto", "1.30.0"), ("auto", "1.35.0"), ("auto", "1.37.2"), ("hami", "1.37.2")],
)
def test_every_right_to_write_is_narrowed(mode: str, kubernetes: str) -> None:
    """What an agent may write in the whole cluster a policy looks at, but for events."""
    values = {"mode": mode}
    looked_at = {
        (group, resource, operation)
        for policy in _policies(values, kubernetes=kubernetes).values()
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    written = {
        (group, resource, _WRITES[verb])
        for group, resource, verb in rights(rendered(values, kubernetes=kubernetes))
        if verb in _WRITES and resource != "events" and "=" not in resource
    }
    assert written <= looked_at
    assert written


def test_policies_know_the_agent_by_the_account_that_it_runs_as() -> None:
    """In the namespace of the release and under the name that was chosen."""
    values = nested("kubeletPlugin.serviceAccount.name", "mine")
    for options, user in (
        ({"namespace": "gpus"}, "system:serviceaccount:gpus:gpuslice-node-agent"),
        ({"values": values}, "system:serviceaccount:gpuslice-system:mine"),
        ({"values": {"namespaceOverride": "other"}}, "system:serviceaccount:other:gpuslice-"),
    ):
        found = _policies(**options, kubernetes="1.35.0")
        assert len(found) == 3
        for policy in found.values():
            (condition,) = policy["spec"]["matchConditions"]
            assert user in condition["expression"]


def test_policies_can_be_left_out() -> None:
    """Where somebody else narrows the rights."""
    assert _policies(nested("policies.ownNode", False), kubernetes="1.35.0") == {}


AGENT: Final = "system:serviceaccount:gpuslice-system:gpuslice-node-agent"


def _slice(node: str, driver: str = "gpuslice.io") -> Object:
    return {"spec": {"driver": driver, "nodeName": node}}


def _claim(*devices: tuple[str, str, str], **status: Any) -> Object:
    told = [
        {"driver": driver, "pool": pool, "device": "gpu-1", "conditions": [{"reason": reason}]}
        for driver, pool, reason in devices
    ]
    return {"spec": {}, "status": {"devices": told, **status}}


def _node(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": {"unschedulable": True}}


def _pod(node: str | None, **metadata: Any) -> Object:
    bound = {"nodeName": node} if node else {}
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": [], **bound}}


NOTED: Final = {"annotations": {"hami.io/bind-phase": "success"}}
_WELL: Final = ("gpuslice.io", "a", "Recovered")
_ILL: Final = ("gpuslice.io", "a", "Xid79")
_OTHER: Final = ("example.com", "a", "Fine")
_NEXT: Final = ("gpuslice.io", "b", "Fine")


@pytest.mark.parametrize(
    ("resource", "operation", "old", "new"),
    [
        ("resourceslices", "CREATE", None, _slice("a")),
        ("resourceslices", "UPDATE", _slice("a"), _slice("a")),
        ("resourceslices", "DELETE", _slice("a"), None),
        ("resourceclaims/status", "UPDATE", _claim(), _claim(_ILL)),
        ("resourceclaims/status", "UPDATE", _claim(_OTHER, _ILL), _claim(_OTHER, _WELL)),
        ("nodes", "UPDATE", _node("a"), _node("a", **NOTED)),
        ("pods", "UPDATE", _pod("a"), _pod("a", **NOTED)),
    ],
)
def test_an_agent_writes_what_is_its_own(
    resource: str, operation: str, old: Object | None, new: Object | None
) -> None:
    """Slices, states of devices and annotations of its node; from no other node's pod."""
    policies = list(_policies(kubernetes="1.35.0").values())
    own = write(resource, operation, old=old, new=new, user=AGENT, node="a")
    assert refusals(policies, own) == []
    for node, words in (("b", "the node agent of b writes "), (None, "has to be bound to a pod")):
        stolen = write(resource, operation, old=old, new=new, user=AGENT, node=node)
        assert words in " ".join(refusals(policies, stolen))


@pytest.mark.parametrize(
    ("resource", "operation", "old", "new", "words"),
    [
        ("resourceslices", "CREATE", None, _slice("a", "gpu.example.com"), "gpuslice.io only"),
        ("resourceslices", "CREATE", None, _slice("b"), "writes slices of that node only"),
        ("resourceslices", "DELETE", _slice("b"), None, "writes slices of that node only"),
        (
            *("resourceclaims/status", "UPDATE", _claim(), _claim(allocation={"devices": {}})),
            "neither allocates claims nor reserves them",
        ),
        (
            *("resourceclaims/status", "UPDATE", _claim(), _claim(reservedFor=[{"name": "p"}])),
            "neither allocates claims nor reserves them",
        ),
        (
            *("resourceclaims/status", "UPDATE", _claim(_OTHER), _claim(_ILL)),
            "writes of that node's gpuslice.io devices only",
        ),
        (
            *("resourceclaims/status", "UPDATE", _claim(), _claim(_NEXT)),
            "writes of that node's gpuslice.io devices only",
        ),
        ("nodes", "UPDATE", _node("b"), _node("b", **NOTED), "writes on that node and its pods"),
        ("nodes", "UPDATE", _node("a"), _node("a", labels={"x": "y"}), "annotations only"),
        ("nodes", "UPDATE", _node("a"), {**_node("a"), "spec": {}}, "annotations only"),
        ("pods", "UPDATE", _pod("b"), _pod("b", **NOTED), "writes on that node and its pods"),
        ("pods", "UPDATE", _pod(None), _pod(None, **NOTED), "writes on that node and its pods"),
        ("pods", "UPDATE", _pod("a"), _pod("a", finalizers=["x"]), "annotations only"),
    ],
)
def test_an_agent_writes_nothing_else(
    resource: str, operation: str, old: Object | None, new: Object | None, words: str
) -> None:
    """Nothing of other nodes, drivers and controllers; whoever is no agent is not looked at."""
    policies = list(_policies(kubernetes="1.35.0").values())
    wrong = write(resource, operation, old=old, new=new, user=AGENT, node="a")
    assert words in " ".join(refusals(policies, wrong))
    other = write(resource, operation, old=old, new=new, user="system:kube-scheduler", node=None)
    assert refusals(policies, other) == []
