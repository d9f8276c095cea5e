"""The node agent's pods: how they serve, what they see of the host, containers and probes."""

from pathlib import Path
from typing import Any, Final

import pytest

from charts.values.written import defaults
from tests.charts.nodeagent import (
    LIBRARY,
    daemon_set,
    host_paths,
    mounts,
    pod_spec,
    rendered,
    rights,
    settings,
)
from tests.charts.rendering import container, nested, one

KUBELET: Final = "/var/lib/kubelet"
PLUGIN: Final = f"{KUBELET}/plugins/gpuslice.io"
VERSIONS: Final = (
    *("1.25.0", "1.28.0", "1.30.5-gke.100", "v1.29.11-eks-56e63d8", "v1.31.2+k3s1"),
    *("1.32.2-tke.2", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.2"),
)


@pytest.mark.parametrize(
    ("kubernetes", "helm"),
    [*((version, 4) for version in VERSIONS), ("v1.31.2+k3s1", 3), ("1.35.0", 3), ("1.37.2", 3)],
)
def test_an_agent_starts_by_what_the_chart_says(kubernetes: str, helm: int) -> None:
    """The program takes all flags, whatever the version is called."""
    assert settings(kubernetes=kubernetes, helm=helm).host_root == Path("/host")


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.0", "device-plugin"),
        ("auto", "v1.31.2+k3s1", "device-plugin"),
        ("auto", "1.33.0", "device-plugin"),
        ("auto", "1.34.0", "auto"),
        ("auto", "1.35.0", "auto"),
        ("auto", "1.36.0", "dra"),
        ("dra", "1.34.0", "dra"),
        ("dra", "1.37.2", "dra"),
        ("hami", "1.28.0", "device-plugin"),
        ("hami", "1.37.2", "device-plugin"),
    ],
)
def test_a_node_is_served_in_a_way_that_is_installed(
    mode: str, kubernetes: str, expected: str
) -> None:
    """Where both ways are there the Node's label or the server decides, else nobody."""
    assert settings({"mode": mode}, kubernetes=kubernetes).mode == expected


def test_nodes_stay_device_plugins_on_a_cluster_that_keeps_shares_with_a_scheduler() -> None:
    """With scheduler.enabled both ways are there on 1.36 too, and a label chooses."""
    asked = {"scheduler": {"enabled": True}}
    assert settings(asked, kubernetes="1.36.0").mode == "auto"
    assert f"{KUBELET}/device-plugins" in mounts(daemon_set(asked, kubernetes="1.36.0"))
    assert ("", "nodes", "patch") in rights(rendered(asked, kubernetes="1.36.0"))


CLAIM_MOUNTS: Final = {f"{KUBELET}/plugins_registry"}

CARD_MOUNTS: Final = {f"{KUBELET}/device-plugins"}

ALL_MOUNTS: Final = {PLUGIN, f"{KUBELET}/pod-resources", "/var/run/cdi", "/host", "/dev"}


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.30.0", ALL_MOUNTS | CARD_MOUNTS),
        ("auto", "1.35.0", ALL_MOUNTS | CARD_MOUNTS | CLAIM_MOUNTS),
        ("auto", "1.37.2", ALL_MOUNTS | CLAIM_MOUNTS),
        ("dra", "1.34.0", ALL_MOUNTS | CLAIM_MOUNTS),
        ("hami", "1.37.2", ALL_MOUNTS | CARD_MOUNTS),
    ],
)
def test_an_agent_sees_of_the_host_what_its_way_of_serving_takes(
    mode: str, kubernetes: str, expected: set[str]
) -> None:
    """What others are told of has the host's own path; the rest of the host is read-only."""
    agent = daemon_set({"mode": mode}, kubernetes=kubernetes)
    paths = host_paths(agent)
    assert set(paths) == expected
    assert {inside: outside for inside, outside in paths.items() if inside != outside} == {
        "/host": "/"
    }
    assert mounts(agent)["/host"]["readOnly"] is True


def test_only_what_containers_are_given_is_mounted_back_to_the_host() -> None:
    """Regions are on file systems that the agent mounts; a driver that comes later is seen."""
    spread = {
        path: each.get("mountPropagation") for path, each in mounts(daemon_set(LIBRARY)).items()
    }
    assert [path for path, how in spread.items() if how == "Bidirectional"] == [PLUGIN]
    assert spread["/host"] == spread["/dev"] == "HostToContainer"


@pytest.mark.parametrize("kubernetes", ["1.30.0", "1.35.0", "1.37.2"])
def test_a_kubelet_root_elsewhere_is_the_same_inside_and_outside(kubernetes: str) -> None:
    """Mounts, flags and the library follow it, and the runtime's directory of CDI likewise."""
    values = {"kubeletRoot": "/data/kubelet/", "cdiRoot": "/etc/cdi", **LIBRARY}
    agent, read = daemon_set(values, kubernetes=kubernetes), settings(values, kubernetes=kubernetes)
    assert read.kubelet_root == Path("/data/kubelet")
    assert read.cdi_directory == Path("/etc/cdi")
    paths = host_paths(agent)
    assert not [path for path in paths if path.startswith(KUBELET)]
    for path in (read.plugin_directory, read.cdi_directory):
        assert paths[str(path)] == str(path)
    assert read.hami_core_library is not None
    assert read.hami_core_library.is_relative_to(read.plugin_directory)


@pytest.mark.parametrize(("hook", "path"), [(None, "/usr/local"), ("/opt/hami", "/opt/hami")])
def test_hamis_layout_has_the_same_path_inside_and_outside(hook: str | None, path: str) -> None:
    """Regions are where HAMi's monitor looks, on the host as in the agent's container."""
    own = {"hamiLayout": True} | ({"hookPath": hook} if hook else {})
    values = nested("kubeletPlugin.settings", own)
    agent, read = daemon_set(values, kubernetes="1.33.0"), settings(values, kubernetes="1.33.0")
    assert str(read.card_regions) == f"{path}/vgpu/containers"
    mount = mounts(agent)[str(read.card_regions)]
    assert mount["hostPath"]["path"] == str(read.card_regions)
    assert mount["mountPropagation"] == "Bidirectional"
    without = mounts(daemon_set(nested("kubeletPlugin.settings.hamiLayout", False)))
    assert f"{path}/vgpu/containers" not in without


def test_the_monitor_has_the_hosts_processes_only_while_it_is_on() -> None:
    """Without it the pod shares no process namespace and does not see kubelet's pod-resources."""
    assert pod_spec(daemon_set())["hostPID"] is True
    off = daemon_set(nested("kubeletPlugin.settings.monitor", False))
    assert "hostPID" not in pod_spec(off)
    assert f"{KUBELET}/pod-resources" not in mounts(off)


def test_the_library_comes_from_an_image_through_containers_without_rights() -> None:
    """One sees the image alone and one writes one directory; the agent is told where it is."""
    agent = daemon_set(LIBRARY)
    take, install = pod_spec(agent)["initContainers"]
    assert take["image"] == "hami:v2.9.0"
    assert take["command"][-1] == "/k8s-vgpu/lib/nvidia"
    assert set(mounts(agent, "library")) == {"/library"}
    assert install["args"] == [
        "install-library",
        "--from=/library",
        f"--to={PLUGIN}/libraries",
    ]
    assert set(mounts(agent, "install-library")) == {"/library", PLUGIN}
    assert "mountPropagation" not in mounts(agent, "install-library")[PLUGIN]
    for each in (take, install):
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
    assert settings(LIBRARY).hami_core_library == Path(f"{PLUGIN}/libraries/libvgpu.so")


def test_without_an_image_there_is_no_library_and_nothing_that_looks_for_one() -> None:
    """Whole GPUs are served all the same."""
    assert "initContainers" not in pod_spec(daemon_set())
    assert settings().hami_core_library is None


def test_the_agent_needs_no_runtime_of_nvidias() -> None:
    """No RuntimeClass, nothing added by a default runtime, the driver from the host's files."""
    agent = daemon_set({"nvidiaDriverRoot": "/run/nvidia/driver"})
    assert "runtimeClassName" not in pod_spec(agent)
    env = {each["name"]: each.get("value") for each in container(agent, "node-agent")["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert settings({"nvidiaDriverRoot": "/run/nvidia/driver"}).nvidia_driver_root == (
        "/run/nvidia/driver"
    )


def test_variables_of_services_are_no_settings() -> None:
    """A Service gpuslice-probe would otherwise set --probe-port to a URL."""
    assert pod_spec(daemon_set())["enableServiceLinks"] is False


def test_an_agent_that_waits_for_pods_of_the_other_way_is_not_killed() -> None:
    """Nothing listens meanwhile, for which the first probe has patience; then all three ask."""
    agent = container(daemon_set(), "node-agent")
    startup = agent["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 3600
    assert agent["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert agent["readinessProbe"]["httpGet"]["path"] == "/readyz"
    port = {each["name"]: each["containerPort"] for each in agent["ports"]}["metrics"]
    assert port == settings().probe_port
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert agent[probe]["httpGet"]["port"] == "metrics"


def test_prometheus_finds_the_port_that_the_agent_listens_on() -> None:
    """Annotations and the container's port follow the setting; they can be left out."""
    values = nested("kubeletPlugin.settings.probePort", 51999)
    agent = daemon_set(values)
    annotations = agent["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/port"] == str(settings(values).probe_port) == "51999"
    assert container(agent, "node-agent")["ports"][0]["containerPort"] == 51999
    quiet = daemon_set(nested("metrics.scrapeAnnotations", False))
    assert "annotations" not in quiet["spec"]["template"]["metadata"]


def test_what_an_administrator_says_of_pods_is_in_them() -> None:
    """Each word of kubeletPlugin that is Kubernetes' own is passed on."""
    said: dict[str, Any] = {
        "serviceAccount": {"annotations": {"example.com/role": "gpu"}},
        "priorityClassName": "node-gpu",
        "podAnnotations": {"example.com/note": "a"},
        "podLabels": {"example.com/part": "agent"},
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 45,
        "securityContext": {"seLinuxOptions": {"type": "spc_t"}},
        "resources": {"requests": {"cpu": "20m"}},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "mine", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "mine", "mountPath": "/mine"}],
    }
    objects = rendered({"kubeletPlugin": said, "imagePullSecrets": [{"name": "pull"}]})
    agent = one(objects, "DaemonSet", "gpuslice-node-agent")
    spec, program = pod_spec(agent), container(agent, "node-agent")
    account = one(objects, "ServiceAccount", "gpuslice-node-agent")
    metadata = agent["spec"]["template"]["metadata"]
    assert account["metadata"]["annotations"] == said["serviceAccount"]["annotations"]
    assert said["podAnnotations"].items() <= metadata["annotations"].items()
    assert said["podLabels"].items() <= metadata["labels"].items()
    for key in (
        *("priorityClassName", "nodeSelector", "tolerations"),
        "terminationGracePeriodSeconds",
    ):
        assert spec[key] == said[key]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert said["securityContext"].items() <= program["securityContext"].items()
    assert program["securityContext"]["privileged"] is True
    assert program["resources"] == said["resources"]
    assert said["extraEnv"][0] in program["env"]
    assert said["extraVolumes"][0] in spec["volumes"]
    assert said["extraVolumeMounts"][0] in program["volumeMounts"]
    tested_above = {"enabled", "settings", "updateStrategy", "affinity", "operatorClientLabel"}
    assert set(defaults()["kubeletPlugin"]) == set(said) | tested_above | {"extraArgs"}
