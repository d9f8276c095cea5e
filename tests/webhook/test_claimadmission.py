"""Tests of the decision about claims and templates, with the pods of a simulated API server."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu.refusal import Refusal
from kube.client import Client
from kube.config import ClientConfig
from kube.draconversion import to_version
from kube.objects import JsonObject
from tests.fakes.api_server import ServerThread, serving
from tests.webhook.admitting import NAMESPACE, Door, KnownCluster, admitted, creation
from tests.webhook.translating import a_container, a_pod
from tests.webhook.viewing import create
from webhook import quotaverdict
from webhook.admission import Admission
from webhook.claimadmission import ClaimAdmission
from webhook.rendering import claim_spec
from webhook.review import Review, Verdict
from webhook.sharerequest import ShareRequest
from webhook.shares import ClaimRules

DRA = "resource.k8s.io"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    """Return an API server with the namespace of the tests."""
    with serving() as server:
        create(server, "namespaces", {"metadata": {"name": NAMESPACE}})
        yield server


@dataclass(slots=True, kw_only=True)
class KnownQuota:
    """Notes what it is asked, and always answers the same."""

    reasons: tuple[Refusal, ...] = ()
    asked: list[Review] = field(default_factory=list)

    async def check_claim(self, review: Review) -> tuple[Refusal, ...]:
        """Note the question."""
        self.asked.append(review)
        return self.reasons


def a_claim(memory: str = "3000Mi", **metadata: Any) -> JsonObject:
    """Return a claim for a share."""
    exactly = {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": memory}},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": NAMESPACE, **metadata},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def ask(
    server: ServerThread,
    claim: JsonObject,
    view: KnownCluster | None = None,
    quota: KnownQuota | None = None,
) -> Verdict:
    """Return what becomes of *claim*."""
    client = server.client("webhook")
    admission = ClaimAdmission(
        view or KnownCluster(), client, uncontrolled_namespaces=(), quota=quota
    )
    review = creation(claim, group=DRA, resource="resourceclaims")
    try:
        return asyncio.run(admission.decide_claim(review))
    finally:
        client.close()


def generated(pod: JsonObject, spec: JsonObject) -> JsonObject:
    """Return the claim that the control plane makes for the first entry of *pod*."""
    entry = pod["spec"]["resourceClaims"][0]["name"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "generateName": f"{pod['metadata']['name']}-{entry}-",
        "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": spec}


def stored(server: ServerThread, name: str) -> tuple[JsonObject, JsonObject]:
    """Return a translated pod as it is stored, and the spec of its claim."""
    pod = a_pod(a_container(gpu=1, gpumem=3000))
    door = Door()
    found = admitted(pod, door.ask(pod))
    ((_, translation),) = door.quota.asked
    assert translation is not None
    (spec,) = translation.templates.values()
    found["metadata"] |= {"name": name, "namespace": NAMESPACE}
    return create(server, "pods", found), spec


def test_a_claim_that_cannot_be_served_is_refused(server: ServerThread) -> None:
    """Sizes beyond every GPU and configurations with mistakes are refused before the quota."""
    quota = KnownQuota()
    claim = a_claim("900000Mi")
    parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", "priorty": 0}
    opaque = {"driver": "gpuslice.io", "parameters": parameters}
    claim["spec"]["devices"]["config"] = [{"opaque": opaque}]
    verdict = ask(server, claim, quota=quota)
    assert not verdict.allowed
    assert "MemoryExceedsGpu" in verdict.message
    assert "priority" in verdict.message
    assert not quota.asked


def test_shares_without_limits_are_for_granted_namespaces(server: ServerThread) -> None:
    """Elsewhere the claim of a pod that opts out is refused, whoever wrote its annotation."""
    spec = claim_spec(ShareRequest(memory_mib=3000, cores=0, enforcement="none"))
    claim = {**a_claim(), "spec": spec}
    verdict = ask(server, claim)
    assert "ShareConfigNotAllowed" in verdict.message
    assert "gpuslice.io/uncontrolled: allowed" in verdict.message
    granted = KnownCluster(labels={"gpuslice.io/uncontrolled": "allowed"})
    assert ask(server, claim, granted).allowed


def test_a_core_policy_of_the_administrator_is_allowed(server: ServerThread) -> None:
    """What translated claims have everywhere is not held against them, and nothing more."""
    client = server.client("webhook")
    rules = ClaimRules(may_ignore_cores=True)
    admission = ClaimAdmission(
        KnownCluster(), client, uncontrolled_namespaces=(), quota=None, rules=rules
    )
    said = []
    for more in ({"core_policy": "disable"}, {"enforcement": "none"}):
        request = ShareRequest.model_validate({"memory_mib": 3000, "cores": 30, **more})
        claim = {**a_claim(), "spec": claim_spec(request)}
        review = creation(claim, group=DRA, resource="resourceclaims")
        said.append(asyncio.run(admission.decide_claim(review)).allowed)
        assert not ask(server, claim).allowed
    client.close()
    assert said == [True, False]


def test_the_quota_is_asked_for_each_claim(server: ServerThread) -> None:
    """Claims that users write count like those that are made for pods."""
    quota = KnownQuota()
    assert ask(server, a_claim(), quota=quota).allowed
    assert len(quota.asked) == 1
    quota.reasons = (Refusal(code="QuotaExceeded", field="quota", value="1"),)
    exceeded = ask(server, a_claim(), quota=quota)
    assert "QuotaExceeded" in exceeded.message
    assert exceeded.code == 403
    quota.reasons = (quotaverdict.settling(NAMESPACE, 20.0),)
    assert ask(server, a_claim(), quota=quota).code == 500


def test_a_claim_for_a_pod_is_what_the_pod_asked_for(server: ServerThread) -> None:
    """A claim of another content is refused, whatever template it was made of."""
    pod, spec = stored(server, "translated")
    assert ask(server, generated(pod, spec)).allowed
    verdict = ask(server, generated(pod, a_claim("4000Mi")["spec"]))
    assert "TemplateForeign" in verdict.message
    known = KnownCluster(stored_pods=(pod,))
    assert "TemplateForeign" in ask(server, generated(pod, a_claim()["spec"]), known).message


def test_a_pod_that_the_view_lacks_is_asked_for(server: ServerThread) -> None:
    """Pods with templates of their users are allowed their claims; a made-up pod has none."""
    pod = a_pod(
        a_container(), resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "mine"}]
    )
    pod["metadata"] |= {"name": "users", "namespace": NAMESPACE}
    found = create(server, "pods", pod)
    assert ask(server, generated(found, a_claim()["spec"])).allowed
    found["metadata"]["name"] = "nobody"
    assert "ClaimOwnerUnknown" in ask(server, generated(found, a_claim()["spec"])).message


def test_a_silent_api_server_is_no_permission(server: ServerThread) -> None:
    """Where a pod cannot be read, its claim is not decided about."""
    pod, spec = stored(server, "unread")
    nobody = Client(ClientConfig(host="http://127.0.0.1:9"), user_agent="test")
    admission = ClaimAdmission(KnownCluster(), nobody, uncontrolled_namespaces=(), quota=None)
    review = creation(generated(pod, spec), group=DRA, resource="resourceclaims")
    with pytest.raises(RuntimeError, match="was not read"):
        asyncio.run(admission.decide_claim(review))


def template(name: str, spec: JsonObject) -> JsonObject:
    """Return a template of claims with *spec*."""
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"spec": spec}}


@pytest.fixture
def admission(server: ServerThread) -> Iterator[Admission]:
    """Return all decisions, with one user who may patch nodes."""
    client = server.client("webhook")
    door = Door(node_writers=frozenset({"system:scheduler"}))
    claims = ClaimAdmission(door.view, client, uncontrolled_namespaces=(), quota=None)
    yield Admission(
        door.open(),
        claims,
        may_write_nodes=door.may_write_nodes,
        exempt_namespaces=("kube-system",),
    )
    client.close()


def validated(admission: Admission, item: JsonObject, **asked: Any) -> Verdict:
    """Return what the path for what is changed afterwards says."""
    return asyncio.run(admission.validate(creation(item, **asked)))


@pytest.mark.parametrize(
    ("resource", "subresource", "operation"),
    [
        ("pods", "", "UPDATE"),
        ("pods", "status", "UPDATE"),
        ("pods", "binding", "CREATE"),
        ("bindings", "", "CREATE"),
    ],
)
def test_allocations_are_guarded_wherever_they_can_be_written(
    admission: Admission, resource: str, subresource: str, operation: str
) -> None:
    """Pods, their status and bindings are looked at, and those who may patch nodes pass."""
    item = {"metadata": {"annotations": {"hami.io/vgpu-node": "node-a"}}}
    asked = {"resource": resource, "subresource": subresource, "operation": operation}
    old: JsonObject | None = {"metadata": {}} if operation == "UPDATE" else None
    verdict = validated(admission, item, old_item=old, **asked)
    assert not verdict.allowed
    assert "hami.io/vgpu-node" in verdict.message
    assert validated(admission, item, old_item=old, user="system:scheduler", **asked).allowed
    assert validated(admission, {"metadata": {}}, old_item=old, **asked).allowed


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_templates_are_what_their_names_say(admission: Admission, operation: str) -> None:
    """A name like ours is refused to other content; sizes are checked in all templates."""
    asked = {"group": DRA, "resource": "resourceclaimtemplates", "operation": operation}
    spec = a_claim()["spec"]
    assert validated(admission, template("mine", spec), **asked).allowed
    taken = validated(admission, template("gpuslice-0123456789abcdef", spec), **asked)
    assert "TemplateNameReserved" in taken.message
    large = validated(admission, template("mine", a_claim("900000Mi")["spec"]), **asked)
    assert "MemoryExceedsGpu" in large.message
    assert "spec.spec.devices" in large.message


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_claims_of_older_versions_are_looked_at_as_well(admission: Admission, version: str) -> None:
    """What `v1beta1` writes beside the name of a request stands in `exactly` since."""
    for memory, allowed in (("1000Mi", True), ("900000Mi", False)):
        named = {"apiVersion": f"{DRA}/{version}"}
        for plural, item in (
            ("resourceclaims", a_claim(memory)),
            ("resourceclaimtemplates", template("mine", a_claim(memory)["spec"])),
        ):
            said = to_version(named | item, plural, version)
            assert ("exactly" in json.dumps(said)) is (version != "v1beta1")
            verdict = validated(admission, said, group=DRA, resource=plural)
            assert verdict.allowed is allowed
            assert ("MemoryExceedsGpu" in verdict.message) is not allowed


def test_what_is_not_ours_is_allowed(admission: Admission) -> None:
    """Unknown resources, operations and exempt namespaces pass both paths."""
    forged = {"metadata": {"annotations": {"hami.io/vgpu-node": "node-a"}}, "spec": {}}
    assert validated(admission, forged, namespace="kube-system").allowed
    assert validated(admission, forged, group="apps", resource="deployments").allowed
    assert validated(
        admission, {}, group=DRA, resource="resourceclaims", operation="DELETE"
    ).allowed
    for changes in ({"namespace": "kube-system"}, {"operation": "UPDATE"}, {"subresource": "x"}):
        review = creation(a_pod(a_container(gpu=1)), **changes)
        assert asyncio.run(admission.mutate(review)).patch == ()
    assert asyncio.run(admission.mutate(creation(a_pod(a_container(gpu=1))))).patch
