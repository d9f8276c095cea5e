"""What an administrator can set of the device plugin and the monitor, beside the node's own file.

Flags carry the names of NVIDIA's and HAMi's device plugins where these have them. What differs from
node to node stands in the node configuration (`hami.nodeconfig`), resource names and defaults in
HAMi's `device-config.yaml`.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kube.settings import BaseProgramSettings, Names

STRATEGIES = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")


def _strategies(names: Names) -> Names:
    unknown = [name for name in names if name not in STRATEGIES]
    if unknown or not names:
        message = f"one or more of {', '.join(STRATEGIES)}"
        raise ValueError(message)
    return names


class DevicePluginSettings(BaseProgramSettings):
    """The device plugin and the monitor."""

    device_config: Path | None = Field(
        None, description="HAMi's device-config.yaml: resource names, defaults, scaling"
    )
    node_config: Path | None = Field(
        None, description="what differs from node to node: HAMi's config.json"
    )
    external_node_config: Path | None = Field(
        None, description="a file that stands for that of --node-config wherever it exists"
    )
    device_list_strategy: Annotated[Names, AfterValidator(_strategies)] = Field(
        ("envvar",),
        description="how containers get their devices: envvar, volume-mounts, cdi-annotations, "
        "cdi-cri, or several",
    )
    device_id_strategy: Literal["uuid", "index"] = Field(
        "uuid", description="what devices are called in the container's environment"
    )
    pass_device_specs: bool = Field(
        False, description="name the device nodes to kubelet too, which a strict runtime needs"
    )
    cdi_annotation_prefix: str = Field(
        "cdi.k8s.io/", description="prefix of the annotations of cdi-annotations"
    )
    gdrcopy_enabled: bool = Field(False, description="have the runtime add GDRCopy")
    gds_enabled: bool = Field(False, description="have the runtime add GPUDirect Storage")
    mofed_enabled: bool = Field(False, description="have the runtime add Mellanox's driver")
    numa_topology: bool = Field(False, description="tell kubelet to which NUMA node a GPU belongs")

    register_format: Literal["json", "colon", "colon-7"] = Field(
        "json",
        description="colon for schedulers of HAMi up to v2.7, colon-7 for those of v2.4; both with "
        "signs of life",
    )
    topology_score: bool = Field(
        False, description="say on the node how GPUs are linked, for the policy topology-aware"
    )
    refit_endpoint: str = Field(
        "", description="https URL of the scheduler extender's /refit; empty asks nobody"
    )
    refit_ca_file: Path | None = Field(None, description="CA of the extender's certificate")
    refit_token_file: Path = Field(
        Path("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        description="the token that the extender is shown",
    )

    hook_path: str = Field("/usr/local", description="the host's directory of HAMi's own layout")
    hami_layout: bool = Field(
        False, description="keep regions where HAMi's own monitor looks for them"
    )
    container_grace_s: Annotated[float, Field(ge=0)] = Field(
        120.0, description="how long a container's region is kept once its pod is not there"
    )
    vgpu_lock: bool = Field(
        False, description="mount /tmp/vgpulock, which HAMi-core up to HAMi v2.8.0 needs"
    )

    monitor: bool = Field(True, description="measure what containers use")
    monitor_interval_s: Annotated[float, Field(gt=0)] = Field(
        5.0, description="how often the regions of containers are looked at"
    )
    legacy_metrics: bool = Field(False, description="HAMi's older names of metrics too")
    feedback: bool = Field(
        True, description="let tasks of priority 0 hold up others while they run"
    )
