"""Scenes of rights: the agents run with what the chart gives them, and that is little."""

import json
from typing import Any

import pytest

from gpu import names
from kube import paths
from kube.client import Client
from kube.config import in_cluster_config
from kube.errors import ForbiddenError, InvalidError
from tests.cluster.scenes.agents import NAMESPACE
from tests.cluster.scenes.driver import Driver

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


@pytest.mark.scene("the agent's rights are as small as its role says")
def test_rights_are_small(driver: Driver) -> None:
    """The agent can neither write claims nor touch pods and secrets."""
    client = agent_client(driver, driver.cluster.node_names[0])
    for attempt in (
        lambda: client.get("/api/v1/secrets"),
        lambda: client.get(paths.resource_claims()),
        lambda: client.delete(paths.pods("default", "any")),
        lambda: client.create(paths.pods("default"), {"kind": "Pod", "apiVersion": "v1"}),
        lambda: client.delete(paths.nodes(driver.cluster.node_names[0])),
    ):
        with pytest.raises(ForbiddenError):
            attempt()
    client.close()
