"""Scenes in which parts of a node end and come back while claims are held."""

import json
from functools import partial

import pytest

from gpu import names
from kube import paths
from tests.cluster.scenes.driver import devices_of
from tests.cluster.scenes.expectations import A10, expect_limits, expect_whole
from tests.cluster.scenes.manifests import claim, pod, request
from tests.cluster.scenes.restarts import restart_kubelet
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.scene("the agent is restarted")
def test_agent_restart(stage: Stage) -> None:
    """A container runs on while the agent is restarted, and its share is given back afterwards."""
    asked = claim("kept", request(memory="1Gi", product=A10))
    before = stage.run(asked, pod("kept", {"gpu": "kept"}, node=stage.node))["kept"]
    expect_limits(before, {A10: ("1024m", "100")})
    stage.driver.restart_first()
    stage.create(pod("joins", {"gpu": "kept"}, node=stage.node))
    expect_limits(stage.report("joins"), {A10: ("1024m", "100")})
    assert stage.pod("kept")["status"]["containerStatuses"][0]["restartCount"] == 0
    stage.delete("Pod", "kept")
    stage.delete("Pod", "joins")
    assert not stage.driver.specs()


@pytest.mark.scene("kubelet is restarted")
def test_kubelet_restart(stage: Stage) -> None:
    """Kubelet deletes the node's slices when it starts; they come back, and containers run on."""
    asked = claim("kept", request(device_class=names.CLASS_WHOLE, product=A10))
    expect_whole(stage.run(asked, pod("kept", {"gpu": "kept"}, node=stage.node))["kept"], A10)
    offered = [each["name"] for each in devices_of(stage.client, stage.node)]
    before = slice_uids(stage)
    restart_kubelet(stage.driver.cluster)
    eventually(lambda: not before & slice_uids(stage))
    eventually(lambda: [each["name"] for each in devices_of(stage.client, stage.node)] == offered)
    eventually(stage.driver.first.ready)
    stage.create(pod("joins", {"gpu": "kept"}, node=stage.node))
    expect_whole(stage.report("joins"), A10)
    assert stage.pod("kept")["status"]["containerStatuses"][0]["restartCount"] == 0
    for name in ("kept", "joins"):
        stage.delete("Pod", name)
    assert not stage.driver.specs()


def slice_uids(stage: Stage) -> set[str]:
    """Return the UIDs of the slices of the node with a kubelet."""
    slices = json.loads(stage.client.get(paths.resource_slices()))["items"]
    return {each["metadata"]["uid"] for each in slices if each["spec"]["nodeName"] == stage.node}


@pytest.mark.scene("a pod that is deleted by force")
def test_forced_deletion(stage: Stage) -> None:
    """The next pod waits with the reason until the first one's container is gone from the node."""
    asked = request(device_class=names.CLASS_WHOLE, product=A10)
    first = pod("first", {"gpu": "first"}, node=stage.node)
    # It does not end when it is told to, so that there is a time to look at.
    first["spec"]["terminationGracePeriodSeconds"] = 5
    (container,) = first["spec"]["containers"]
    container["command"][-1] = container["command"][-1].replace("'exit 0'", "''")
    stage.run(claim("first", asked), first)
    stage.force_delete("first")
    stage.delete("ResourceClaim", "first")
    stage.create(claim("next", asked), pod("next", {"gpu": "next"}, node=stage.node))
    refused = stage.told("next", "FailedPrepareDynamicResources")
    # The second where the GPU could be shared.
    assert "DeviceInUse" in refused or "CapacityExceeded" in refused
    assert "`default/first`" in refused
    expect_whole(stage.report("next"), A10)
    assert len(stage.driver.specs()) == 1


@pytest.mark.scene("a slice that somebody deletes")
def test_deleted_slice(stage: Stage) -> None:
    """Each agent writes its slice anew when it is gone."""
    before = slice_uids(stage)
    for each in json.loads(stage.client.get(paths.resource_slices()))["items"]:
        stage.client.delete(paths.resource_slices(each["metadata"]["name"]))
    for node in stage.driver.agents:
        eventually(partial(devices_of, stage.client, node))
    assert not before & slice_uids(stage)


@pytest.mark.scene("a CDI spec that somebody deletes")
def test_deleted_spec(stage: Stage) -> None:
    """The spec comes back without a call of kubelet, and the container can start again with it."""
    stage.run(
        claim("kept", request(memory="1Gi", cores=30, product=A10)),
        pod("kept", {"gpu": "kept"}, node=stage.node),
    )
    (spec,) = stage.driver.specs()
    text = spec.read_bytes()
    spec.unlink()
    eventually(lambda: stage.driver.specs() == [spec])
    assert spec.read_bytes() == text
    stage.driver.cluster.kubectl("exec", "kept", "--", "kill", "1")
    eventually(lambda: stage.pod("kept")["status"]["containerStatuses"][0]["restartCount"] == 1)
    expect_limits(stage.report("kept"), {A10: ("1024m", "30")})
