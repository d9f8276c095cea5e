"""All values of the chart."""

from typing import Annotated, Any, Literal

from pydantic import Field

from charts.values.admission import Webhook
from charts.values.agent import KubeletPlugin
from charts.values.kubernetes import LocalObjectReference, Resources
from charts.values.monitoring import Metrics, NetworkPolicy
from charts.values.older import Scheduler
from charts.values.pods import Image, OwnImage
from charts.values.section import Directory, Label, NamePart, ObjectName, Section, Texts
from hami.deviceconfig import NVIDIA_KEYS, SECTION_NAMES
from kube.draversions import ApiVersionChoice


class Library(Section):
    """HAMi-core."""

    image: Image = Field(Image(), description="The image that HAMi-core is taken from.")
    path: Directory = Field("/k8s-vgpu/lib/nvidia")
    resources: Resources = Field({}, description="Requests and limits of the container.")


class DeviceClasses(Section):
    """What claims ask for."""

    create: bool = Field(default=True, description="Whether to make DeviceClasses.")
    extended_resource_name: Annotated[
        str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*))?$")
    ] = Field("")
    extra: Texts = Field({})


class Sharing(Section):
    """How GPUs are shared."""

    split_count: Annotated[int, Field(ge=1, le=1000)] = Field(10)
    memory_scaling: Annotated[float, Field(ge=0.01, le=100)] = Field(1)
    core_scaling: Annotated[float, Field(ge=0.01, le=100)] = Field(
        1, description="The same of cores."
    )


class DeviceConfig(Section):
    """HAMi's device-config.yaml."""

    content: str | dict[str, Any] = Field("")
    existing_config_map: ObjectName = Field("")
    # HAMi skips a key that it does not know without a word.
    sections: dict[str, Any] = Field(
        {},
        json_schema_extra={
            "propertyNames": {"enum": list(SECTION_NAMES)},
            "patternProperties": {"^nvidia$": {"propertyNames": {"enum": list(NVIDIA_KEYS)}}},
        },
    )


class NodeConfiguration(Section):
    """HAMi's config.json."""

    external_config_name: ObjectName = Field("")
    config: str | dict[str, Any] = Field({})


class Rbac(Section):
    """Rights."""

    create: bool = Field(
        default=True,
        description="Whether to make roles and their bindings; else they must be there.",
    )


class Policies(Section):
    """ValidatingAdmissionPolicies."""

    own_node: bool = Field(default=True, description="Agents write of their own node only.")
    direct_claims: bool = Field(
        default=True, description="Where a quota limits GPUs nobody makes claims past it."
    )


class ResourceQuota(Section):
    """A quota that admits critical pods."""

    create: bool = Field(default=False, description="Whether to make the ResourceQuota.")
    pods: Annotated[int, Field(ge=1)] = Field(1000, description="How many such pods.")


class Openshift(Section):
    """What OpenShift has besides."""

    enabled: bool = Field(default=False, description="Whether to make what OpenShift needs.")


class Values(Section):
    """Values of the chart gpuslice."""

    name_override: NamePart = Field("", description="Name in place of the chart's.")
    fullname_override: NamePart = Field(
        "", description="What names of objects begin with, in place of the release's name."
    )
    namespace_override: Label = Field("")
    allow_default_namespace: bool = Field(default=False)
    common_labels: Texts = Field({}, description="Labels of every object.")
    common_annotations: Texts = Field({}, description="Annotations of every object.")
    mode: Literal["auto", "dra", "hami"] = Field("auto")
    image: OwnImage = Field(OwnImage())
    image_pull_secrets: list[LocalObjectReference] = Field(
        [], description="Secrets with which nodes pull images."
    )
    resource_api_version: ApiVersionChoice = Field("auto")
    nvidia_driver_root: Annotated[str, Field(pattern="^(auto|/.*)$")] = Field("auto")
    kubelet_root: Directory = Field("/var/lib/kubelet")
    cdi_root: Directory = Field("/var/run/cdi")
    gpu_resources_enabled_override: bool = Field(default=False)
    library: Library = Field(Library())
    device_classes: DeviceClasses = Field(
        DeviceClasses(), description="DeviceClasses, which claims ask for."
    )
    sharing: Sharing = Field(Sharing())
    device_config: DeviceConfig = Field(DeviceConfig())
    node_configuration: NodeConfiguration = Field(NodeConfiguration())
    rbac: Rbac = Field(Rbac(), description="Roles and their bindings.")
    policies: Policies = Field(Policies())
    kubelet_plugin: KubeletPlugin = Field(KubeletPlugin())
    webhook: Webhook = Field(Webhook())
    scheduler: Scheduler = Field(Scheduler())
    network_policy: NetworkPolicy = Field(NetworkPolicy())
    metrics: Metrics = Field(Metrics(), description="Metrics, alerts and a dashboard.")
    resource_quota: ResourceQuota = Field(ResourceQuota())
    openshift: Openshift = Field(Openshift())
    hami_compat: dict[str, Any] = Field({})
    # Helm gives it to every chart that another one depends on.
    global_: dict[str, Any] = Field(
        {}, alias="global", description="Helm's own, of charts that depend on this one; not read."
    )
