"""Scenes with HAMi's limits: the webhook turns them into claims, and those into running pods."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import kubeconfig
from kube.errors import ApiError, ForbiddenError, InvalidError, ServerError
from tests.cluster.kubeconfigs import write_for_token
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.expectations import A10, H100, L4, T4, expect_limits, expect_whole
from tests.cluster.scenes.manifests import Object, reporting
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.webhooks import (
    REPLICAS,
    Webhooks,
    forget_certificate,
    running_webhooks,
    serving_certificate,
)
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_USE_TYPE: Final = "nvidia.com/use-gputype"
_VGPU_NODE: Final = "hami.io/vgpu-node"
_QUOTED: Final = "quoted"
_AT_ONCE: Final = 50
_ALLOWED: Final = 10
_SETTLED_S: Final = 90.0


@pytest.fixture(scope="module")
def webhooks(driver: Driver) -> Iterator[Webhooks]:
    """Return the webhook, registered and answering."""
    with running_webhooks(driver.cluster) as webhooks:
        yield webhooks


def legacy(
    name: str,
    limits: dict[str, str],
    *,
    node: str,
    init_limits: dict[str, str] | None = None,
    **annotations: str,
) -> Object:
    """Return a pod as a user of HAMi writes it; *annotations* are below `nvidia.com/use-`."""
    spec: Object = {"containers": [{"name": "app", "resources": {"limits": _long(limits)}}]}
    if init_limits:
        resources = {"limits": _long(init_limits)}
        spec["initContainers"] = [{"name": "first", "resources": resources}]
    notes = {f"nvidia.com/use-{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": notes}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return reporting(pod, node=node)


def _long(limits: dict[str, str]) -> dict[str, str]:
    return {f"nvidia.com/{key}": value for key, value in limits.items()}


def templates_of(client: Client, namespace: str = "default") -> list[str]:
    """Return the names of the templates."""
    found = json.loads(client.get(paths.resource_claim_templates(namespace)))["items"]
    return [str(each["metadata"]["name"]) for each in found]


def claims_in(client: Client, namespace: str = "default") -> list[Any]:
    """Return the claims."""
    return list(json.loads(client.get(paths.resource_claims(namespace)))["items"])


@pytest.mark.scene("legacy limits become running pods on claims")
def test_limits_become_claims(stage: Stage, webhooks: Webhooks) -> None:
    """Memory, cores, a percentage, two GPUs, a whole GPU and types mean what they meant."""
    one = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}
    found = stage.run(
        legacy("one", one, node=stage.node, gputype="a10"),
        legacy("half", {"gpumem-percentage": "50"}, node=stage.node, gputype="L4"),
        legacy("two", {"gpu": "2", "gpumem": "2k"}, node=stage.node, gputype="T4,A10"),
        legacy("whole", {"gpu": "1"}, node=stage.node, gputype="h100"),
        legacy(
            "with-init",
            {"gpu": "1", "gpumem": "2Gi"},
            init_limits={"gpu": "1", "gpumem": "2Gi"},
            node=stage.node,
            gputype="T4",
        ),
    )
    expect_limits(found["one"], {A10: ("3000m", "30")})
    expect_limits(found["half"], {L4: ("11517m", "100")})
    expect_limits(found["two"], {T4: ("2000m", "100"), A10: ("2000m", "100")})
    expect_whole(found["whole"], H100)
    expect_limits(found["with-init"], {T4: ("2048m", "100")})
    for name in found:
        pod = stage.pod(name)
        assert not any("nvidia.com/" in str(each["resources"]) for each in _containers(pod))
        (entry,) = pod["spec"]["resourceClaims"]
        assert entry["resourceClaimTemplateName"] in templates_of(stage.client)
    owners = [each["metadata"]["ownerReferences"][0]["name"] for each in claims_in(stage.client)]
    assert sorted(owners) == sorted(found)
    for name in found:
        stage.delete("Pod", name)
    eventually(lambda: not claims_in(stage.client))


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]


@pytest.mark.scene("a dry run of a legacy pod")
def test_dry_run(stage: Stage, webhooks: Webhooks) -> None:
    """The command line shows what would become of the pod, and nothing comes of it."""
    pod = legacy("dry", {"gpu": "1", "gpumem": "777"}, node=stage.node)
    said = stage.driver.cluster.kubectl(
        "apply", "-f", "-", "--dry-run=server", "-o", "json", stdin=json.dumps(pod)
    )
    spec = json.loads(said)["spec"]
    assert spec["resourceClaims"][0]["resourceClaimTemplateName"].startswith("gpuslice-")
    assert spec["containers"][0]["resources"]["claims"]
    assert not templates_of(stage.client)
    assert not claims_in(stage.client)


@pytest.mark.scene("legacy limits that cannot be met")
def test_refusals(stage: Stage, webhooks: Webhooks) -> None:
    """All that is wrong with a pod is in the answer of the API server."""
    pod = legacy("wrong", {"gpu": "1", "gpumem": "16G", "gpucores": "150"}, node=stage.node)
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(ForbiddenError) as caught:
        stage.create(pod)
    for said in ("16Gi or 16384", "nvidia.com/gpucores must be 0..100", "app is privileged"):
        assert said in caught.value.message


@pytest.mark.scene("the webhook is killed and its certificate changed")
def test_killed_and_renewed(stage: Stage, webhooks: Webhooks) -> None:
    """While nobody answers, GPU pods are refused and others are not; then all is well again."""
    before = serving_certificate(stage.client)
    for index in range(REPLICAS):
        webhooks.kill(index)
    pod = legacy("again", {"gpu": "1", "gpumem": "1000"}, node=stage.node, gputype="T4")
    with pytest.raises(ServerError, match="failed calling webhook"):
        stage.create(pod)
    plain = {"name": "app", "image": "x"}
    plain_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}}
    stage.create(reporting({**plain_pod, "spec": {"containers": [plain]}}, node=stage.node))
    forget_certificate(stage.client)
    for index in range(REPLICAS):
        webhooks.start(index)
    assert serving_certificate(stage.client) != before
    eventually(lambda: _is_created(stage, pod))
    expect_limits(stage.report("again"), {T4: ("1000m", "100")})


def _is_created(stage: Stage, pod: Object) -> bool:
    """Try again where the API server has not heard of the new authority yet."""
    try:
        stage.create(pod)
    except ServerError:
        return False
    return True


@pytest.fixture
def somebody(stage: Stage) -> Iterator[Client]:
    """Return a client of one who may do everything with pods and nothing with nodes."""
    cluster = stage.driver.cluster
    cluster.kubectl("create", "serviceaccount", "somebody")
    rules = "--resource=pods,pods/status,pods/binding,bindings"
    cluster.kubectl("create", "role", "pods", "--verb=*", rules)
    cluster.kubectl(
        "create", "rolebinding", "pods", "--role=pods", "--serviceaccount=default:somebody"
    )
    token = cluster.state_dir / "somebody-token"
    token.write_text(cluster.kubectl("create", "token", "somebody").strip())
    client = Client(
        kubeconfig(str(write_for_token(cluster.state, "somebody", token))), user_agent="somebody"
    )
    yield client
    client.close()
    cluster.kubectl("delete", "serviceaccount/somebody", "role/pods", "rolebinding/pods")


@pytest.mark.scene("a forged allocation is refused")
def test_forged_allocation(stage: Stage, webhooks: Webhooks, somebody: Client) -> None:
    """Neither a new pod nor an update, a status or a binding can bring an allocation."""
    forged = {"metadata": {"annotations": {_VGPU_NODE: "node-2"}}}
    pod = legacy("forged", {"gpu": "1"}, node=stage.node)
    pod["metadata"]["annotations"][_VGPU_NODE] = "node-2"
    with pytest.raises(ForbiddenError, match=_VGPU_NODE):
        stage.create(pod)
    pod = legacy("honest", {"gpu": "1", "gpumem": "1000"}, node="nowhere")
    stage.create(pod)
    for subresource in (None, "status"):
        path = paths.pods("default", "honest", subresource)
        with pytest.raises(ForbiddenError, match=_VGPU_NODE):
            somebody.patch(path, forged, content_type=MERGE_PATCH)
    target = {"apiVersion": "v1", "kind": "Node", "name": stage.node}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "honest", **forged["metadata"]},
        "target": target,
    }
    with pytest.raises(ForbiddenError, match=_VGPU_NODE):
        somebody.create(paths.pods("default", "honest", "binding"), binding)
    labelled = {"metadata": {"labels": {"colour": "blue"}}}
    somebody.patch(paths.pods("default", "honest"), labelled, content_type=MERGE_PATCH)
    # The administrator may patch nodes, as schedulers and node programs do.
    stage.client.patch(paths.pods("default", "honest"), forged, content_type=MERGE_PATCH)


@pytest.fixture
def quoted(stage: Stage) -> Iterator[str]:
    """Return a namespace whose quota allows ten shares."""
    stage.client.create(paths.namespaces(), {"metadata": {"name": _QUOTED}})
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-quota"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": str(1000 * _ALLOWED)}},
    }
    path = paths.resource("v1", "resourcequotas", namespace=_QUOTED)
    stage.client.create(path, quota)
    yield _QUOTED
    for pod in json.loads(stage.client.get(paths.pods(_QUOTED)))["items"]:
        stage.client.delete(paths.pods(_QUOTED, pod["metadata"]["name"]))
    stage.client.delete(paths.namespaces(_QUOTED))


@pytest.mark.scene("fifty pods at once on a GPU quota of ten")
def test_quota(stage: Stage, webhooks: Webhooks, quoted: str) -> None:
    """Asked through two replicas at once, ten pods are allowed, and ten claims are made."""

    def attempt(number: int) -> str:
        pod = legacy(f"pod-{number}", {"gpu": "1", "gpumem": "1k"}, node="nowhere")
        try:
            stage.client.create(paths.pods(quoted), pod)
        except ApiError as error:
            return error.message
        return ""

    # A leader that is new waits until all that another one may have allowed is stored.
    eventually(lambda: "QuotaLeaderSettling" not in attempt(_AT_ONCE), _SETTLED_S)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        said = list(threads.map(attempt, range(_AT_ONCE)))
    allowed = sum(not each for each in said)
    assert allowed == _ALLOWED - 1, said
    refused = [each for each in said if each]
    assert all("quota gpu-quota: limits.nvidia.com/gpumem used" in each for each in refused), said
    eventually(lambda: len(claims_in(stage.client, quoted)) == _ALLOWED)
    made = claims_in(stage.client, quoted)[0]
    own: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "own"},
        "spec": made["spec"],
    }
    with pytest.raises(InvalidError, match="ask for them in the pod"):
        stage.client.create(paths.resource_claims(quoted), own)
    label = {"metadata": {"labels": {"gpuslice.io/direct-claims": "allowed"}}}
    stage.client.patch(paths.namespaces(quoted), label, content_type=MERGE_PATCH)
    eventually(lambda: "limits.nvidia.com/gpumem used" in _why_not(stage.client, quoted, own))


def _why_not(client: Client, namespace: str, claim: Object) -> str:
    with pytest.raises(ApiError) as caught:
        client.create(paths.resource_claims(namespace), claim)
    return str(caught.value.message)


@pytest.mark.scene("legacy limits where shares cannot be claimed")
def test_without_consumable_capacity(stage: Stage, webhooks: Webhooks) -> None:
    """The pod keeps its limits, gets HAMi's defaults and waits for HAMi's scheduler."""
    stage.create(legacy("older", {"gpu": "1"}, node=stage.node))
    pod = stage.pod("older")
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert "resourceClaims" not in pod["spec"]
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
