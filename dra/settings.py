"""Everything an administrator can set of the node agent: flags, environment, chart values.

Paths below the kubelet root must be the same inside the agent's container and on the host,
because kubelet opens the sockets by the path that it is told; some clusters move that root.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cdi.hooks import HookMode
from dra.options import ANY_NAMESPACE
from gpu import names
from gpu.xids import ALL, XidSet
from kube.draversions import ApiVersionChoice
from kube.settings import BaseProgramSettings, Names


def _xids(*words_for_all: str) -> AfterValidator:
    def check(words: Names) -> Names:
        XidSet.parse(words, words_for_all=words_for_all)
        return words

    return AfterValidator(check)


class AgentSettings(BaseProgramSettings):
    """The node agent."""

    node_name: Annotated[str, Field(min_length=1)] = Field(
        description="name of the Node object that this process runs on"
    )
    pod_uid: str = Field("", description="UID of this pod; allows two instances in an update")
    kubeconfig: Path | None = Field(
        None, description="credentials file; without it the pod's service account is used"
    )
    resource_api_version: ApiVersionChoice = Field(
        "auto", description="version of resource.k8s.io to speak, or `auto` to ask the server"
    )

    kubelet_root: Path = Field(
        Path("/var/lib/kubelet"), description="kubelet's --root-dir, the same path as on the host"
    )
    cdi_directory: Path = Field(
        Path("/var/run/cdi"), description="where the container runtime reads CDI specs"
    )
    host_root: Path = Field(Path("/"), description="where this process sees the host's files")
    proc_root: Path = Field(Path("/proc"), description="where this process sees the host's /proc")
    sys_root: Path = Field(Path("/sys"), description="where this process sees the host's /sys")

    nvidia_driver_root: str = Field(
        "auto", description="the driver's root on the host, or `auto` to search"
    )
    operator_wait_s: Annotated[float, Field(ge=0)] = Field(
        60.0, description="how long to wait for the GPU Operator to report the driver ready"
    )
    hooks: HookMode = Field(HookMode.AUTO, description="CDI hooks to use")
    nvidia_ctk: str | None = Field(
        None,
        description="path of nvidia-ctk in this container: let it describe the devices, with hooks",
    )
    hook_binary: str | None = Field(None, description="the host's path of nvidia-cdi-hook")

    shares_per_gpu: Annotated[int, Field(ge=1, le=1024)] = Field(
        10, description="how many claims may share one GPU"
    )
    publish_fill_level: bool = Field(
        False, description="publish how full each GPU is, for requests that prefer full or empty"
    )
    unhealthy_effect: Literal["NoSchedule", "NoExecute"] = Field(
        "NoSchedule",
        description="taint of a GPU that fails; NoExecute has the pods that use it evicted",
    )
    ignored_xids: Annotated[Names, _xids(ALL)] = Field(
        (), description="XIDs that say nothing against a GPU, besides the usual ones; or `all`"
    )
    critical_xids: Annotated[Names, _xids()] = Field(
        (), description="XIDs that make a GPU unhealthy although they are ignored otherwise"
    )
    xid_recovery_s: Annotated[float, Field(ge=0)] = Field(
        60.0, description="how long after its last XID a GPU that the driver calls well is well"
    )
    allow_dual: bool = Field(
        False, description="give GPUs to new work although a device plugin offers them too"
    )
    hami_core_library: Path | None = Field(
        None, description="HAMi-core's libvgpu.so; without it shares cannot be limited"
    )
    accept_placeholder_library: bool = Field(
        False, description="take a library that enforces nothing: for simulations only"
    )
    minimum_share_mib: Annotated[int, Field(ge=1)] = Field(
        512, description="shares with less memory than this are warned about"
    )
    unlimited_namespaces: Names = Field(
        (), description="namespaces that may ask to run a share without limits"
    )
    priority_namespaces: Names = Field(
        (ANY_NAMESPACE,), description="namespaces that may ask for priority 0"
    )

    probe_address: str = Field("0.0.0.0", description="address of /healthz, /readyz, /metrics")  # noqa: S104
    probe_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        51515, description="port of the same; 0 takes any"
    )
    scan_interval_s: Annotated[float, Field(gt=0)] = Field(
        30.0, description="how often the GPUs are read"
    )
    sweep_interval_s: Annotated[float, Field(gt=0)] = Field(
        600.0, description="how often claims that are gone are looked for"
    )
    restore_interval_s: Annotated[float, Field(gt=0)] = Field(
        60.0, description="how often CDI specs are compared with the prepared claims"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged"
    )

    @property
    def plugin_directory(self) -> Path:
        """Where the plugin keeps its socket, its state and what it mounts into containers."""
        return self.kubelet_root / "plugins" / names.DRIVER

    @property
    def registry_directory(self) -> Path:
        """Where kubelet looks for registration sockets."""
        return self.kubelet_root / "plugins_registry"
