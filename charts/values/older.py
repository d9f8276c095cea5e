"""The values of kube-scheduler and the extender, below `scheduler`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from charts.values.kubernetes import Resources
from charts.values.pods import CertManager, Disruption, Image, Pod, Secret
from charts.values.programs import ExtenderValues
from charts.values.section import Label, Section, Texts


class KubeScheduler(Section):
    """The kube-scheduler beside the extender."""

    enabled: bool = Field(default=True)
    image: Image = Field(Image(), description="The image of kube-scheduler.")
    extra_args: list[str] = Field([], description="Further flags of kube-scheduler.")
    resources: Resources = Field(
        {"requests": {"cpu": "50m", "memory": "96Mi"}},
        description="Requests and limits of the container.",
    )
    config: dict[str, Any] = Field({})


class RefitTls(Section):
    """Where the certificate of /refit is from."""

    mode: Literal["self-made", "cert-manager", "secret"] = Field("self-made")
    cert_manager: CertManager = Field(CertManager(), description="With mode cert-manager.")
    secret: Secret = Field(Secret(), description="With mode secret.")


class Refit(Section):
    """What device plugins ask."""

    enabled: bool = Field(default=True, description="Whether /refit is served.")
    accounts: list[Annotated[str, Field(min_length=1)]] = Field([])
    tls: RefitTls = Field(RefitTls(), description="Where its certificate is from.")


class SchedulerService(Section):
    """The extender's Service."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="Type of the Service."
    )
    annotations: Texts = Field({}, description="Annotations of the Service.")


class Scheduler(Pod):
    """kube-scheduler with the extender."""

    enabled: bool | None = Field(None)
    settings: ExtenderValues = Field({})
    name: Annotated[Label, Field(min_length=1)] = Field(
        "hami-scheduler", description="schedulerName of the pods that it places."
    )
    replicas: Annotated[int, Field(ge=1)] = Field(
        1, description="How many pods; one of them leads."
    )
    leader_elect: bool = Field(default=True, description="Whether pods choose one that decides.")
    kube_scheduler: KubeScheduler = Field(KubeScheduler(), description="kube-scheduler itself.")
    refit: Refit = Field(Refit())
    service: SchedulerService = Field(SchedulerService(), description="The extender's Service.")
    node_name: Annotated[str, Field(max_length=253)] = Field(
        "", description="The node that pods run on; empty leaves it open."
    )
    pod_disruption_budget: Disruption = Field(
        Disruption(), description="What draining of nodes leaves."
    )
    resources: Resources = Field(
        {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        description="Requests and limits of the extender.",
    )
