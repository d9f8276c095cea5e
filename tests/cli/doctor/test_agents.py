"""Checks of node agents and of what they offer."""

from cli.doctor.cluster.view import NAME_LABEL
from cli.doctor.model import Status
from tests.cli.doctor.hooking import configurations, configure
from tests.cli.doctor.world import (
    DAEMONSETS,
    NODES,
    POLICIES,
    SLICES,
    ago,
    daemonset,
    node,
    part,
    pods,
    published,
    world,
)

REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
AGENT = "node-agent"


def test_agents_are_ready() -> None:
    """All agents are ready, and the DaemonSet that they are of is named."""
    with world() as at:
        at.put(NODES, node("a", labels={"nvidia.com/gpu.present": "true"}))
        pods(at.front, part(AGENT, "one"), part("webhook", "two"))
        labels = {
            "app.kubernetes.io/name": "gpuslice",
            "app.kubernetes.io/component": "node-agent",
        }
        at.front.serve(DAEMONSETS, daemonset("agents", "x", labels=labels))
        assert at.verdict("node-agents").seen == "1 agent, all ready (gpu/agents)"


def test_agent_that_is_not_ready() -> None:
    """It is named with its node."""
    with world() as at:
        pods(at.front, part(AGENT, "one", ready=False), part(AGENT, "two", on="b"))
        verdict = at.verdict("node-agents")
        assert verdict.status is Status.FAILED
        assert verdict.seen == "1 of 2 agents not ready: one on a"


def test_node_without_an_agent() -> None:
    """A node that others say has GPUs, and no agent, is told."""
    with world() as at:
        gpu = {"feature.node.kubernetes.io/pci-10de.present": "true"}
        at.put(NODES, node("a", labels=gpu), node("b", labels=gpu), node("c"))
        pods(at.front, part(AGENT, "one"))
        verdict = at.verdict("node-agents")
        assert (verdict.status, verdict.details) == (Status.WARNING, ("b",))


def test_nobody_serves() -> None:
    """Without agents nothing works; slices without agents are odd."""
    with world() as at:
        pods(at.front)
        assert at.verdict("node-agents").status is Status.FAILED
        at.put(SLICES, published("a"))
        assert at.verdict("node-agents").status is Status.WARNING


def test_what_is_published() -> None:
    """Devices in slices and in annotations are counted, whichever way a node serves."""
    with world() as at:
        plugin = {"gpuslice.io/node-mode": "device-plugin"}
        register = {REGISTER: '[{"id":"GPU-1"},{"id":"GPU-2"}]'}
        at.put(NODES, node("a"), node("b", labels=plugin, annotations=register))
        at.put(SLICES, published("a"))
        pods(at.front, part(AGENT, "one"), part(AGENT, "two", on="b"))
        said = "1 device of 1 node in slices, 2 GPUs in annotations"
        assert at.verdict("published-gpus").seen == said


def test_agent_without_devices() -> None:
    """An agent that offers nothing is a failure, in either mode."""
    with world() as at:
        plugin = {"gpuslice.io/node-mode": "device-plugin"}
        at.put(NODES, node("a"), node("b", labels=plugin))
        pods(at.front, part(AGENT, "one"), part(AGENT, "two", on="b"))
        verdict = at.verdict("published-gpus")
        assert verdict.status is Status.FAILED
        assert verdict.details == (
            "a: an agent and no device",
            "b: no registration annotation",
        )


def test_incomplete_pool() -> None:
    """The scheduler takes nothing of a pool of which a slice is missing."""
    with world() as at:
        at.put(NODES, node("a"))
        at.put(SLICES, published("a", count=2))
        verdict = at.verdict("published-gpus")
        assert (verdict.status, verdict.seen) == (
            Status.FAILED,
            "a: 1 of 2 slices of the newest generation",
        )


def test_slices_of_a_node_that_is_gone() -> None:
    """They stay when the driver was removed before its node."""
    with world() as at:
        at.put(NODES, node("a"))
        at.put(SLICES, published("b"))
        assert at.verdict("published-gpus").seen == "b: slices of a node that is gone"


def test_tainted_device() -> None:
    """A device that gets no new work is named with the reason."""
    with world() as at:
        at.put(SLICES, published("a"))
        assert at.verdict("tainted-gpus").status is Status.OK
        taint = {"key": "gpuslice.io/unhealthy", "value": "Xid79", "effect": "NoSchedule"}
        at.put(SLICES, published("b", taints=[taint]))
        verdict = at.verdict("tainted-gpus")
        assert verdict.status is Status.WARNING
        assert verdict.details == ("b/gpu-0: gpuslice.io/unhealthy=Xid79",)


def test_silent_device_plugin() -> None:
    """A question that stands since yesterday is not answered; one of just now may be."""
    with world() as at:
        assert at.verdict("registrations").status is Status.SKIPPED
        just = f"Requesting_{ago(seconds=5)[:19].replace('T', ' ')}"
        old = f"Requesting_{ago(days=2)[:19].replace('T', ' ')}"
        at.put(NODES, node("a", annotations={REGISTER: "[]", HANDSHAKE: just}))
        assert at.verdict("registrations").status is Status.OK
        at.put(NODES, node("b", annotations={REGISTER: "[]", HANDSHAKE: old}))
        verdict = at.verdict("registrations")
        assert (verdict.status, verdict.details) == (Status.WARNING, ("b",))


def test_namespace_that_is_given() -> None:
    """There all is ours, whatever name the chart has got, and no other namespace is listed."""
    with world() as at:
        renamed = part(AGENT, "one")
        renamed["metadata"]["labels"]["app.kubernetes.io/name"] = "shares"
        at.front.serve("/api/v1/namespaces/mine/pods", renamed)
        at.front.refused.append(("GET", "/api/v1/pods"))
        assert [
            each["metadata"]["name"] for each in at.cluster(namespace="mine").own_pods(AGENT)
        ] == ["one"]


def test_another_name_is_that_of_the_configurations() -> None:
    """With the chart's `nameOverride` the webhook's configurations say what pods are called."""
    with world() as at:
        found = configurations()
        for each in found:
            each["metadata"]["labels"][NAME_LABEL] = "cards"
        configure(at, found)
        pod = part("node-agent", "one")
        pod["metadata"]["labels"][NAME_LABEL] = "cards"
        pods(at.front, pod)
        assert at.verdict("node-agents").seen == "1 agent, all ready"


def test_policies() -> None:
    """Where there are GPUs an agent should be kept from the slices of others."""
    with world() as at:
        assert at.verdict("slice-policies").status is Status.SKIPPED
        at.put(SLICES, published("a"))
        assert at.verdict("slice-policies").status is Status.WARNING
        at.front.serve(POLICIES, {"metadata": {"name": "rel-gpuslice-own-slices"}})
        assert at.verdict("slice-policies").status is Status.OK
        at.front.missing.append(POLICIES)
        assert at.verdict("slice-policies").status is Status.SKIPPED
