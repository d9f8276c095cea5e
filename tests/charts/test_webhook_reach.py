"""Who reaches the webhook's pods, and how many of them stay."""

from typing import Any

import pytest

from tests.charts.rendering import (
    Object,
    of_kind,
    one,
    render,
)
from tests.charts.webhooks import NAME, SELECTED


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"minAvailable": 1}),
        ({"podDisruptionBudget": {"minAvailable": "50%"}}, {"minAvailable": "50%"}),
        ({"podDisruptionBudget": {"enabled": False}}, None),
        ({"replicas": 1}, None),
    ],
)
def test_draining_leaves_one(values: dict[str, Any], expected: Object | None) -> None:
    """A budget for a single replica would keep its node from being drained for ever."""
    found = [
        each["spec"]
        for each in of_kind(render({"webhook": values}), "PodDisruptionBudget")
        if each["metadata"]["name"] == NAME
    ]
    if expected is None:
        assert found == []
    else:
        (budget,) = found
        assert budget.pop("selector") == {"matchLabels": SELECTED}
        assert budget.pop("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        assert budget == expected


def test_before_1_27_a_budget_has_no_eviction_policy() -> None:
    """The field was alpha then."""
    budget = one(render(kubernetes="1.26.9"), "PodDisruptionBudget", NAME)
    assert set(budget["spec"]) == {"minAvailable", "selector"}


def test_a_network_policy_lets_in_who_has_to_come() -> None:
    """API servers where they are known, the other replicas always, and readers of metrics."""
    assert not [
        each for each in of_kind(render(), "NetworkPolicy") if each["metadata"]["name"] == NAME
    ]
    (reviews, metrics) = ingress({})
    assert "from" not in reviews
    assert "from" not in metrics
    readers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
    (reviews, metrics) = ingress(
        {"apiServerCidrs": ["10.0.0.0/8", "fd00::/8"], "metricsFrom": readers}
    )
    assert reviews["from"] == [
        {"ipBlock": {"cidr": "10.0.0.0/8"}},
        {"ipBlock": {"cidr": "fd00::/8"}},
        {"podSelector": {"matchLabels": SELECTED}},
    ]
    assert metrics["from"] == readers


def ingress(values: dict[str, Any]) -> list[Object]:
    """Return the rules of the policy: for reviews, and for metrics and probes."""
    policy = one(render({"networkPolicy": {"enabled": True, **values}}), "NetworkPolicy", NAME)
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"] == {"matchLabels": SELECTED}
    return list(policy["spec"]["ingress"])


def test_the_service_leads_to_the_pods() -> None:
    """Its type, port and notes are values; metrics are read from the pods."""
    values = {"type": "NodePort", "nodePort": 30443, "annotations": {"a": "b"}}
    service = one(render({"webhook": {"service": values}}), "Service", NAME)
    assert service["spec"]["type"] == "NodePort"
    assert service["spec"]["selector"] == SELECTED
    assert service["metadata"]["annotations"] == {"a": "b"}
    (port,) = service["spec"]["ports"]
    assert port["nodePort"] == 30443
