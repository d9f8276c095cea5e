"""What several components have alike: images, accounts, certificates, pods."""

from typing import Annotated, Literal

from pydantic import Field

from charts.values.kubernetes import Affinity, EnvVar, Resources, Toleration
from charts.values.section import Label, ObjectName, Section, Texts


class Image(Section):
    """[registry/]repository[:tag][@digest]."""

    registry: Annotated[str, Field(pattern=r"^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?)?$")] = (
        Field("", description="Host of the registry, with a path if there is one.")
    )
    repository: Annotated[str, Field(pattern=r"^([a-z0-9]+([._/-]+[a-z0-9]+)*)?$")] = Field(
        "", description="Name of the image."
    )
    tag: Annotated[str, Field(pattern=r"^([a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?$")] = Field(
        "", description="Tag of the image."
    )
    digest: Annotated[str, Field(pattern="^(sha256:[0-9a-f]{64})?$")] = Field(
        "", description="Digest of the image, sha256:...; goes before the tag."
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="When nodes pull the image."
    )


class OwnImage(Image):
    """The image of our programs."""

    repository: Annotated[str, Field(pattern=r"^[a-z0-9]+([._/-]+[a-z0-9]+)*$")] = Field(
        "gpuslice", description="Name of the image."
    )


class ServiceAccount(Section):
    """Whom the API server sees."""

    create: bool = Field(
        default=True, description="Whether to make the ServiceAccount; else it must be there."
    )
    name: ObjectName = Field(
        "", description="Its name; empty is that of the component, or `default` if not made here."
    )
    annotations: Texts = Field({}, description="Annotations of the ServiceAccount.")


class CertManager(Section):
    """Who signs what cert-manager makes."""

    issuer_type: Literal["selfsigned", "issuer", "clusterissuer"] = Field(
        "selfsigned", description="An Issuer made here, or one of yours."
    )
    issuer_name: ObjectName = Field("", description="Name of the (Cluster)Issuer of yours.")


class Secret(Section):
    """A Secret of the administrator's."""

    name: ObjectName = Field("", description="Name of the Secret.")


class Pod(Section):
    """What can be said of every pod."""

    service_account: ServiceAccount = Field(ServiceAccount(), description="Its ServiceAccount.")
    priority_class_name: Label = Field(
        "system-cluster-critical", description="PriorityClass of the pods; empty takes none."
    )
    pod_annotations: Texts = Field({}, description="Further annotations of the pods.")
    pod_labels: Texts = Field({}, description="Further labels of the pods.")
    node_selector: Texts = Field({}, description="Labels of the nodes that pods may run on.")
    affinity: Affinity = Field({}, description="Affinity of the pods, in place of the chart's.")
    tolerations: list[Toleration] = Field([], description="Taints that the pods bear.")
    termination_grace_period_seconds: Annotated[int, Field(ge=1)] = Field(
        30, description="How long a pod may take to end."
    )
    resources: Resources = Field({}, description="Requests and limits of the container.")
    extra_args: list[str] = Field([], description="Further flags, after those of `settings`.")
    extra_env: list[EnvVar] = Field([], description="Further environment variables.")


class Disruption(Section):
    """A PodDisruptionBudget."""

    enabled: bool = Field(default=True, description="Whether to make a PodDisruptionBudget.")
    min_available: (
        Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern="^(100|[0-9]{1,2})%$")]
    ) = Field(1, description="How many pods stay while nodes are drained.")
