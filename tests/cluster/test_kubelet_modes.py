"""Tests, on the real kubelet, of what the simulated one is built on (`sim/kubelet/release.py`).

A plugin of our own answers kubelet, and what kubelet made of it is read from its checkpoint.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kube import paths
from kube.client import Client
from protos import podresources_v1_pb2
from sim.kubelet.release import Release, release
from tests.cluster.cluster import RealCluster
from tests.cluster.device_stage import short
from tests.cluster.images import BUSYBOX
from tests.patience import eventually
from tests.sim.kubelet.device_plugin_server import pod_resources
from tests.sim.kubelet.plugin_server import DRIVER, Entry, PluginServer, good

pytestmark = pytest.mark.cluster

JsonObject = dict[str, Any]
_NAMESPACE: Final = "default"
_OTHER: Final = "nic.example.com"


class Stage:
    """A plugin on the first node, and the objects that make kubelet call it."""

    def __init__(self, cluster: RealCluster, client: Client, root: Path) -> None:
        self.client = client
        self.root = root
        self._cluster = cluster
        self.release: Release = release(cluster.options.minor)
        self._node = cluster.node_names[0]
        self._checkpoint = cluster.outside(cluster.kubelet_root / "dra_manager_state")
        self._cdi = cluster.outside(cluster.cdi_dir)
        self.plugin = PluginServer(root, own_endpoint=False).start()

    def claim(self, name: str, driver: str = DRIVER) -> str:
        """Create a claim that is allocated already, with a CDI device, and return its UID."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "none"}}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}},
        }
        made = json.loads(self.client.create(paths.resource_claims(_NAMESPACE), body))
        result = {"request": "gpu", "driver": driver, "pool": "pool", "device": name}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        path = paths.resource_claims(_NAMESPACE, name, "status")
        uid = str(json.loads(self.client.replace(path, made))["metadata"]["uid"])
        device = {"name": uid, "containerEdits": {"env": ["A=1"]}}
        spec = {"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": [device]}
        self._cdi.mkdir(parents=True, exist_ok=True)
        (self._cdi / f"{uid}.json").write_text(json.dumps(spec))
        return uid

    def pod(self, name: str, *claims: str) -> None:
        """Create a pod that uses *claims*, reserved for it, on the plugin's node."""
        names = [f"c{number}" for number in range(len(claims))]
        container = {
            "name": "main",
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "command": ["sleep", "1000"],
            "resources": {"claims": [{"name": each} for each in names]},
        }
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "schedulerName": "nobody",
                "containers": [container],
                "resourceClaims": [
                    {"name": each, "resourceClaimName": claim}
                    for each, claim in zip(names, claims, strict=True)
                ],
            },
        }
        made = json.loads(self.client.create(paths.pods(_NAMESPACE), body))
        user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
        for claim in dict.fromkeys(claims):
            found = json.loads(self.client.get(paths.resource_claims(_NAMESPACE, claim)))
            found["status"].setdefault("reservedFor", []).append(user)
            self.client.replace(paths.resource_claims(_NAMESPACE, claim, "status"), found)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }
        self.client.create(f"{paths.pods(_NAMESPACE, name)}/binding", binding)

    def ready(self, name: str) -> bool:
        """Tell whether the pod's container runs."""
        status = json.loads(self.client.get(paths.pods(_NAMESPACE, name)))["status"]
        return any("running" in one["state"] for one in status.get("containerStatuses", []))

    def end(self, name: str) -> None:
        """Delete a pod and wait until kubelet has let it go."""
        self.client.delete(paths.pods(_NAMESPACE, name))
        left = f"metadata.name={name}"
        pods = paths.pods(_NAMESPACE)
        eventually(lambda: not json.loads(self.client.get(pods, {"fieldSelector": left}))["items"])

    def remove(self, name: str) -> None:
        """Delete a pod by force, whatever kubelet still does for it."""
        command = ("delete", "pod", name, "--force", "--grace-period=0")
        self._cluster.kubectl(*command)

    def said(self, pod: str, part: str) -> bool:
        """Tell whether an event of *pod* says *part*."""
        events = json.loads(self.client.get(paths.events(_NAMESPACE)))["items"]
        return any(
            part in one.get("message", "") and one["involvedObject"].get("name") == pod
            for one in events
        )

    def noted(self) -> dict[str, list[str]]:
        """Return the CDI names that kubelet has on record, by claim UID."""
        outer = json.loads(self._checkpoint.read_text())
        claims = json.loads(outer["Data"])["ClaimInfoStateList"] or []
        return {
            claim["ClaimUID"]: [
                name
                for driver in claim["DriverState"].values()
                for device in driver["Devices"] or []
                for name in device["CDIDeviceIDs"]
            ]
            for claim in claims
        }


@pytest.fixture
def stage(cluster: RealCluster) -> Iterator[Stage]:
    """Return a stage whose plugin kubelet has registered; its objects are gone afterwards."""
    with cluster.client() as client, short(cluster.outside(cluster.kubelet_root)) as root:
        made = Stage(cluster, client, root)
        try:
            eventually(lambda: made.plugin.statuses == [(True, "")])
            yield made
            pods = json.loads(client.get(paths.pods(_NAMESPACE)))["items"]
            for pod in pods:
                made.end(pod["metadata"]["name"])
            for claim in json.loads(client.get(paths.resource_claims(_NAMESPACE)))["items"]:
                client.delete(paths.resource_claims(_NAMESPACE, claim["metadata"]["name"]))
        finally:
            made.plugin.stop()


def test_a_second_answer(stage: Stage) -> None:
    """An answer to a repeated call is added to the first one's, or replaces it."""
    uid, _ = stage.claim("one"), stage.claim("two")

    def incomplete(uids: list[str]) -> dict[str, Entry]:
        stage.plugin.prepare = good
        return {one: entry for one, entry in good(uids).items() if one == uid}

    stage.plugin.prepare = incomplete
    stage.pod("pod", "one", "two")
    eventually(lambda: stage.ready("pod"))
    name = f"example.com/gpu={uid}"
    assert stage.noted()[uid] == [name] * (2 if stage.release.appends_devices else 1)


def test_a_pod_that_never_got_its_claims(stage: Stage) -> None:
    """The end of a pod that was refused takes a claim from another pod, or leaves it alone."""
    uid = stage.claim("shared")
    stage.claim("absent", _OTHER)
    stage.pod("first", "shared")
    eventually(lambda: stage.ready("first"))
    stage.pod("second", "shared", "absent")
    eventually(lambda: stage.said("second", f"DRA driver {_OTHER} is not registered"))
    stage.end("second")
    taken = stage.release.unprepares_by_spec
    assert stage.plugin.made("unprepare") == ([[uid]] if taken else [])
    assert (uid not in stage.noted()) is taken


def test_a_claim_that_a_pod_names_twice(stage: Stage) -> None:
    """Kubelet asks for it twice in one call and misses the second answer; 1.36 never ends it."""
    uid = stage.claim("twice")
    stage.pod("twofold", "twice", "twice")
    eventually(lambda: stage.said("twofold", "NodePrepareResources skipped 1 ResourceClaims"))
    assert stage.plugin.made("prepare")[0] == [uid, uid]
    stage.client.delete(paths.pods(_NAMESPACE, "twofold"))
    names = 2 if stage.release.unprepares_by_spec else 1
    eventually(lambda: stage.plugin.made("unprepare")[:1] == [[uid] * names])
    if stage.release.unprepares_by_spec:
        # Only force gets rid of it, and kubelet forgets it in its own time.
        eventually(lambda: len(stage.plugin.made("unprepare")) > 1)
        stage.remove("twofold")


def test_a_health_stream_that_was_not_offered(stage: Stage) -> None:
    """1.36 opens v1alpha1 all the same."""
    stage.claim("meanwhile")
    stage.pod("meanwhile", "meanwhile")
    eventually(lambda: stage.ready("meanwhile"))
    opened = ["v1alpha1"] if stage.release.health_unasked else []
    assert stage.plugin.health_services[:1] == opened


def test_pod_resources_of_a_claim(stage: Stage) -> None:
    """PodResources name a claim with driver, pool, device, CDI name and, since 1.35, share."""
    uid = stage.claim("told")
    stage.plugin.prepare = lambda uids: {
        one: Entry(cdi=(f"example.com/gpu={one}",), share_id="share") for one in uids
    }
    stage.pod("told", "told")
    eventually(lambda: stage.ready("told"))
    answer = pod_resources(stage.root, "List", podresources_v1_pb2.ListPodResourcesRequest())
    (pod,) = [one for one in answer.pod_resources if one.name == "told"]
    (claim,) = pod.containers[0].dynamic_resources
    assert (claim.claim_namespace, claim.claim_name) == (_NAMESPACE, "told")
    (device,) = claim.claim_resources
    assert (device.driver_name, device.pool_name) == (DRIVER, "pool")
    assert [one.name for one in device.cdi_devices] == [f"example.com/gpu={uid}"]
    assert device.share_id == ("share" if stage.release.knows_share_id else "")
