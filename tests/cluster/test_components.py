"""Tests of what the components are told."""

import argparse
import json
import tomllib
from pathlib import Path

import pytest

from tests.cluster.__main__ import gates, parser
from tests.cluster.assets import Assets
from tests.cluster.cni import write_config
from tests.cluster.components import (
    Component,
    Options,
    api_server,
    controller_manager,
    filesystem_of,
    kubelet,
    scheduler,
    write_containerd_config,
    write_kubelet_config,
)
from tests.cluster.down import cgroup_roots
from tests.cluster.go_modules import modules_of
from tests.cluster.init import mount_commands, network_commands
from tests.cluster.places import State, node_address, node_names
from tests.cluster.virtual_nodes import node_object, status_of

STATE = State(Path("/state/scene"))
ASSETS = Assets(
    minor="1.37",
    programs={name: Path("/bin", name) for each in modules_of("1.37") for name in each.programs},
)


def components(options: Options) -> list[Component]:
    """Return all components that have feature gates."""
    return [
        api_server(ASSETS, STATE, options),
        controller_manager(ASSETS, STATE, options),
        scheduler(ASSETS, STATE, options),
        kubelet(ASSETS, STATE, options, "node-1"),
    ]


def test_gates_reach_every_component() -> None:
    """A gate that is switched is switched everywhere, for each component judges by its own."""
    options = Options(gates={"DRADeviceTaints": False, "DRAConsumableCapacity": True})
    flag = "--feature-gates=DRAConsumableCapacity=true,DRADeviceTaints=false"
    assert all(flag in component.command for component in components(options))
    plain = [word for each in components(Options()) for word in each.command]
    assert not any(word.startswith("--feature-gates") for word in plain)


def test_api_versions_are_served_on_demand() -> None:
    """Only the API versions that are asked for are added."""
    command = api_server(ASSETS, STATE, Options(apis=("resource.k8s.io/v1beta2",))).command
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in command
    assert "--runtime-config" not in " ".join(api_server(ASSETS, STATE, Options()).command)
    changed = Options(apis=("a/v1beta1",), without_apis=("a/v1", "a/v1beta2"))
    flag = "--runtime-config=a/v1beta1=true,a/v1=false,a/v1beta2=false"
    assert flag in api_server(ASSETS, STATE, changed).command


def test_configurations_are_well_formed(tmp_path: Path) -> None:
    """containerd, kubelet and the network plugins get files in the form they read."""
    state = State(tmp_path / "state")
    state.make()
    write_containerd_config(state, cni_folder="/cni", runc="/sbin/runc")
    write_kubelet_config(state)
    write_config(state.config / "cni")
    containerd = tomllib.loads((state.config / "containerd.toml").read_text())
    runtime = containerd["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["cni"]["bin_dirs"] == ["/cni"]
    assert runtime["cdi_spec_dirs"] == ["/etc/cdi", "/run/cdi"]
    agent = json.loads((state.config / "kubelet.json").read_text())
    assert agent["containerRuntimeEndpoint"] == f"unix://{containerd['grpc']['address']}"
    assert agent["cgroupRoot"] == state.cgroup
    network = json.loads((state.config / "cni" / "10-pods.conflist").read_text())
    assert [plugin["type"] for plugin in network["plugins"]] == ["bridge", "loopback"]


def test_clusters_have_cgroups_of_their_own() -> None:
    """Clusters side by side do not share a cgroup, though their folders have one name."""
    assert State(Path("/a/cluster")).cgroup != State(Path("/b/cluster")).cgroup


def test_kinds_of_file_systems() -> None:
    """The mount closest to a path says what holds it."""
    mounts = "/dev/a / ext4 rw 0 0\noverlay /srv overlay rw 0 0\n"
    assert filesystem_of(Path("/srv/state"), mounts) == "overlay"
    assert filesystem_of(Path("/srvs/state"), mounts) == "ext4"


def test_paths_of_own_folders_lie_in_the_state() -> None:
    """A file behind a mount is found in the state folder, any other at its own path."""
    assert STATE.behind("/run/cdi") == Path("/state/scene/root/run/cdi")
    assert STATE.behind("/var/lib/kubelet") == Path("/state/scene/root/var/lib/kubelet")
    assert STATE.behind("/runner/x") == Path("/runner/x")


def test_namespaces_are_made_by_plain_commands() -> None:
    """Mounts are cut off from the machine first, and every node's address is on the bridge."""
    mounts = mount_commands(STATE)
    assert mounts[0] == ["mount", "--make-rprivate", "/"]
    assert ["mount", "--bind", "/state/scene/root/run", "/run"] in mounts
    addresses = [node_address(index) for index, _ in enumerate(node_names(3))]
    lines = [" ".join(command) for command in network_commands(addresses)]
    for wanted in ("10.99.0.1/24", "10.99.0.3/24", "10.96.0.1/32"):
        assert f"ip address add {wanted} dev nodes0" in lines


def test_cgroups_of_both_versions(tmp_path: Path) -> None:
    """Version 1 has one folder in each hierarchy, version 2 has one."""
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpu,cpuacct").symlink_to("cpu")
    assert cgroup_roots("/x", tmp_path) == [tmp_path / "cpu/x", tmp_path / "memory/x"]
    (tmp_path / "cgroup.controllers").touch()
    assert cgroup_roots("/x", tmp_path) == [tmp_path / "x"]


def test_virtual_node_is_ready() -> None:
    """A node without a kubelet is named, addressed and ready since it was made."""
    assert node_object("node-2")["metadata"]["labels"]["kubernetes.io/hostname"] == "node-2"
    status = status_of("node-2", "10.99.0.2", "now", "then")["status"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert (condition["lastHeartbeatTime"], condition["lastTransitionTime"]) == ("now", "then")
    assert {"type": "InternalIP", "address": "10.99.0.2"} in status["addresses"]


def test_command_line_reads_gates() -> None:
    """Gates are pairs; what is no pair is refused by name."""
    words = ["up", "--k8s", "1.36", "--nodes", "3", "--gates", "A=true,B=false"]
    arguments = parser().parse_args(words)
    assert (arguments.k8s, arguments.nodes) == ("1.36", 3)
    assert arguments.gates == {"A": True, "B": False}
    with pytest.raises(argparse.ArgumentTypeError, match="'A=yes' is not NAME=true or NAME=false"):
        gates("A=yes")
