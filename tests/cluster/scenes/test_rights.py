"""Scenes of rights: the agents run with what the chart gives them, and that is little."""

import json
import re
from typing import Any

import pytest

from gpu import names
from kube import paths
from kube.client import Client
from kube.config import in_cluster_config
from kube.errors import ForbiddenError, InvalidError
from tests.cluster.scenes import manifests
from tests.cluster.scenes.agents import NAMESPACE
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.stage import TEST_DOMAIN, Stage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_DRY_RUN = {"dryRun": "All"}


def agent_client(driver: Driver, node: str) -> Client:
    """Return a client with the very token that the agent of *node* uses."""
    identity = driver.agents[node].identity
    config = in_cluster_config(identity, driver.cluster.in_cluster_environment())
    return Client(config, user_agent="gpuslice-tests")


def slice_for(node: str, driver: str = names.DRIVER) -> dict[str, Any]:
    """Return a slice without devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"forged-{node}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": f"forged-{node}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "forged"}],
        },
    }


REQUESTS = [
    manifests.request(name, device_class=f"{name}{TEST_DOMAIN}") for name in ("gpu", "card")
]


def given(node: str) -> dict[str, Any]:
    """Return the status of a claim that was given a device of ours and one of another driver."""
    results = [
        {"request": request, "driver": driver, "pool": node, "device": "device"}
        for request, driver in (("gpu", names.DRIVER), ("card", "net.example.com"))
    ]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}


def status_entry(node: str, driver: str = names.DRIVER) -> dict[str, Any]:
    """Return what the status says of a device that is ill."""
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Xid79",
        "message": "fallen off the bus",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    named = {"driver": driver, "pool": node, "device": "device"}
    return named | {"conditions": [condition]}


def attempt_status(client: Client, **status: Any) -> dict[str, Any]:
    """Try to change the claim's status and return what it would be."""
    claim = json.loads(client.get(paths.resource_claims("default", "given")))
    claim["status"] |= status
    path = paths.resource_claims("default", "given", "status")
    return dict(json.loads(client.replace(path, claim, _DRY_RUN)))


def refusal(client: Client, body: dict[str, Any]) -> str:
    """Return why *body* is refused; fail when it is not."""
    with pytest.raises((ForbiddenError, InvalidError)) as refused:
        client.create(paths.resource_slices(), body, _DRY_RUN)
    return str(refused.value)


@pytest.mark.scene("another node's slice is refused")
def test_slice_of_another_node(driver: Driver) -> None:
    """An agent's token writes slices of its own node and driver, and changes no others."""
    first, second, third = driver.cluster.node_names
    client = agent_client(driver, second)
    client.create(paths.resource_slices(), slice_for(second), _DRY_RUN)
    said = f"the node agent of {second} writes slices of that node only"
    for other in (first, third):
        assert said in refusal(client, slice_for(other))
    assert "driver gpuslice.io only" in refusal(client, slice_for(second, "gpu.example.com"))
    slices = json.loads(client.get(paths.resource_slices()))["items"]
    foreign = next(each for each in slices if each["spec"]["nodeName"] == first)
    path = paths.resource_slices(foreign["metadata"]["name"])
    with pytest.raises((ForbiddenError, InvalidError), match=said):
        client.replace(path, foreign, _DRY_RUN)
    with pytest.raises((ForbiddenError, InvalidError), match=said):
        client.delete(path)
    client.close()


@pytest.mark.scene("a token of no node is refused")
def test_token_without_node(driver: Driver) -> None:
    """A token of the agent's account that is bound to no pod writes no slice at all."""
    token = driver.cluster.kubectl("create", "token", "gpuslice-node-agent", f"-n{NAMESPACE}")
    folder = driver.cluster.state_dir / "identities" / "unbound"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes((driver.first.identity / "ca.crt").read_bytes())
    config = in_cluster_config(folder, driver.cluster.in_cluster_environment())
    client = Client(config, user_agent="gpuslice-tests")
    first = driver.cluster.node_names[0]
    assert "has to be bound to a pod on a node" in refusal(client, slice_for(first))
    client.close()


@pytest.mark.scene("an agent writes the state of its own devices alone")
def test_status_of_own_devices(driver: Driver, stage: Stage) -> None:
    """An agent's token changes in a claim's status the entries of its own node's devices alone."""
    _, node, other = driver.cluster.node_names
    stage.client.create(paths.resource_claims("default"), manifests.claim("given", *REQUESTS))
    path = paths.resource_claims("default", "given", "status")
    stage.client.replace(path, json.loads(stage.client.get(path)) | {"status": given(node)})
    client = agent_client(driver, node)
    entries = [status_entry(node), status_entry(node, "net.example.com")]
    changed = attempt_status(client, devices=entries[:1])
    assert changed["status"]["devices"] == entries[:1]
    written = client.replace(path, changed)
    assert json.loads(written)["status"]["devices"] == entries[:1]
    for refused in (
        {"devices": entries},
        {"allocation": None},
        {"reservedFor": [{"resource": "pods", "name": "any", "uid": "any"}]},
    ):
        with pytest.raises((ForbiddenError, InvalidError)):
            attempt_status(client, **refused)
    stranger = agent_client(driver, other)
    with pytest.raises((ForbiddenError, InvalidError), match=re.escape(names.DRIVER)):
        attempt_status(stranger, devices=[])
    client.close()
    stranger.close()


@pytest.mark.scene("the agent's rights are as small as its role says")
def test_rights_are_small(driver: Driver) -> None:
    """The agent reads claims and nodes, and can neither change them nor touch pods and secrets."""
    node = driver.cluster.node_names[0]
    client = agent_client(driver, node)
    for path in (paths.resource_claims(), paths.nodes(), paths.nodes(node)):
        client.get(path)
    claim = {"metadata": {"name": "any"}, "spec": {"devices": {}}}
    for attempt in (
        lambda: client.get("/api/v1/secrets"),
        lambda: client.create(paths.resource_claims("default"), claim),
        lambda: client.replace(paths.resource_claims("default", "any"), claim),
        lambda: client.delete(paths.resource_claims("default", "any")),
        lambda: client.create(paths.nodes(), {"metadata": {"name": "any"}}),
        lambda: client.delete(paths.pods("default", "any")),
        lambda: client.create(paths.pods("default"), {"kind": "Pod", "apiVersion": "v1"}),
        lambda: client.delete(paths.nodes(node)),
    ):
        with pytest.raises(ForbiddenError):
            attempt()
    client.close()
