"""Who is asked about: pods and claims that are there or not, that wait or have their place."""

import pytest

from kube.objects import ObjectKey
from sim.explain.errors import OtherProtocolError, SubjectNotFoundError
from sim.explain.explainer import explain_claim, explain_pod
from tests.sim.explain.world import (
    CLAIM,
    NAMESPACE,
    POD,
    RULES,
    Json,
    claim,
    claim_explained,
    device_class,
    explained,
    gpu,
    holding,
    node,
    node_codes,
    pod,
    published,
    snapshot,
)


def _there() -> list[Json]:
    return [node("a"), published("a", gpu("g0"))]


def _with_status(item: Json, **status: object) -> Json:
    return {**item, "status": status}


def test_pods_that_have_their_place_are_told_so() -> None:
    """A bound pod and one that has ended are no matter of devices any more."""
    taken = holding(CLAIM, "a", "g0", pods=(POD,))
    bound = _with_status(pod(nodeName="a"), phase="Running")
    said = explained(*_there(), bound, taken)
    assert (said.verdict, said.node) == ("scheduled", "a")
    assert [it.device for it in said.given] == ["g0"]
    ended = _with_status(pod(nodeName="a"), phase="Succeeded")
    assert explained(*_there(), ended).verdict == "finished"


def test_a_claim_is_explained_with_the_pod_that_uses_it() -> None:
    """The pod's node selector counts for its claim."""
    items = [*_there(), pod(nodeSelector={"zone": "x"}), claim()]
    said = claim_explained(CLAIM, *items)
    assert said.subject.kind == "ResourceClaim"
    assert node_codes(said) == {"a": "NodeNotChosen"}
    assert said.notes == ("explained with pod trainer, which uses it",)


def test_a_claim_that_nobody_uses_is_explained_for_any_node() -> None:
    """It is said that a claim alone is never allocated."""
    said = claim_explained(CLAIM, *_there(), claim())
    assert said.verdict == "fits"
    assert "no waiting pod uses the claim" in said.notes[0]


def test_a_claim_with_devices_is_told_with_them() -> None:
    """An allocated claim has nothing to wait for."""
    said = claim_explained("other", *_there(), holding("other", "a", "g0", pods=("x",)))
    assert (said.verdict, [it.device for it in said.given]) == ("allocated", ["g0"])
    assert said.message == "claim default/other has devices, reserved for x"


def test_the_words_of_the_real_scheduler_are_kept() -> None:
    """Who wonders why a pod waits that would fit reads what kube-scheduler says."""
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: no CPU"}
    said = explained(*_there(), _with_status(pod(), conditions=[condition]), claim())
    assert (said.verdict, said.scheduler_says) == ("fits", "0/1 nodes: no CPU")


def test_another_scheduler_is_mentioned() -> None:
    """These are kube-scheduler's rules, whoever schedules the pod."""
    said = explained(*_there(), pod(schedulerName="batch"), claim())
    assert said.notes == ("the pod is for scheduler batch; these are the rules of kube-scheduler",)


def test_what_is_not_there_cannot_be_explained() -> None:
    """Pods and claims that do not exist are an error of the user's."""
    with pytest.raises(SubjectNotFoundError, match="no pod default/nobody"):
        explain_pod(snapshot(), ObjectKey(NAMESPACE, "nobody"), rules=RULES)
    with pytest.raises(SubjectNotFoundError, match="no claim default/nothing"):
        explain_claim(snapshot(), ObjectKey(NAMESPACE, "nothing"), rules=RULES)


def test_pods_of_the_annotation_protocol_are_left_to_it() -> None:
    """A pod with GPU limits, no claim and no class for the limits is decided elsewhere."""
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    legacy = pod(resourceClaims=[], containers=containers)
    with pytest.raises(OtherProtocolError, match="annotation protocol"):
        explained(*_there(), legacy)


def test_a_limit_that_a_class_serves_is_explained_like_a_claim() -> None:
    """The scheduler makes the claim; what holds its device is told, and freed on trial."""
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    legacy = pod(resourceClaims=[], containers=containers)
    served = device_class("share", extendedResourceName="nvidia.com/gpu")
    said = explained(*_there(), legacy, served)
    assert (said.verdict, [it.device for it in said.given]) == ("fits", ["g0"])
    amounts = {"memory": "30Gi", "shares": "1"}
    busy = holding("other", "a", "g0", capacity=amounts, pods=("x",))
    said = explained(*_there(), legacy, served, busy)
    (told,) = said.nodes[0].devices
    assert (told.request, told.refusal.code) == ("container-0-request-0", "MemoryInsufficient")
    assert [(it.request, it.device_class) for it in said.asked] == [(told.request, "share")]
    assert [it.code for it in said.changes] == ["WaitForClaim"]
