"""The node agent's DaemonSet, its configuration and its rights."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from charts.values.written import defaults
from hami import nodeconfig_reading
from tests.charts.nodeagent import (
    CLIENT,
    daemon_set,
    goes_to,
    host_paths,
    mounts,
    places,
    rendered,
    rights,
    settings,
)
from tests.charts.rendering import (
    RefusedError,
    container,
    merged,
    nested,
    of_kind,
    one,
)
from tests.cluster.cluster import REPOSITORY

LIBRARY: Final = {"library": {"image": {"repository": "hami", "tag": "v2.9.0"}}}
KUBELET: Final = "/var/lib/kubelet"
PLUGIN: Final = f"{KUBELET}/plugins/gpuslice.io"
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
VERSIONS: Final = (
    *("1.25.0", "1.28.0", "1.30.5-gke.100", "v1.29.11-eks-56e63d8", "v1.31.2+k3s1"),
    *("1.32.2-tke.2", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.2"),
)


def _spec(agent: dict[str, Any]) -> dict[str, Any]:
    return dict(agent["spec"]["template"]["spec"])


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
    assert "podAntiAffinity" in _spec(agent)["affinity"]
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
    assert _spec(daemon_set())["hostPID"] is True
    off = daemon_set(nested("kubeletPlugin.settings.monitor", False))
    assert "hostPID" not in _spec(off)
    assert f"{KUBELET}/pod-resources" not in mounts(off)


def test_the_library_comes_from_an_image_through_containers_without_rights() -> None:
    """One sees the image alone and one writes one directory; the agent is told where it is."""
    agent = daemon_set(LIBRARY)
    take, install = _spec(agent)["initContainers"]
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
    assert "initContainers" not in _spec(daemon_set())
    assert settings().hami_core_library is None


def test_the_agent_needs_no_runtime_of_nvidias() -> None:
    """No RuntimeClass, nothing added by a default runtime, the driver from the host's files."""
    agent = daemon_set({"nvidiaDriverRoot": "/run/nvidia/driver"})
    assert "runtimeClassName" not in _spec(agent)
    env = {each["name"]: each.get("value") for each in container(agent, "node-agent")["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert settings({"nvidiaDriverRoot": "/run/nvidia/driver"}).nvidia_driver_root == (
        "/run/nvidia/driver"
    )


def test_variables_of_services_are_no_settings() -> None:
    """A Service gpuslice-probe would otherwise set --probe-port to a URL."""
    assert _spec(daemon_set())["enableServiceLinks"] is False


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


def test_namespaces_without_limits_are_the_webhooks() -> None:
    """One value feeds both, unless the agents are told otherwise."""
    one_value = nested("webhook.settings.uncontrolledNamespaces", ["lab", "bench"])
    assert settings(one_value).unlimited_namespaces == ("lab", "bench")
    own = merged(one_value, nested("kubeletPlugin.settings.unlimitedNamespaces", ["lab"]))
    assert settings(own).unlimited_namespaces == ("lab",)


def test_the_administrator_has_the_last_word() -> None:
    """Settings become flags, then come arguments as they are; lists, switches and numbers too."""
    values = nested(
        "kubeletPlugin",
        {
            "settings": {
                "ignoredXids": ["13", "31"],
                "allowDual": True,
                "feedback": False,
                "minimumShareMib": 1048576,
            },
            "extraArgs": ["--log-level=debug"],
        },
    )
    read = settings(values)
    assert (read.ignored_xids, read.allow_dual, read.feedback) == (("13", "31"), True, False)
    assert (read.minimum_share_mib, read.log_level) == (1048576, "debug")


CONFIG: Final = {"nodeconfig": [{"name": "node-a", "devicesplitcount": 4}]}


def test_an_external_node_configuration_stands_for_the_inline_one_wherever_it_is() -> None:
    """Both are mounted, the external one also when it is made later."""
    values = {"nodeConfiguration": {"externalConfigName": "mine", "config": CONFIG}}
    read = settings(values, kubernetes="1.33.0")
    agent = daemon_set(values, kubernetes="1.33.0")
    assert read.external_node_config is not None
    assert read.node_config is not None
    external = mounts(agent)[str(read.external_node_config.parent)]["configMap"]
    assert external == {"name": "mine", "optional": True}
    inline = mounts(agent)[str(read.node_config.parent)]["configMap"]
    assert inline == {"name": "gpuslice-node-config"}


@pytest.mark.parametrize("given", [CONFIG, '{"nodeconfig": [{"name": "node-a"}]}'])
def test_an_inline_node_configuration_is_one_that_the_agent_reads(given: Any) -> None:
    """As a mapping or as the text of HAMi's file."""
    values = {"nodeConfiguration": {"config": given}}
    found = one(rendered(values, kubernetes="1.33.0"), "ConfigMap", "gpuslice-node-config")
    text = found["data"]["config.json"]
    assert [entry.name for entry in nodeconfig_reading.parse(text).entries] == ["node-a"]


def test_no_node_configuration_is_the_default() -> None:
    """Nothing is mounted, made or named."""
    read = settings(kubernetes="1.33.0")
    assert (read.node_config, read.external_node_config) == (None, None)
    names = {
        each["metadata"]["name"] for each in of_kind(rendered(kubernetes="1.33.0"), "ConfigMap")
    }
    assert "gpuslice-node-config" not in names


def test_a_node_configuration_is_refused_where_nobody_reads_it() -> None:
    """With claims alone, the chart says with which modes it acts."""
    for given in ({"externalConfigName": "mine"}, {"config": CONFIG}):
        with pytest.raises(RefusedError, match=r"nodeConfiguration: .*mode auto or hami"):
            rendered({"mode": "dra", "nodeConfiguration": given})


@pytest.mark.parametrize(
    "after",
    [
        nested("deviceConfig.sections.nvidia.resourceCountName", "example.com/gpu"),
        nested("deviceConfig.existingConfigMap", "mine"),
        nested("sharing.splitCount", 4),
        nested("nodeConfiguration.config", CONFIG),
        nested("nodeConfiguration.externalConfigName", "mine"),
    ],
)
def test_agents_are_made_anew_when_what_they_read_changes(after: dict[str, Any]) -> None:
    """A checksum in the pod template is another one then, and the same from both helms."""

    def sums(values: dict[str, Any], helm: int) -> list[str]:
        agent = daemon_set(values, kubernetes="1.33.0", helm=helm)
        annotations = agent["spec"]["template"]["metadata"]["annotations"]
        return [value for key, value in annotations.items() if key.startswith("checksum/")]

    assert sums({}, 4) != sums(after, 4)
    assert sums(after, 3) == sums(after, 4)


def test_agents_ask_the_extender_where_there_is_one() -> None:
    """The address is the Service's; of the certificate they have the authority alone."""
    read = settings(kubernetes="1.33.0")
    assert read.refit_endpoint == "https://gpuslice-scheduler.gpuslice-system.svc/refit"
    assert read.refit_ca_file is not None
    secret = mounts(daemon_set(kubernetes="1.33.0"))[str(read.refit_ca_file.parent)]["secret"]
    assert [each["key"] for each in secret["items"]] == ["ca.crt"]
    for values, kubernetes in (
        (nested("scheduler.refit.enabled", False), "1.33.0"),
        (nested("scheduler.enabled", False), "1.33.0"),
        ({}, "1.37.2"),
    ):
        assert settings(values, kubernetes=kubernetes).refit_endpoint == ""


OWN: Final = {
    ("", "nodes", "get"),
    ("", "nodes", "list"),
    ("", "nodes", "watch"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "events", "create"),
    ("", "events", "patch"),
}
_DRA: Final = "resource.k8s.io"
CLAIMS: Final = {
    (_DRA, "resourceclaims", "get"),
    (_DRA, "resourceclaims", "list"),
    (_DRA, "resourceclaims/status", "update"),
    *(
        (_DRA, "resourceslices", verb)
        for verb in ("get", "list", "watch", "create", "update", "delete")
    ),
}
NARROW: Final = {(_DRA, "resourceclaims/driver=gpuslice.io", "associated-node:update")}
CARDS: Final = {("", "nodes", "patch"), ("", "pods", "get"), ("", "pods", "patch")}


@pytest.mark.parametrize(
    ("mode", "kubernetes", "expected"),
    [
        ("auto", "1.25.0", OWN | CARDS),
        ("auto", "v1.31.2+k3s1", OWN | CARDS),
        ("auto", "1.33.0", OWN | CARDS),
        ("auto", "1.34.0", OWN | CARDS | CLAIMS),
        ("auto", "1.35.0", OWN | CARDS | CLAIMS),
        ("auto", "1.36.0", OWN | CLAIMS | NARROW),
        ("auto", "1.37.2", OWN | CLAIMS | NARROW),
        ("dra", "1.34.0", OWN | CLAIMS),
        ("dra", "1.37.2", OWN | CLAIMS | NARROW),
        ("hami", "1.33.0", OWN | CARDS),
        ("hami", "1.37.2", OWN | CARDS),
    ],
)
def test_an_agent_may_do_what_its_way_of_serving_takes_and_no_more(
    mode: str, kubernetes: str, expected: set[tuple[str, str, str]]
) -> None:
    """Rights by mode and minor."""
    assert rights(rendered({"mode": mode}, kubernetes=kubernetes)) == expected


def test_the_documents_tell_the_rights() -> None:
    """The table of node-agent.md has those for claims, with those that 1.36 asks for."""
    text = (REPOSITORY / "docs/node-agent.md").read_text()
    table = text.partition("## What it needs from the API server")[2].partition("\n## ")[0]
    told = {
        ("" if "/" not in row[0] or not row[0].startswith(_DRA) else _DRA, resource, verb)
        for row in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
        for row in [(row[0].strip("`").replace("`, name `", "="), row[1])]
        for resource in [row[0].removeprefix(f"{_DRA}/")]
        for verb in re.sub(r"\([^)]*\)", "", row[1]).replace(" ", "").split(",")
    }
    assert told == OWN | CLAIMS | NARROW


def test_roles_and_accounts_of_ones_own_are_left_alone() -> None:
    """With rbac.create=false no roles are made, with serviceAccount.create=false no account."""
    without = rendered({"rbac": {"create": False}}, kubernetes="1.35.0")
    assert rights(without) == set()
    values = nested("kubeletPlugin.serviceAccount", {"create": False, "name": "mine"})
    objects = rendered(values, kubernetes="1.35.0")
    assert _spec(one(objects, "DaemonSet", "gpuslice-node-agent"))["serviceAccountName"] == "mine"
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert accounts.isdisjoint({"mine", "gpuslice-node-agent"})
    assert rights(objects, account="mine") == OWN | CARDS | CLAIMS


def test_openshift_lets_the_agent_be_what_it_is() -> None:
    """The SecurityContextConstraints name its account and every kind of volume that it has."""
    values = merged({"openshift": {"enabled": True}}, LIBRARY)
    for mode, kubernetes in (("dra", "1.34.0"), ("hami", "1.33.0")):
        objects = rendered(merged(values, {"mode": mode}), kubernetes=kubernetes, namespace="gpus")
        (allowed,) = of_kind(objects, "SecurityContextConstraints")
        assert allowed["users"] == ["system:serviceaccount:gpus:gpuslice-node-agent"]
        spec = _spec(one(objects, "DaemonSet", "gpuslice-node-agent"))
        kinds = {key for each in spec["volumes"] for key in each if key != "name"}
        assert kinds <= set(allowed["volumes"])
        assert allowed["allowHostPID"] is True
        assert allowed["allowHostNetwork"] is allowed["allowHostPorts"] is False
    assert of_kind(rendered(), "SecurityContextConstraints") == []


def test_a_quota_lets_pods_in_whose_priority_is_limited() -> None:
    """It covers the priorities of all pods of the chart."""
    objects = rendered({"resourceQuota": {"create": True, "pods": 50}}, kubernetes="1.33.0")
    (quota,) = of_kind(objects, "ResourceQuota")
    assert quota["spec"]["hard"] == {"pods": "50"}
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    priorities = {
        each["spec"]["template"]["spec"].get("priorityClassName")
        for each in objects
        if each["kind"] in {"DaemonSet", "Deployment"}
    }
    assert priorities == set(scope["values"])
    assert of_kind(rendered(), "ResourceQuota") == []


def test_nobody_but_prometheus_reaches_an_agent() -> None:
    """The NetworkPolicy opens the port of the metrics to those that are named."""
    source = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    values = {"networkPolicy": {"enabled": True, "metricsFrom": [source]}}
    policy = one(rendered(values), "NetworkPolicy", "gpuslice-node-agent")
    assert policy["spec"]["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 51515}], "from": [source]}
    ]
    selector = policy["spec"]["podSelector"]["matchLabels"]
    labels = daemon_set(values)["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_no_agent_is_installed_where_it_is_switched_off() -> None:
    """Neither pods nor rights nor rules of it."""
    objects = rendered({"kubeletPlugin": {"enabled": False}}, kubernetes="1.35.0")
    names = {each["metadata"]["name"] for each in objects}
    assert not [name for name in names if "node-agent" in name or "-own-" in name]
    assert rights(objects) == set()


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
    spec, program = _spec(agent), container(agent, "node-agent")
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
