"""The command line of each component, as data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster.assets import Assets
from tests.cluster.images import PAUSE
from tests.cluster.places import ISSUER, SERVICE_RANGE, State, node_address

CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
KUBELET_ROOT: Final = "/var/lib/kubelet"
# Made by both who look for plugins there; their own choice would be outside the cluster's folders.
VOLUME_PLUGINS: Final = f"{KUBELET_ROOT}/volume-plugins"
CDI_FOLDERS: Final = ("/etc/cdi", "/run/cdi")
_ETCD: Final = "http://127.0.0.1:2379"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to bring up: *gates* and *apis* add to what a release has on by default.

    *without_apis* are API versions that it has on and that are not to be served.
    """

    minor: str = "1.37"
    nodes: int = 1
    gates: Mapping[str, bool] = field(default_factory=dict)
    apis: Sequence[str] = ()
    without_apis: Sequence[str] = ()
    authorization: str = "Node,RBAC"
    """With Node a server is not ready unless it serves DRA in the version of its release."""

    def api_flags(self) -> list[str]:
        """Return the flag that switches API versions, if any are named."""
        pairs = [f"{each}=true" for each in self.apis]
        pairs += [f"{each}=false" for each in self.without_apis]
        return [f"--runtime-config={','.join(pairs)}"] if pairs else []

    def gate_flags(self) -> list[str]:
        """Return the flag that switches the gates, if any are named."""
        pairs = (f"{name}={str(on).lower()}" for name, on in sorted(self.gates.items()))
        text = ",".join(pairs)
        return [f"--feature-gates={text}"] if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A program to run and the URL that answers once it is ready."""

    name: str
    command: tuple[str, ...]
    ready_url: str | None = None


def etcd(assets: Assets, state: State) -> Component:
    """Return the API server's store; it need not survive a power cut."""
    peers = "http://127.0.0.1:2380"
    return Component(
        name="etcd",
        command=(
            assets.path("etcd"),
            "--unsafe-no-fsync",
            f"--data-dir={state.folder / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--log-level=warn",
        ),
        ready_url=f"{_ETCD}/health",
    )


def api_server(assets: Assets, state: State, options: Options) -> Component:
    """Return the API server, on 443 so that its service address needs no translation."""
    pki = state.pki
    return Component(
        name="kube-apiserver",
        command=(
            assets.path("kube-apiserver"),
            f"--etcd-servers={_ETCD}",
            "--secure-port=443",
            f"--advertise-address={node_address(0)}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--service-account-key-file={pki / 'service-account.pub'}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            # Nobody holds such a certificate; without it the others log errors for ever.
            f"--requestheader-client-ca-file={pki / 'ca.crt'}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--authorization-mode={options.authorization}",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # Endpoints of the API server itself would have to be reached through kube-proxy.
            "--endpoint-reconciler-type=none",
            # Webhooks named by service are called at their endpoints, again without kube-proxy.
            "--enable-aggregator-routing=true",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            f"--audit-policy-file={state.config / 'audit.json'}",
            f"--audit-log-path={state.audit_log}",
            *options.gate_flags(),
            *options.api_flags(),
        ),
        ready_url="https://127.0.0.1:443/readyz",
    )


def controller_manager(assets: Assets, state: State, options: Options) -> Component:
    """Return the controllers, each with the rights of its own service account."""
    return Component(
        name="kube-controller-manager",
        command=(
            assets.path("kube-controller-manager"),
            *_kubeconfig_flags(state, "controller-manager"),
            *_serving_flags(state),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={state.pki / 'service-account.key'}",
            f"--root-ca-file={state.pki / 'ca.crt'}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            f"--flex-volume-plugin-dir={VOLUME_PLUGINS}",
            "--leader-elect=false",
            *options.gate_flags(),
        ),
        ready_url="https://127.0.0.1:10257/healthz",
    )


def scheduler(assets: Assets, state: State, options: Options) -> Component:
    """Return the scheduler."""
    return Component(
        name="kube-scheduler",
        command=(
            assets.path("kube-scheduler"),
            *_kubeconfig_flags(state, "scheduler"),
            *_serving_flags(state),
            "--leader-elect=false",
            *options.gate_flags(),
        ),
        ready_url="https://127.0.0.1:10259/healthz",
    )


def containerd(assets: Assets, state: State) -> Component:
    """Return the container runtime; `containerd.toml` is its configuration."""
    config = state.config / "containerd.toml"
    return Component(name="containerd", command=(assets.path("containerd"), f"--config={config}"))


def kubelet(assets: Assets, state: State, options: Options, node: str) -> Component:
    """Return the kubelet of *node*; `kubelet.json` is its configuration."""
    return Component(
        name="kubelet",
        command=(
            assets.path("kubelet"),
            f"--config={state.config / 'kubelet.json'}",
            f"--kubeconfig={state.kubeconfig('node')}",
            f"--root-dir={KUBELET_ROOT}",
            f"--hostname-override={node}",
            f"--node-ip={node_address(0)}",
            *options.gate_flags(),
        ),
        ready_url="http://127.0.0.1:10248/healthz",
    )


def write_audit_policy(state: State) -> None:
    """Write what the API server keeps of requests: those of service accounts that are not its own.

    The number of requests of each program is then the server's word.
    """
    own = [f"system:serviceaccounts:{each}" for each in ("kube-system", "default")]
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "userGroups": own},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    }
    (state.config / "audit.json").write_text(json.dumps(policy))


def write_kubelet_config(state: State) -> None:
    """Write the configuration of the kubelet."""
    text = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(state.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(state.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(state.pki / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": state.cgroup,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        # A full disk of the machine is no reason to evict a test's pod.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "/etc/resolv.conf",
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "volumeStatsAggPeriod": "-1s",
        "volumePluginDir": VOLUME_PLUGINS,
    }
    (state.config / "kubelet.json").write_text(json.dumps(text, indent=1))


def write_containerd_config(state: State, *, cni_folder: str, runc: str) -> None:
    """Write the configuration of containerd, form 3."""
    snapshotter = "native" if filesystem_of(state.folder) == "overlay" else "overlayfs"
    folders = ", ".join(f'"{each}"' for each in CDI_FOLDERS)
    text = f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
cdi_spec_dirs = [{folders}]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni_folder}"]
conf_dir = "{state.config / "cni"}"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"""
    (state.config / "containerd.toml").write_text(text)


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """Return the kind of file system that holds *path*; overlays do not stack on overlays."""
    kinds = {
        fields[1]: fields[2]
        for fields in map(str.split, (mounts or Path("/proc/mounts").read_text()).splitlines())
    }
    holding = next(each for each in (path, *path.parents) if str(each) in kinds)
    return kinds[str(holding)]


def _kubeconfig_flags(state: State, user: str) -> tuple[str, ...]:
    path = state.kubeconfig(user)
    return (
        f"--kubeconfig={path}",
        f"--authentication-kubeconfig={path}",
        f"--authorization-kubeconfig={path}",
    )


def _serving_flags(state: State) -> tuple[str, ...]:
    return (
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={state.pki / 'local.crt'}",
        f"--tls-private-key-file={state.pki / 'local.key'}",
    )
