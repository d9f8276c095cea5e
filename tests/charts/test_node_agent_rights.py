"""What the node agent may do, and what lets it be what it is."""

import re
from typing import Final

import pytest

from tests.charts.nodeagent import LIBRARY, daemon_set, pod_spec, rendered, rights
from tests.charts.rendering import merged, nested, of_kind, one
from tests.cluster.cluster import REPOSITORY

OWN: Final = {
    ("", "nodes", "get"),
    ("", "nodes", "list"),
    ("", "nodes", "watch"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "events", "create"),
    ("", "events", "patch"),
}
_DRA: Final = "resource.k8s.io"
CLAIMS: Final = {
    (_DRA, "resourceclaims", "get"),
    (_DRA, "resourceclaims", "list"),
    (_DRA, "resourceclaims/status", "update"),
    *((_DRA, "resourceslices", verb) for verb in ("list", "watch", "create", "update", "delete")),
}
NARROW: Final = {(_DRA, "resourceclaims/driver=gpuslice.io", "associated-node:update")}
CARDS: Final = {("", "nodes", "patch"), ("", "pods", "get"), ("", "pods", "patch")}


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.0", OWN | CARDS),
        ("auto", "v1.31.2+k3s1", OWN | CARDS),
        ("auto", "1.33.0", OWN | CARDS),
        ("auto", "1.34.0", OWN | CARDS | CLAIMS),
        ("auto", "1.35.0", OWN | CARDS | CLAIMS),
        ("auto", "1.36.0", OWN | CLAIMS | NARROW),
        ("auto", "1.37.2", OWN | CLAIMS | NARROW),
        ("dra", "1.34.0", OWN | CLAIMS),
        ("dra", "1.37.2", OWN | CLAIMS | NARROW),
        ("hami", "1.33.0", OWN | CARDS),
        ("hami", "1.37.2", OWN | CARDS),
    ],
)
def test_an_agent_may_do_what_its_way_of_serving_takes_and_no_more(
    mode: str, kubernetes: str, expected: set[tuple[str, str, str]]
) -> None:
    """Rights by mode and minor."""
    assert rights(rendered({"mode": mode}, kubernetes=kubernetes)) == expected


def test_the_documents_tell_the_rights() -> None:
    """The table of node-agent.md has those for claims, with those that 1.36 asks for."""
    text = (REPOSITORY / "docs/node-agent.md").read_text()
    table = text.partition("## What it needs from the API server")[2].partition("\n## ")[0]
    told = {
        ("" if "/" not in row[0] or not row[0].startswith(_DRA) else _DRA, resource, verb)
        for row in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
        for row in [(row[0].strip("`").replace("`, name `", "="), row[1])]
        for resource in [row[0].removeprefix(f"{_DRA}/")]
        for verb in re.sub(r"\([^)]*\)", "", row[1]).replace(" ", "").split(",")
    }
    assert told == OWN | CLAIMS | NARROW


def test_roles_and_accounts_of_ones_own_are_left_alone() -> None:
    """With rbac.create=false no roles are made, with serviceAccount.create=false no account."""
    without = rendered({"rbac": {"create": False}}, kubernetes="1.35.0")
    assert rights(without) == set()
    values = nested("kubeletPlugin.serviceAccount", {"create": False, "name": "mine"})
    objects = rendered(values, kubernetes="1.35.0")
    assert (
        pod_spec(one(objects, "DaemonSet", "gpuslice-node-agent"))["serviceAccountName"] == "mine"
    )
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert accounts.isdisjoint({"mine", "gpuslice-node-agent"})
    assert rights(objects, account="mine") == OWN | CARDS | CLAIMS


def test_openshift_lets_the_agent_be_what_it_is() -> None:
    """The SecurityContextConstraints name its account and every kind of volume that it has."""
    values = merged({"openshift": {"enabled": True}}, LIBRARY)
    for mode, kubernetes in (("dra", "1.34.0"), ("hami", "1.33.0")):
        objects = rendered(merged(values, {"mode": mode}), kubernetes=kubernetes, namespace="gpus")
        (allowed,) = of_kind(objects, "SecurityContextConstraints")
        assert allowed["users"] == ["system:serviceaccount:gpus:gpuslice-node-agent"]
        spec = pod_spec(one(objects, "DaemonSet", "gpuslice-node-agent"))
        kinds = {key for each in spec["volumes"] for key in each if key != "name"}
        assert kinds <= set(allowed["volumes"])
        assert allowed["allowHostPID"] is True
        assert allowed["allowHostNetwork"] is allowed["allowHostPorts"] is False
    assert of_kind(rendered(), "SecurityContextConstraints") == []


def test_a_quota_lets_pods_in_whose_priority_is_limited() -> None:
    """It covers the priorities of all pods of the chart."""
    objects = rendered({"resourceQuota": {"create": True, "pods": 50}}, kubernetes="1.33.0")
    (quota,) = of_kind(objects, "ResourceQuota")
    assert quota["spec"]["hard"] == {"pods": "50"}
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    priorities = {
        each["spec"]["template"]["spec"].get("priorityClassName")
        for each in objects
        if each["kind"] in {"DaemonSet", "Deployment"}
    }
    assert priorities == set(scope["values"])
    assert of_kind(rendered(), "ResourceQuota") == []


def test_nobody_but_prometheus_reaches_an_agent() -> None:
    """The NetworkPolicy opens the port of the metrics to those that are named."""
    source = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    values = {"networkPolicy": {"enabled": True, "metricsFrom": [source]}}
    policy = one(rendered(values), "NetworkPolicy", "gpuslice-node-agent")
    assert policy["spec"]["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 51515}], "from": [source]}
    ]
    selector = policy["spec"]["podSelector"]["matchLabels"]
    labels = daemon_set(values)["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_no_agent_is_installed_where_it_is_switched_off() -> None:
    """Neither pods nor rights nor rules of it."""
    objects = rendered({"kubeletPlugin": {"enabled": False}}, kubernetes="1.35.0")
    names = {each["metadata"]["name"] for each in objects}
    assert not [name for name in names if "node-agent" in name or "-own-" in name]
    assert rights(objects) == set()
