"""Everything an administrator can set of the webhook: flags, environment, chart values."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from kube.settings import BaseProgramSettings, Names

_URL: Final = re.compile(
    r"https://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^?#\s]*)?"
)


def _sizes(words: Names) -> Names:
    for word in words:
        if not (word.isascii() and word.isdecimal() and int(word) > 0):
            message = f"`{word}` is no number of MiB"
            raise ValueError(message)
    return words


def _url(text: str) -> str:
    if text and not _URL.fullmatch(text):
        message = f"`{text}` is no https://host[:port][/path]"
        raise ValueError(message)
    return text


class WebhookSettings(BaseProgramSettings):
    """The admission webhook and the controllers beside it."""

    namespace: Annotated[str, Field(min_length=1)] = Field(
        description="namespace that this process runs in; never exempt from admission"
    )
    service_name: Annotated[str, Field(min_length=1)] = Field(
        "gpuslice-webhook", description="Service that the API server asks; named in certificates"
    )
    custom_url: Annotated[str, AfterValidator(_url)] = Field(
        "", description="URL that the API server asks instead of the Service; named in certificates"
    )
    kubeconfig: Path | None = Field(
        None, description="credentials file; without it the pod's service account is used"
    )

    address: str = Field("0.0.0.0", description="address to serve reviews on; `::` is both kinds")  # noqa: S104
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        9443, description="port of the same, with TLS; 0 takes any"
    )
    probe_address: str = Field("0.0.0.0", description="address of /healthz, /readyz, /metrics")  # noqa: S104
    probe_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        9080, description="port of the same, without TLS; 0 takes any"
    )
    time_budget_s: Annotated[float, Field(gt=0, le=30)] = Field(
        2.0, description="how long one review may take; the API server's own limit must be longer"
    )
    drain_s: Annotated[float, Field(ge=0)] = Field(
        5.0, description="how long to serve on after SIGTERM, until no Service points here"
    )

    tls: Literal["files", "self-made"] = Field(
        "self-made", description="where certificates come from: mounted files, or made here"
    )
    tls_cert_file: Path = Field(Path("/tls/tls.crt"), description="with files: certificate chain")
    tls_key_file: Path = Field(Path("/tls/tls.key"), description="with files: its private key")
    tls_ca_file: Path | None = Field(
        None, description="with files: authorities to write into the webhook configurations"
    )
    tls_secret: Annotated[str, Field(min_length=1)] = Field(
        "gpuslice-webhook-tls", description="with self-made: Secret that the replicas share"
    )
    configurations: Names = Field(
        ("gpuslice",),
        description="Mutating- and ValidatingWebhookConfigurations to write authorities into",
    )
    client_ca_file: Path | None = Field(
        None, description="authorities of clients; without it anybody in the cluster may ask"
    )

    mode: Literal["auto", "dra", "hami"] = Field(
        "auto", description="turn requests into claims, or prepare them for HAMi; auto looks"
    )
    resource_api_version: Literal["auto", "v1", "v1beta2", "v1beta1"] = Field(
        "auto", description="version of resource.k8s.io to speak; auto is v1"
    )
    device_config: Path | None = Field(
        None, description="HAMi's device-config.yaml; without it NVIDIA's usual names, no others"
    )
    enable_ascend: bool = Field(False, description="serve the Ascend chips of device-config.yaml")
    enable_iluvatar: bool = Field(
        False, description="serve the Iluvatar chips of device-config.yaml"
    )
    neuron_cores_per_device: Annotated[int, Field(ge=1)] = Field(
        2, description="cores of one AWS Neuron device"
    )
    scheduler_name: str = Field(
        "hami-scheduler", description="schedulerName of pods on HAMi's path; empty leaves it"
    )
    force_overwrite: bool = Field(
        True, description="take an explicit `default-scheduler` for no choice of the user"
    )
    gpu_sizes_mib: Annotated[Names, AfterValidator(_sizes)] = Field(
        (), description="memory of GPUs for percentages as long as no ResourceSlice tells it"
    )
    minimum_share_mib: Annotated[int, Field(ge=0)] = Field(
        512, description="shares below it are warned about; 0 warns of none"
    )
    exempt_namespaces: Names = Field((), description="namespaces whose pods are left alone")
    uncontrolled_namespaces: Names = Field(
        (), description="namespaces that may ask for shares without limits; tell node agents too"
    )
    uncontrolled_shares: Literal["refusal", "whole-gpu"] = Field(
        "refusal", description="what CUDA_DISABLE_CONTROL gets elsewhere on a share"
    )
    device_classes: Names = Field(
        (),
        description="DeviceClasses of your own that give devices of gpuslice.io; "
        "the webhook configurations must name them too",
    )
    quota: bool = Field(True, description="enforce GPU keys in ResourceQuotas")
    share_environment: Literal["refusal", "warning"] = Field(
        "refusal", description="what a container gets whose own variables undo its limits"
    )

    template_grace_s: Annotated[float, Field(ge=0)] = Field(
        60.0, description="how long a claim template of ours stays that no pod uses"
    )
    lease_name: Annotated[str, Field(min_length=1)] = Field(
        "gpuslice-webhook", description="Lease by which one replica leads"
    )
    pod_name: str = Field("", description="name of this pod; the host's name without it")
    advertise_address: str = Field(
        "", description="address by which other replicas reach this one, such as the pod's IP"
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged"
    )
    log_format: Literal["json", "text"] = Field("json", description="how the log looks")

    @property
    def sizes_mib(self) -> tuple[int, ...]:
        """Return `gpu_sizes_mib` as numbers, each once, ascending."""
        return tuple(sorted({int(word) for word in self.gpu_sizes_mib}))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names that a serving certificate must hold."""
        name = f"{self.service_name}.{self.namespace}.svc"
        custom = urlsplit(self.custom_url).hostname
        return (name, f"{name}.cluster.local", *([custom] if custom else []))

    @model_validator(mode="after")
    def _own_namespace_stays(self) -> "WebhookSettings":
        if self.namespace in self.exempt_namespaces:
            message = f"`{self.namespace}` is this program's namespace and cannot be exempt"
            raise ValueError(message)
        return self
