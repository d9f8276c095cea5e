"""Several replicas of the scheduler, as the chart renders them: one decides, all can."""

import pytest

from extender.leadlabel import LABEL
from tests.charts import schedulers
from tests.charts.rendering import (
    NAMESPACE,
    Object,
    RefusedError,
    container,
    merged,
    nested,
    of_kind,
    one,
    render,
)
from tests.charts.schedulers import ALONE, HAMI, NAME


def test_both_containers_and_the_rights_mean_one_lease() -> None:
    """In the namespace of the release; with another name all change."""
    for values, name in (
        (HAMI, "hami-scheduler"),
        (merged(HAMI, nested("scheduler.name", "x")), "x"),
    ):
        objects = render(values)
        settings = schedulers.settings(objects)
        assert settings.leader_elect
        lease = {"resourceName": name, "resourceNamespace": NAMESPACE}
        assert schedulers.configuration(objects)["leaderElection"] == {"leaderElect": True, **lease}
        assert settings.leader_elect_resource_name == name
        assert settings.leader_elect_resource_namespace == NAMESPACE
        for role in ("gpuslice-extender", "gpuslice-kube-scheduler"):
            rule = one(objects, "Role", role)["rules"][-1]
            assert (rule["resources"], rule["resourceNames"]) == (["leases"], [name])


def test_a_single_replica_may_do_without_the_lease() -> None:
    """Then neither follows one, and no right to any is given."""
    objects = render(merged(HAMI, nested("scheduler.leaderElect", False)))
    assert schedulers.configuration(objects)["leaderElection"] == {"leaderElect": False}
    assert not schedulers.settings(objects).leader_elect
    own = [
        each for each in of_kind(objects, "Role") if each["metadata"]["name"].endswith("scheduler")
    ]
    assert not [each for each in own if "leases" in str(each)]


@pytest.mark.parametrize("over", [{"leaderElect": False}, {"kubeScheduler": {"enabled": False}}])
def test_replicas_that_would_all_decide_are_refused(over: Object) -> None:
    """One device would be given away twice."""
    values = merged(HAMI, {"scheduler": {"replicas": 2, **over}})
    with pytest.raises(RefusedError, match=r"scheduler\.replicas"):
        render(values)


def test_a_rollout_leaves_one_that_can_lead_and_never_two_that_decide() -> None:
    """By the Lease; without one the old pod ends before the new one begins."""
    for replicas in (1, 3):
        objects = render(merged(HAMI, nested("scheduler.replicas", replicas)))
        strategy = one(objects, "Deployment", NAME)["spec"]["strategy"]
        assert strategy["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    for values in (ALONE, merged(HAMI, nested("scheduler.leaderElect", False))):
        strategy = one(render(values), "Deployment", NAME)["spec"]["strategy"]
        assert strategy == {"type": "Recreate"}


def test_all_replicas_are_ready_and_the_service_leads_to_the_one_that_decides() -> None:
    """By the label that the extender writes on its pod."""
    objects = render(HAMI)
    extender = container(one(objects, "Deployment", NAME), "extender")
    assert extender["readinessProbe"]["httpGet"]["path"] == "/readyz?exclude=lead"
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in extender["env"]}
    assert fields == {
        "GPUSLICE_POD_NAME": "metadata.name",
        "GPUSLICE_POD_NAMESPACE": "metadata.namespace",
    }
    assert one(objects, "Service", NAME)["spec"]["selector"][LABEL] == "true"
    alone = render(ALONE)
    assert LABEL not in one(alone, "Service", NAME)["spec"]["selector"]
    assert "env" not in container(one(alone, "Deployment", NAME), "extender")


def test_a_budget_is_there_for_several_replicas() -> None:
    """One alone would hold up draining."""
    assert NAME not in {
        each["metadata"]["name"] for each in of_kind(render(HAMI), "PodDisruptionBudget")
    }
    several = merged(HAMI, nested("scheduler.replicas", 2))
    spec = one(render(several), "PodDisruptionBudget", NAME)["spec"]
    assert spec["minAvailable"] == 1
    labels = one(render(several), "Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    off = merged(several, nested("scheduler.podDisruptionBudget.enabled", False))
    assert len(of_kind(render(off), "PodDisruptionBudget")) == 1
