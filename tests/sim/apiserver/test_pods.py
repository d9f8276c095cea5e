"""Pods: binding, graceful deletion, what may change, claims in the spec."""

from typing import Any

import pytest

from tests.sim.apiserver.builders import PODS, Served, fields, pod, refused, served


async def _bind(at: Served, name: str = "pod", node: str = "node-a") -> int:
    metadata = {"name": name, "annotations": {"bound": "yes"}}
    body = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
    return (await at.wire.post(f"{PODS}/{name}/binding", body))[0]


def test_a_pod_is_bound_once() -> None:
    """A binding sets node and condition, annotates, and a second one conflicts."""

    async def scene(at: Served) -> None:
        await at.wire.post(PODS, pod())
        assert await _bind(at) == 201
        _, bound = await at.wire.get(f"{PODS}/pod")
        assert bound["spec"]["nodeName"] == "node-a"
        assert bound["metadata"]["annotations"] == {"bound": "yes"}
        condition = bound["status"]["conditions"][0]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        assert await _bind(at, node="node-b") == 409
        assert await _bind(at, name="none") == 404

    served(scene)


def test_a_bound_pod_waits_for_its_kubelet() -> None:
    """Deletion of a bound pod marks it; grace 0, as a kubelet sends it, removes it."""

    async def scene(at: Served) -> None:
        await at.wire.post(PODS, pod())
        await _bind(at)
        status, marked = await at.wire.delete(f"{PODS}/pod")
        assert status == 200
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        assert marked["metadata"]["deletionTimestamp"]
        assert await at.wire.get(f"{PODS}/pod") == (200, marked)
        _, shorter = await at.wire.delete(f"{PODS}/pod", {"gracePeriodSeconds": 5})
        assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
        _, same = await at.wire.delete(f"{PODS}/pod?gracePeriodSeconds=60")
        assert same["metadata"]["deletionGracePeriodSeconds"] == 5
        assert (await at.wire.delete(f"{PODS}/pod?gracePeriodSeconds=0"))[0] == 200
        assert (await at.wire.get(f"{PODS}/pod"))[0] == 404

    served(scene)


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
def test_a_pod_that_runs_nowhere_goes_at_once(phase: str) -> None:
    """Unbound and finished pods need no grace."""

    async def scene(at: Served) -> None:
        await at.wire.post(PODS, pod())
        if phase:
            await _bind(at)
            await at.wire.patch(f"{PODS}/pod/status", {"status": {"phase": phase}})
        await at.wire.delete(f"{PODS}/pod")
        assert (await at.wire.get(f"{PODS}/pod"))[0] == 404

    served(scene)


def test_a_pod_with_a_finalizer_outlives_its_kubelet() -> None:
    """Grace 0 does not overrule finalizers."""

    async def scene(at: Served) -> None:
        wanted = pod()
        wanted["metadata"]["finalizers"] = ["example.com/hold"]
        await at.wire.post(PODS, wanted)
        await _bind(at)
        await at.wire.delete(f"{PODS}/pod?gracePeriodSeconds=0")
        assert (await at.wire.get(f"{PODS}/pod"))[0] == 200
        await at.wire.patch(f"{PODS}/pod", {"metadata": {"finalizers": None}})
        assert (await at.wire.get(f"{PODS}/pod"))[0] == 404

    served(scene)


def test_most_of_a_pods_spec_is_fixed() -> None:
    """The image may change, the claims and the node may not."""

    async def scene(at: Served) -> None:
        made = await at.api.create("pods", pod(), "default")
        made["spec"]["containers"][0]["image"] = "image:2"
        made["spec"]["tolerations"] = [{"operator": "Exists"}]
        made = await at.api.update("pods", made)
        assert made["metadata"]["generation"] == 2
        for change in (
            {"nodeName": "node-a"},
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]},
            {"hostNetwork": True},
        ):
            spec = {**made["spec"], **change}
            error = await refused(at.api.update("pods", {**made, "spec": spec}))
            assert (error.code, fields(error)) == (422, ["spec"])

    served(scene)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims[0]"),
        (
            {
                "resourceClaims": [
                    {"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}
                ]
            },
            "spec.resourceClaims[0]",
        ),
        (
            {
                "resourceClaims": [
                    {"name": "gpu", "resourceClaimName": "a"},
                    {"name": "gpu", "resourceClaimName": "b"},
                ]
            },
            "spec.resourceClaims[1].name",
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"claims": [{"name": "none"}]}}
                ]
            },
            "spec.containers[0].resources.claims[0]",
        ),
        ({"containers": [{"name": "c", "image": "i"}] * 2}, "spec.containers[1].name"),
        ({"containers": []}, "spec.containers"),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
                ]
            },
            "spec.containers[0].resources.limits",
        ),
    ],
)
def test_pods_that_are_refused(spec: dict[str, Any], field: str) -> None:
    """Claims and containers must fit together; the answer names the place."""

    async def scene(at: Served) -> None:
        error = await refused(at.api.create("pods", pod(**spec), "default"))
        assert (error.code, fields(error)) == (422, [field])

    served(scene)


def test_limits_are_requests_too() -> None:
    """A limit without a request counts as request."""

    async def scene(at: Served) -> None:
        limits = {"nvidia.com/gpu": "1", "memory": "1024Mi"}
        wanted = pod(containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])
        made = await at.api.create("pods", wanted, "default")
        requests = made["spec"]["containers"][0]["resources"]["requests"]
        assert requests == {"nvidia.com/gpu": "1", "memory": "1Gi"}

    served(scene)
