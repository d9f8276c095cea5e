"""The values of the webhook and of the controller of claim templates."""

from typing import Annotated, Literal

from pydantic import Field

from charts.values.kubernetes import (
    LabelSelector,
    Resources,
    TopologySpread,
    Volume,
    VolumeMount,
)
from charts.values.pods import CertManager, Disruption, Pod, Secret
from charts.values.programs import WebhookValues
from charts.values.section import Label, Port, Section, Texts

_Base64 = Annotated[str, Field(pattern="^[A-Za-z0-9+/=]*$")]
_Domain = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class SecretWithCa(Secret):
    """A Secret of the administrator's, and what is trusted."""

    ca_bundle: _Base64 = Field("")


class Tls(Section):
    """Where the serving certificate is from."""

    mode: Literal["self-made", "cert-manager", "secret"] = Field("self-made")
    cert_manager: CertManager = Field(CertManager(), description="With mode cert-manager.")
    secret: SecretWithCa = Field(SecretWithCa(), description="With mode secret.")


class WebhookService(Section):
    """The Service that API servers ask."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="Type of the Service."
    )
    port: Port = Field(443, description="Its port.")
    node_port: Port | None = Field(None, description="Its port on every node; null leaves it open.")
    annotations: Texts = Field({}, description="Annotations of the Service.")


class Webhook(Pod):
    """The admission webhook."""

    enabled: bool = Field(default=True, description="Whether to install the webhook.")
    settings: WebhookValues = Field({})
    replicas: Annotated[int, Field(ge=1)] = Field(2, description="How many pods serve.")
    tls: Tls = Field(Tls(), description="Where the serving certificate is from.")
    failure_policy: Literal["", "Fail", "Ignore"] = Field("")
    reinvocation_policy: Literal["Never", "IfNeeded"] = Field(
        "IfNeeded", description="Whether to be asked again where another webhook changed the pod."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] = Field(
        5, description="How long API servers wait for an answer."
    )
    exempt_namespaces: list[Annotated[Label, Field(min_length=1)]] = Field([])
    namespace_selector: LabelSelector = Field({})
    object_selector: LabelSelector = Field({}, description="The same of pods.")
    resource_domains: list[_Domain] = Field([])
    custom_url: Annotated[str, Field(pattern="^(https://.+)?$")] = Field("")
    service: WebhookService = Field(WebhookService(), description="The webhook's Service.")
    host_network: bool = Field(
        default=False,
        description="Whether pods use their node's network; the Pod Security levels baseline and "
        "restricted refuse that.",
    )
    topology_spread_constraints: list[TopologySpread] = Field(
        [], description="How pods are spread over nodes and zones."
    )
    pod_disruption_budget: Disruption = Field(
        Disruption(), description="What draining of nodes leaves."
    )
    extra_volumes: list[Volume] = Field([])
    extra_volume_mounts: list[VolumeMount] = Field(
        [], description="Further mounts of the container."
    )
    resources: Resources = Field(
        {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        description="Requests and limits of the container.",
    )
