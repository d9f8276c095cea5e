"""The webhook's manifests, rights and election with a real API server that has nothing around it.

No webhook runs: what the API server would ask it about is refused, and everything else goes on.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import ClientConfig, kubeconfig
from kube.election import Elector, Terms
from kube.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from kube.events import EventRecorder
from kube.lease import identity_of
from tests.cluster.alone import shares_by_default
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.scenes.audit import events_of
from tests.cluster.up import bring_up_api_server
from tests.patience import eventually
from tests.webhook.manifests import documents
from tests.webhook.translating import NODE, a_container, a_gpu, a_pod, a_slice
from tests.webhook.viewing import a_translated_pod, templates_of
from webhook.mode import Mode, ModeProbe
from webhook.templatecontent import is_genuine
from webhook.templates import TemplateController, TemplatePace
from webhook.view import ClusterView

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

JsonObject = dict[str, Any]

OWN = "gpuslice-system"
TEAM = "team"
EXEMPT = "exempt"
KEY = "hami.io/vgpu-node"
ABSENT = "failed calling webhook"


@dataclass
class Server:
    """An API server with the manifests applied."""

    cluster: RealCluster
    client: Client

    def create(self, path: str, **item: Any) -> JsonObject:
        """Create an object."""
        made: JsonObject = json.loads(self.client.create(path, item))
        return made

    def pod(self, namespace: str, name: str, pod: JsonObject) -> JsonObject:
        """Create *pod* under a name."""
        metadata = {**pod["metadata"], "name": name, "namespace": namespace}
        return self.create(paths.pods(namespace), **{**pod, "metadata": metadata})

    def refusal(self, work: Callable[[], object]) -> str:
        """Return what the server says against *work*."""
        with pytest.raises(ApiError) as caught:
            work()
        return str(caught.value)

    def asked(self) -> dict[int, set[str]]:
        """Return what the webhook has asked, by the status of the answer."""
        found: dict[int, set[str]] = {}
        user = f"system:serviceaccount:{OWN}:gpuslice-webhook"
        for event in events_of(self.cluster.state.audit_log, user=user):
            code = event.get("responseStatus", {}).get("code", 0)
            what = f"{event['verb']} {event.get('objectRef', {}).get('resource', '')}"
            found.setdefault(code, set()).add(what)
        return found


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[RealCluster]:
    """Return a cluster of an API server alone."""
    options = Options(minor=minor_of(request.config), authorization="RBAC")
    with bring_up_api_server(session_folder / "manifests", options) as cluster:
        with cluster.client() as client:
            apply_all(client)
        yield cluster


@pytest.fixture
def server(running: RealCluster) -> Iterator[Server]:
    """Return the server, with the test in its network."""
    with running.client() as client:
        yield Server(running, client)


COLLECTIONS = {
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Service": ("v1", "services"),
    "Deployment": ("apps/v1", "deployments"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
    ),
    "MutatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
    ),
    "ValidatingWebhookConfiguration": (
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
    ),
}


def apply_all(client: Client) -> None:
    """Create namespaces with their accounts, the classes, and all manifests."""
    for name, labels in ((OWN, {}), (TEAM, {}), (EXEMPT, {"gpuslice.io/webhook": "ignore"})):
        client.create(paths.namespaces(), {"metadata": {"name": name, "labels": labels}})
        accounts = paths.resource("v1", "serviceaccounts", namespace=name)
        client.create(accounts, {"metadata": {"name": "default"}})
    client.create(paths.nodes(), {"metadata": {"name": NODE}})
    classes = REPOSITORY / "examples" / "device-classes" / "classes.yaml"
    for each in yaml.safe_load_all(classes.read_text()):
        client.create(paths.device_classes(), each)
    for each in documents():
        group_version, plural = COLLECTIONS[each["kind"]]
        namespace = each["metadata"].get("namespace")
        path = paths.resource(group_version, plural, namespace=namespace)
        client.create(path, each, {"fieldValidation": "Strict"})


def until_asked(server: Server) -> None:
    """Wait until the configurations are in effect."""
    labels = {"metadata": {"name": "x", "annotations": {KEY: "n"}}}
    pod = {**a_pod(a_container("main")), **labels}

    def is_refused() -> bool:
        """Tell whether a forged pod is refused."""
        try:
            server.client.create(paths.pods(TEAM), pod, {"dryRun": "All"})
        except ApiError as error:
            return ABSENT in str(error)
        return False

    eventually(is_refused)


def asking(namespace: str, device_class: str, name: str = "claim") -> JsonObject:
    """Return a claim."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }


def test_only_what_concerns_gpus_waits_for_the_webhook(server: Server) -> None:
    """Without it plain pods live on, and GPUs, forged annotations and our claims are refused."""
    until_asked(server)
    plain = server.pod(TEAM, "plain", a_pod(a_container("main")))
    gpu = a_pod(a_container("main", gpu=1))
    said = server.refusal(lambda: server.pod(TEAM, "gpu", gpu))
    assert f'{ABSENT} "pods.gpuslice.io"' in said
    server.pod(EXEMPT, "gpu", gpu)
    path = paths.pods(TEAM, "plain")
    status = paths.pods(TEAM, "plain", "status")
    plain["status"] = {"phase": "Pending", "message": "told by kubelet"}
    plain["metadata"].pop("resourceVersion")
    server.client.replace(status, plain)
    note = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    server.client.patch(path, note, content_type=MERGE_PATCH)
    forged = {"metadata": {"annotations": {KEY: NODE}}}
    for target in (path, status):
        said = server.refusal(
            lambda target=target: server.client.patch(target, forged, content_type=MERGE_PATCH)  # type: ignore[misc]
        )
        assert f'{ABSENT} "annotations.gpuslice.io"' in said


def test_bindings_wait_only_with_forged_annotations(server: Server) -> None:
    """A scheduler binds on."""
    until_asked(server)
    server.pod(TEAM, "bound", a_pod(a_container("main")))
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
    metadata = {"name": "bound", "namespace": TEAM}
    forged = {**binding, "metadata": {**metadata, "annotations": {KEY: NODE}}}
    old_way = paths.resource("v1", "bindings", namespace=TEAM)
    for path in (paths.pods(TEAM, "bound", "binding"), old_way):
        said = server.refusal(lambda path=path: server.create(path, **forged))  # type: ignore[misc]
        assert f'{ABSENT} "annotations.gpuslice.io"' in said
    server.create(paths.pods(TEAM, "bound", "binding"), **binding, metadata=metadata)


def test_claims_of_other_drivers_do_not_wait(server: Server) -> None:
    """Those for our devices do, and templates with names like ours."""
    until_asked(server)
    claims = paths.resource_claims(TEAM)
    server.create(claims, **asking(TEAM, "gpu.nvidia.com"))
    said = server.refusal(
        lambda: server.create(claims, **asking(TEAM, "share.gpuslice.io", "ours"))
    )
    assert f'{ABSENT} "claims.gpuslice.io"' in said
    template = {**asking(TEAM, "gpu.nvidia.com"), "kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    templates = paths.resource_claim_templates(TEAM)
    server.create(templates, **template)
    template["metadata"] = {"name": "gpuslice-mine", "namespace": TEAM}
    said = server.refusal(lambda: server.create(templates, **template))
    assert f'{ABSENT} "templates.gpuslice.io"' in said


def test_where_a_quota_limits_gpus_only_the_webhook_makes_templates(server: Server) -> None:
    """Users are told of the quota, until the namespace is labelled."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}},
    }
    claims = paths.resource_claims(EXEMPT)
    server.create(claims, **asking(EXEMPT, "share.gpuslice.io", "before"))
    server.create(paths.resource("v1", "resourcequotas", namespace=EXEMPT), **quota)

    def said() -> str:
        """Return what is said against a claim of one's own."""
        item = asking(EXEMPT, "share.gpuslice.io", "mine")
        try:
            server.client.create(claims, item, {"dryRun": "All"})
        except (InvalidError, ForbiddenError) as error:
            return str(error)
        return ""

    eventually(lambda: "the quota gpus limits GPUs in this namespace" in said())
    with webhook(server) as client:
        template = {**asking(EXEMPT, "share.gpuslice.io"), "kind": "ResourceClaimTemplate"}
        template["spec"] = {"spec": template["spec"]}
        client.create(paths.resource_claim_templates(EXEMPT), template, {"dryRun": "All"})
    labels = {"metadata": {"labels": {"gpuslice.io/direct-claims": "allowed"}}}
    server.client.patch(paths.namespaces(EXEMPT), labels, content_type=MERGE_PATCH)
    eventually(lambda: not said())
    labels = {"metadata": {"labels": {"gpuslice.io/direct-claims": "no"}}}
    server.client.patch(paths.namespaces(EXEMPT), labels, content_type=MERGE_PATCH)
    server.client.delete(paths.resource("v1", "resourcequotas", namespace=EXEMPT, name="gpus"))


@contextmanager
def webhook(server: Server) -> Iterator[Client]:
    """Return a client with the rights that the chart gives the webhook."""
    config = kubeconfig(str(server.cluster.kubeconfig))
    token = server.cluster.kubectl("create", "token", "gpuslice-webhook", f"--namespace={OWN}")
    own = ClientConfig(
        host=config.host, ca_file=config.ca_file, ca_data=config.ca_data, token=token.strip
    )
    client = Client(own, user_agent="gpuslice-webhook")
    try:
        yield client
    finally:
        client.close()


def test_a_leader_with_the_charts_rights_makes_and_deletes_templates(
    request: pytest.FixtureRequest, server: Server
) -> None:
    """Election, view, mode and controller need no more than they may."""
    pace = TemplatePace(grace_s=1.0, resync_s=1.0)
    server.create(paths.resource_slices(), **a_whole_slice())
    with webhook(server) as client, leading(client) as elector:
        eventually(elector.is_leader)
        assert elector.leader_address() == "10.0.0.7:9443"
        view = ClusterView(client, resource_keys={"nvidia.com/gpu"})
        probe = ModeProbe(client, namespace=OWN, setting="auto")
        events = EventRecorder(client, "gpuslice-webhook", "host")
        controller = TemplateController(client, view, events, leads=elector.is_leader, pace=pace)
        parts = (view, probe, controller)
        for part in parts:
            part.start()
        try:
            shares = shares_by_default(minor_of(request.config))
            eventually(lambda: probe.mode() is (Mode.DRA if shares else Mode.HAMI))
            eventually(view.synced)
            assert view.facts().gpus_by_memory_mib == {24564: 1}
            assert view.facts().counts_are_distinct == shares
            if shares:
                follow_a_pod(server)
        finally:
            for part in reversed(parts):
                part.stop()
            events.close()
    lease = json.loads(server.client.get(paths.leases(OWN, "gpuslice-webhook")))
    assert not lease["spec"].get("holderIdentity")
    asked = server.asked()
    assert 403 not in asked
    assert {"update leases", "create resourceclaimtemplates"} <= asked[200] | asked[201]


def follow_a_pod(server: Server) -> None:
    """See a template come with a pod and go after it."""
    pod = server.pod(EXEMPT, "translated", a_translated_pod(namespace=EXEMPT))
    (name,) = templates_of(pod)
    path = paths.resource_claim_templates(EXEMPT, name)

    def template() -> JsonObject | None:
        """Return the template."""
        try:
            found: JsonObject = json.loads(server.client.get(path))
        except NotFoundError:
            return None
        return found

    made = eventually(template)
    assert made is not None
    assert is_genuine(name, made["spec"]["spec"])
    server.client.delete(paths.pods(EXEMPT, "translated"))
    eventually(lambda: template() is None)


@contextmanager
def leading(client: Client) -> Iterator[Elector]:
    """Run an elector."""
    elector = Elector(
        client,
        namespace=OWN,
        name="gpuslice-webhook",
        identity=identity_of("pod", "10.0.0.7:9443"),
        terms=Terms(lease_s=3, renew_deadline_s=2.0, retry_s=0.2),
    )
    elector.start()
    try:
        yield elector
    finally:
        elector.stop()


def a_whole_slice() -> JsonObject:
    """Return a slice as the server takes it."""
    found = a_slice(a_gpu(1))
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **found}
