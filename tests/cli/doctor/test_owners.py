"""Checks of others who give GPUs away."""

from typing import Any

import pytest

from cli.doctor.cluster.owners import product_of
from cli.doctor.model import Status
from kube.cabundle import PLURALS, configuration_path
from tests.cli.doctor.world import (
    DAEMONSETS,
    NODES,
    SLICES,
    daemonset,
    node,
    part,
    pods,
    published,
    world,
)


@pytest.mark.parametrize(
    ("name", "image", "product"),
    [
        ("nvidia-device-plugin-daemonset", "k8s-device-plugin:v1", "NVIDIA's device plugin"),
        ("plugin", "example.com/nvidia/k8s-device-plugin:v0.17", "NVIDIA's device plugin"),
        ("hami-device-plugin", "example.com/projecthami/hami:v2.7", "HAMi's device plugin"),
        ("x-dra-driver-nvidia-gpu-kubelet-plugin", "example.com/a:1", "NVIDIA's DRA driver"),
        ("hami-dra-driver", "example.com/projecthami/k8s-dra-driver:1", "HAMi's DRA driver"),
        ("nvidia-gpu-device-plugin", "gke", "GKE's device plugin"),
        ("dcgm-exporter", "example.com/dcgm-exporter:1", None),
        ("calico-node", "example.com/calico:1", None),
    ],
)  # fmt: skip
def test_products_are_known(name: str, image: str, product: str | None) -> None:
    """A DaemonSet of another product is known by its name or its image."""
    found = product_of(daemonset(name, image))
    assert (found and found.name) == product


def test_daemonsets_of_others() -> None:
    """One that runs nowhere is no trouble, ours is none of others."""
    with world() as at:
        own = {"app.kubernetes.io/name": "gpuslice"}
        at.front.serve(
            DAEMONSETS,
            daemonset("nvidia-device-plugin", "a", scheduled=0),
            daemonset("gpuslice-node-agent", "nvidia-device-plugin", labels=own),
        )
        assert at.verdict("other-daemonsets").status is Status.OK
        at.front.serve(DAEMONSETS, daemonset("hami-device-plugin", "b", scheduled=3))
        verdict = at.verdict("other-daemonsets")
        assert verdict.status is Status.WARNING
        assert verdict.details == ("HAMi's device plugin: gpu/hami-device-plugin on 3 nodes",)


def test_same_gpus_twice() -> None:
    """A device plugin on one of our nodes fails, on another node it is a neighbour."""
    with world() as at:
        some = {"nvidia.com/gpu": "4", "cpu": "8"}
        at.put(SLICES, published("a"))
        at.put(
            NODES,
            node("a", allocatable={"nvidia.com/gpu": "0"}),
            node("b", allocatable=some),
            node(
                "c",
                allocatable={"nvidia.com/gpu": "10"},
                labels={"gpuslice.io/node-mode": "device-plugin"},
            ),
        )
        verdict = at.verdict("other-device-plugins")
        assert (verdict.status, verdict.details) == (Status.OK, ("b: nvidia.com/gpu",))
        at.put(SLICES, published("b"))
        verdict = at.verdict("other-device-plugins")
        assert (verdict.status, verdict.details) == (Status.FAILED, ("b: nvidia.com/gpu",))


def test_own_device_plugin_is_nobody_elses() -> None:
    """An agent that has registered the node's GPUs offers them itself, whatever labels say."""
    with world() as at:
        some = {"nvidia.com/gpu": "10"}
        register = {"hami.io/node-nvidia-register": "[]"}
        at.put(NODES, node("a", allocatable=some, annotations=register))
        pods(at.front)
        assert at.verdict("other-device-plugins").details == ("a: nvidia.com/gpu",)
        pods(at.front, part("node-agent", "one"))
        assert at.verdict("other-device-plugins").details == ()


def test_slices_of_other_drivers() -> None:
    """The same for drivers of claims; drivers of other hardware do not matter."""
    with world() as at:
        at.put(
            SLICES,
            published("a"),
            published("a", driver="net.example.com"),
            published("b", driver="gpu.nvidia.com"),
        )
        assert at.verdict("other-drivers").status is Status.OK
        at.put(SLICES, published("a", driver="hami-core-gpu.project-hami.io"))
        verdict = at.verdict("other-drivers")
        assert verdict.status is Status.FAILED
        assert verdict.details == ("hami-core-gpu.project-hami.io on a",)


@pytest.mark.parametrize(
    ("name", "remedy"), [("vgpu.hami.io", "hami.io/webhook"), ("gpu.example.com", "leaves pods")]
)
def test_webhooks_of_others(name: str, remedy: str) -> None:
    """HAMi's webhook and others about GPUs are told, one about something else is not."""
    with world() as at:
        path = configuration_path(PLURALS[0])
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
        }
        hook = {
            "clientConfig": {"url": "https://example.com/"},
            "rules": [rule],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "admissionReviewVersions": ["v1"],
        }
        for each in ("sidecar.example.com", "pods.gpuslice.io"):
            at.put(path, {"metadata": {"name": each}, "webhooks": [{**hook, "name": each}]})
        assert at.verdict("other-webhooks").status is Status.OK
        at.put(path, {"metadata": {"name": "other"}, "webhooks": [{**hook, "name": name}]})
        verdict = at.verdict("other-webhooks")
        assert (verdict.status, verdict.details) == (Status.WARNING, (f"other/{name}",))
        assert remedy in verdict.remedy


POLICY = "/apis/nvidia.com/v1/clusterpolicies"


def test_operator() -> None:
    """Its device plugin is on unless somebody has switched it off."""
    with world() as at:
        assert at.verdict("gpu-operator").status is Status.SKIPPED
        spec: dict[str, Any] = {"cdi": {"enabled": True}}
        at.front.serve(POLICY, {"metadata": {"name": "p"}, "spec": spec})
        verdict = at.verdict("gpu-operator")
        assert (verdict.status, "CDI on" in verdict.seen) == (Status.WARNING, True)
        spec["devicePlugin"] = {"enabled": False}
        assert at.verdict("gpu-operator").status is Status.OK


def test_operator_that_is_kept_away() -> None:
    """Where our nodes have the operator's label its device plugin is elsewhere, which is well."""
    kept = {"nvidia.com/gpu.deploy.device-plugin": "false"}
    with world() as at:
        at.front.serve(POLICY, {"metadata": {"name": "p"}, "spec": {}})
        at.put(NODES, node("a", labels=kept), node("b"))
        at.put(SLICES, published("a"))
        assert at.verdict("gpu-operator").status is Status.OK
        at.put(SLICES, published("b"))
        verdict = at.verdict("gpu-operator")
        assert (verdict.status, verdict.details) == (Status.WARNING, ("b",))


def test_daemonset_of_others_on_other_nodes() -> None:
    """Side by side on different nodes they are no trouble; on one of ours they are."""

    def plugin(on: str) -> dict[str, Any]:
        owner = {"kind": "DaemonSet", "name": "nvidia-device-plugin", "uid": "u"}
        metadata = {"name": f"plugin-{on}", "namespace": "gpu", "ownerReferences": [owner]}
        return {"metadata": metadata, "spec": {"nodeName": on}}

    with world() as at:
        found = daemonset("nvidia-device-plugin", "a")
        found["metadata"]["uid"] = "u"
        at.front.serve(DAEMONSETS, found).serve("/api/v1/namespaces/gpu/pods", plugin("b"))
        at.put(SLICES, published("a"))
        verdict = at.verdict("other-daemonsets")
        assert (verdict.status, "none of our nodes" in verdict.seen) == (Status.OK, True)
        at.front.serve("/api/v1/namespaces/gpu/pods", plugin("a"))
        assert at.verdict("other-daemonsets").status is Status.WARNING


def test_agents_alone_make_no_owner_of_others() -> None:
    """A remedy speaks of our agents only where there are some."""
    with world() as at:
        pods(at.front)
        at.front.serve(DAEMONSETS, daemonset("nvidia-device-plugin", "a"))
        assert "before our agent" in at.verdict("other-daemonsets").remedy
        at.put(SLICES, published("a"))
        assert "different nodes" in at.verdict("other-daemonsets").remedy
