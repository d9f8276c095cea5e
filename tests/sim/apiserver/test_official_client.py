"""The official client works against the server as against any cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from tests.sim.apiserver.builders import (
    DRA,
    Served,
    allocation,
    claim,
    device,
    pod,
    resource_slice,
    served,
)


def _client(at: Served, folder: Path) -> Any:
    path = folder / "kubeconfig"
    at.server.write_kubeconfig(path)
    return kubernetes.config.new_client_from_config(str(path))


def _use_slices(client: Any) -> None:
    api = kubernetes.client.ResourceV1Api(client)
    made = api.create_resource_slice(resource_slice(device()))
    assert made.spec.devices[0].name == "gpu-0"
    listed = api.list_resource_slice(field_selector="spec.nodeName=node-a")
    assert [item.metadata.name for item in listed.items] == ["slice"]
    with pytest.raises(kubernetes.client.ApiException) as caught:
        api.create_resource_slice(resource_slice(device()))
    assert caught.value.status == 409
    assert json.loads(caught.value.body)["reason"] == "AlreadyExists"
    api.delete_resource_slice("slice")
    assert api.list_resource_slice().items == []


def _use_claims(client: Any) -> None:
    api = kubernetes.client.ResourceV1Api(client)
    made = api.create_namespaced_resource_claim("default", claim(capacity={"memory": "1Gi"}))
    assert made.spec.devices.requests[0].exactly.capacity.requests == {"memory": "1Gi"}
    patch = {"status": {"allocation": allocation(consumedCapacity={"memory": "1Gi"})}}
    answer = api.patch_namespaced_resource_claim_status("claim", "default", patch)
    assert answer.status.allocation.devices.results[0].consumed_capacity == {"memory": "1Gi"}


def _use_pods(client: Any) -> None:
    api = kubernetes.client.CoreV1Api(client)
    api.create_namespaced_pod("default", pod())
    watch = kubernetes.watch.Watch()
    seen = []
    for event in watch.stream(api.list_namespaced_pod, "default", timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "ADDED":
            api.delete_namespaced_pod("pod", "default", grace_period_seconds=0)
        else:
            watch.stop()
    assert seen == [("ADDED", "pod"), ("DELETED", "pod")]
    assert "default" in [item.metadata.name for item in api.list_namespace().items]


def _use_raw_paths(client: Any) -> None:
    version = kubernetes.client.VersionApi(client).get_code()
    assert version.git_version == "v1.37.0"
    groups = kubernetes.client.ApisApi(client).get_api_versions()
    assert "resource.k8s.io" in [group.name for group in groups.groups]
    resources = kubernetes.client.ResourceV1Api(client).get_api_resources()
    assert "resourceclaims" in [resource.name for resource in resources.resources]
    param = client.param_serialize("GET", f"{DRA}/resourceslices", auth_settings=["BearerToken"])
    response = client.call_api(*param)
    response.read()
    assert json.loads(response.data)["kind"] == "ResourceSliceList"


@pytest.mark.parametrize("use", [_use_slices, _use_claims, _use_pods, _use_raw_paths])
def test_the_official_client(use: Any, tmp_path: Path) -> None:
    """Typed calls, errors, watches and raw paths of the official client behave."""

    async def scene(at: Served) -> None:
        def run() -> None:
            with _client(at, tmp_path) as client:
                use(client)

        await asyncio.to_thread(run)

    served(scene)
