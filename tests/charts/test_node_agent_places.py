"""Where node agents go, and how one takes over from another."""

from typing import Final

import pytest

from tests.charts.nodeagent import CLIENT, daemon_set, goes_to, places, pod_spec
from tests.charts.rendering import container, merged, nested

GPU_LABELS: Final = (
    {"feature.node.kubernetes.io/pci-10de.present": "true"},
    {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
    {"feature.node.kubernetes.io/pci-0300_10de.present": "true"},
    {"feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA"},
    {"nvidia.com/gpu.present": "true"},
    {"gpu": "on"},
)
OTHER_LABELS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"kubernetes.io/hostname": "node-1"},
    {"feature.node.kubernetes.io/pci-8086.present": "true"},
    {"nvidia.com/gpu.present": "false"},
    {"gpu": "off"},
)


@pytest.mark.parametrize("labels", GPU_LABELS, ids=str)
def test_agents_go_where_gpus_are(labels: dict[str, str]) -> None:
    """The labels of feature discovery, of NVIDIA's and HAMi's each do alone."""
    agent = daemon_set()
    assert goes_to(agent, labels)
    assert goes_to(agent, labels | {CLIENT: "true"})


@pytest.mark.parametrize("labels", OTHER_LABELS, ids=str)
def test_agents_go_nowhere_else(labels: dict[str, str]) -> None:
    """A node without a sign of a GPU gets no agent, whatever the GPU Operator says of it."""
    assert not goes_to(daemon_set(), labels)
    assert not goes_to(daemon_set(), labels | {CLIENT: "true"})


@pytest.mark.parametrize("state", ["paused-for-driver-upgrade", "paused-for-mig-change", "false"])
@pytest.mark.parametrize("labels", GPU_LABELS, ids=str)
def test_agents_leave_nodes_on_which_the_operator_wants_no_client(
    labels: dict[str, str], state: str
) -> None:
    """Its label has to be true or absent for each sign of a GPU, unless that is switched off."""
    assert not goes_to(daemon_set(), labels | {CLIENT: state})
    off = nested("kubeletPlugin.operatorClientLabel", False)
    assert goes_to(daemon_set(off), labels | {CLIENT: state})


def test_an_affinity_of_ones_own_is_held_to_the_operators_label_too() -> None:
    """Each term of it gets the condition, and what else it says stays."""
    pool = {"key": "pool", "operator": "In", "values": ["a100"]}
    mine = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [pool]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                ]
            }
        },
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
    }
    agent = daemon_set(nested("kubeletPlugin.affinity", mine))
    assert goes_to(agent, {"pool": "a100"})
    assert not goes_to(agent, {"pool": "a100", CLIENT: "paused-for-mig-change"})
    assert not goes_to(agent, {"gpu": "on", "pool": "t4", CLIENT: "paused-for-mig-change"})
    assert [len(each["matchFields"]) for each in places(agent) if "matchFields" in each] == [1, 1]
    assert "podAntiAffinity" in pod_spec(agent)["affinity"]
    anywhere = daemon_set(
        nested("kubeletPlugin.affinity", {"podAntiAffinity": mine["podAntiAffinity"]})
    )
    assert goes_to(anywhere, {})
    assert not goes_to(anywhere, {CLIENT: "paused-for-mig-change"})


@pytest.mark.parametrize(
    ("mode", "kubernetes", "overlap"),
    [
        ("auto", "1.28.0", False),
        ("dra", "1.34.0", False),
        ("auto", "1.35.0", False),
        ("hami", "1.36.0", False),
        ("auto", "1.36.0", True),
        ("dra", "1.37.2", True),
    ],
)
def test_agents_overlap_where_every_kubelet_can_have_two(
    mode: str, kubernetes: str, *, overlap: bool
) -> None:
    """Two of a node have their pods' UIDs in the names of sockets; elsewhere one goes first."""
    agent = daemon_set({"mode": mode}, kubernetes=kubernetes)
    surge, unavailable = (1, 0) if overlap else (0, 1)
    assert agent["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }
    names = {each["name"] for each in container(agent, "node-agent")["env"]}
    assert ("GPUSLICE_POD_UID" in names) is overlap


def test_an_update_strategy_of_ones_own_decides_about_the_sockets_names() -> None:
    """Who lets agents overlap on 1.34 gets the UID, and who does not on 1.37 gets none."""
    surge = nested("kubeletPlugin.updateStrategy.rollingUpdate", {"maxSurge": "10%"})
    agent = daemon_set(merged(surge, {"mode": "dra"}), kubernetes="1.34.0")
    assert "GPUSLICE_POD_UID" in {each["name"] for each in container(agent, "node-agent")["env"]}
    deleted = daemon_set(nested("kubeletPlugin.updateStrategy.type", "OnDelete"))
    assert deleted["spec"]["updateStrategy"] == {"type": "OnDelete"}
    names = {each["name"] for each in container(deleted, "node-agent")["env"]}
    assert "GPUSLICE_POD_UID" not in names
