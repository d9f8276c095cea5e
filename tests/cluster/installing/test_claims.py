"""The chart installed where the API server keeps shares: what a platform engineer expects of it."""

import contextlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from cli.main import main
from kube import paths
from tests.charts.rendering import NAMESPACE
from tests.cluster.installing.release import READY_S, Release
from tests.cluster.scenes import manifests, rights
from tests.cluster.scenes.audit import lines_of
from tests.cluster.scenes.expectations import A10, L4, expect_limits
from tests.cluster.scenes.report import IMAGE
from tests.cluster.scenes.test_doctor import by_id
from tests.cluster.scenes.test_legacy import legacy
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_FIRST: Final = Path(__file__).parent / "first" / "gpuslice-0.1.0.tgz"
_ACCOUNTS: Final = ("gpuslice-node-agent", "gpuslice-webhook")
_WELL: Final = (
    *("mode", "device-classes", "webhook-configured", "webhook-endpoints", "webhook-answers"),
    *("webhook-certificate", "node-agents", "published-gpus", "slice-policies", "preflight"),
)
_MENDABLE: Final = {"failed", "warning"}


def node_of(release: Release) -> str:
    """Return the node that runs pods."""
    return release.cluster.node_names[0]


def claim_pod(release: Release, name: str, product: str = A10) -> list[dict[str, Any]]:
    """Return a pod with a share of 3000 MiB and 30 percent, and its claim."""
    request = manifests.request(memory="3000Mi", cores=30, product=product)
    return [
        manifests.claim(name, request),
        manifests.pod(name, {"gpu": name}, node=node_of(release)),
    ]


def legacy_pod(release: Release, name: str, product: str = "L4") -> dict[str, Any]:
    """Return a pod as a user of HAMi writes it."""
    limits = {"gpu": "1", "gpumem": "4096", "gpucores": "40"}
    return legacy(name, limits, node=node_of(release), gputype=product)


def examined(release: Release, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Have the doctor look at the cluster from here, with a preflight; its status and findings."""
    kubeconfig = str(release.cluster.kubeconfig)
    within = ("--only", "cluster", "--kubeconfig", kubeconfig, "-n", NAMESPACE)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main(["doctor", *within, "--preflight", *words, "-o", "json"])
    return status, by_id(printed.getvalue())


def clear(release: Release, *names: str) -> None:
    """Take pods and their claims away."""
    release.delete_pods(*names)
    for each in json.loads(release.client.get(paths.resource_claims("default")))["items"]:
        if not each["metadata"].get("ownerReferences"):
            release.client.delete(paths.resource_claims("default", each["metadata"]["name"]))


def test_claims_and_limits_become_pods(release: Release) -> None:
    """After `helm install` a claim and HAMi's words give a container the amounts they name."""
    release.create(*claim_pod(release, "claims"), legacy_pod(release, "legacy"))
    try:
        expect_limits(release.report("claims"), {A10: ("3000m", "30")})
        expect_limits(release.report("legacy"), {L4: ("4096m", "40")})
        assert not release.pods("scheduler"), "nobody needs a second scheduler here"
    finally:
        clear(release, "claims", "legacy")


@pytest.mark.parametrize("image", [(), ("--preflight-image", IMAGE)], ids=["own", "busybox"])
def test_doctor_finds_it_well(release: Release, image: tuple[str, ...]) -> None:
    """The doctor knows all that the chart makes, and a limit arrives with either image."""
    status, found = examined(release, *image)
    assert [each for each in found.values() if each["status"] in _MENDABLE] == []
    assert {name: found[name] for name in _WELL if found[name]["status"] != "ok"} == {}
    assert status == 0


def test_doctor_looks_at_the_node(release: Release) -> None:
    """The documents' command sees the node's files in the agent's container."""
    (agent,) = release.pods("node-agent")
    words = ("gpuslice", "doctor", "--only", "node", "--host-root", "/host", "-o", "json")
    where = ("exec", "-n", NAMESPACE, agent["metadata"]["name"], "--")
    kubectl = release.cluster.assets.path("kubectl")
    ran = release.cluster.run_in(kubectl, *where, *words, check=False)
    found = by_id(ran.stdout)
    # NVML is simulated in the agent's own process alone.
    assert [each for each in found.values() if each["status"] == "failed"] == [found["nvml"]]
    # Where the library is only the agent's own flags say.
    assert "libraries/libvgpu.so" in found["library"]["seen"]
    asked = ("runtime", "runtime-cdi", "kubelet-root", "registration", "library")
    assert {name: found[name] for name in asked if found[name]["status"] != "ok"} == {}


def test_upgrade_and_rollback_leave_pods_alone(prepared: Release) -> None:
    """From the chart's first release to this one and back, a pod runs on and others begin."""
    if prepared.revision():
        prepared.uninstall()
    prepared.install(chart=_unpacked(prepared, _FIRST))
    before = prepared.revision()
    prepared.create(*claim_pod(prepared, "stays"))
    try:
        expect_limits(prepared.report("stays"), {A10: ("3000m", "30")})
        started = prepared.pod("stays")["status"]["containerStatuses"]
        for number, back in enumerate((False, True)):
            _ = prepared.rollback(before) if back else prepared.upgrade()
            prepared.create(legacy_pod(prepared, f"begins-{number}"))
            expect_limits(prepared.report(f"begins-{number}"), {L4: ("4096m", "40")})
            assert prepared.pod("stays")["status"]["containerStatuses"] == started
    finally:
        clear(prepared, "stays", "begins-0", "begins-1")
    prepared.upgrade()


def _unpacked(release: Release, archive: Path) -> Path:
    folder = release.cluster.state_dir / "first"
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return folder / "gpuslice"


def test_rights_suffice(release: Release) -> None:
    """No program is refused anything that it asks for, from its first moment on."""
    release.uninstall()
    since = lines_of(release.cluster.state.audit_log)
    release.install()
    release.create(*claim_pod(release, "uses"), legacy_pod(release, "asks"))
    try:
        release.report("uses")
        release.report("asks")
    finally:
        clear(release, "uses", "asks")
    for account in _ACCOUNTS:
        assert not rights.refused(release.cluster.state.audit_log, account, since=since)


def test_uninstalling_leaves_what_the_documents_say(release: Release) -> None:
    """Nothing of ours stays in the cluster, and on the node only the library and the record."""
    release.create(*claim_pod(release, "last"), legacy_pod(release, "other"))
    release.report("last")
    release.report("other")
    clear(release, "last", "other")
    path = paths.resource_claim_templates("default")
    eventually(lambda: not json.loads(release.client.get(path))["items"], READY_S)
    release.uninstall()
    found = dict[str, list[str]]()

    def gone() -> bool:
        found.clear()
        found.update(_left(release))
        return found == {"namespaces": [NAMESPACE]}

    # Slices go when kubelet has missed the agent for half a minute.
    with contextlib.suppress(AssertionError):
        eventually(gone, READY_S)
    assert found == {"namespaces": [NAMESPACE]}
    release.client.delete(f"/api/v1/namespaces/{NAMESPACE}")


_KINDS: Final = (
    ("v1", "namespaces"),
    ("v1", "secrets"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    ("v1", "services"),
    ("v1", "persistentvolumeclaims"),
    ("apps/v1", "deployments"),
    ("apps/v1", "daemonsets"),
    ("batch/v1", "jobs"),
    ("coordination.k8s.io/v1", "leases"),
    ("resource.k8s.io/v1", "resourceslices"),
    ("resource.k8s.io/v1", "deviceclasses"),
    ("resource.k8s.io/v1", "resourceclaims"),
    ("resource.k8s.io/v1", "resourceclaimtemplates"),
    ("rbac.authorization.k8s.io/v1", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("rbac.authorization.k8s.io/v1", "roles"),
    ("rbac.authorization.k8s.io/v1", "rolebindings"),
    ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
)


def _left(release: Release) -> dict[str, list[str]]:
    """Return the names of what is ours, by kind; what every namespace has is not."""
    found = dict[str, list[str]]()
    for version, plural in _KINDS:
        listed = json.loads(release.client.get(paths.resource(version, plural)))["items"]
        ours = [
            each["metadata"]["name"]
            for each in listed
            if "gpuslice" in json.dumps([each["metadata"]["name"], each["metadata"].get("labels")])
            or each["metadata"].get("namespace") == NAMESPACE
        ]
        ours = [name for name in ours if name not in {"default", "kube-root-ca.crt"}]
        if ours:
            found[plural] = ours
    return found
