"""Everything an administrator can set of the extender: flags, environment, chart values."""

import socket
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from kube.settings import BaseProgramSettings, Names

_Port = Annotated[int, Field(ge=0, le=65535)]
_Seconds = Annotated[float, Field(ge=0)]
_GPU_POLICIES: Final = ("binpack", "spread", "numa", "mutex", "topology-aware")


def _policy(text: str) -> str:
    for word in text.split(","):
        if word.strip() not in _GPU_POLICIES:
            message = f"`{word}` is none of {', '.join(_GPU_POLICIES)}"
            raise ValueError(message)
    return text


class ExtenderSettings(BaseProgramSettings):
    """The scheduler extender beside one kube-scheduler."""

    kubeconfig: Path | None = Field(
        None, description="credentials file; without it the pod's service account is used"
    )
    scheduler_name: Annotated[str, Field(min_length=1)] = Field(
        "hami-scheduler", description="schedulerName of the pods that are decided about; in Events"
    )

    address: str = Field("127.0.0.1", description="address to serve kube-scheduler on")
    port: _Port = Field(9444, description="port of the same, without TLS; 0 takes any")
    metrics_address: str = Field(
        "0.0.0.0",  # noqa: S104 - kubelet and Prometheus come from outside
        description="address of /healthz, /readyz and /metrics for those outside the pod",
    )
    metrics_port: _Port = Field(9395, description="port of the same; 0 takes any")
    body_mib: Annotated[int, Field(ge=1, le=1024)] = Field(
        64, description="longest body of a request in MiB; whole Node objects take 16 KiB each"
    )
    http_timeout_s: Annotated[float, Field(gt=1)] = Field(
        30.0, description="kube-scheduler's own limit (httpTimeout); every answer comes before it"
    )
    wait_ready_s: _Seconds = Field(
        5.0, description="how long /filter waits for the first lists and the lead"
    )
    drain_s: _Seconds = Field(0.0, description="how long to serve on after SIGTERM")

    leader_elect: bool = Field(
        True, description="decide only while the kube-scheduler of this pod leads"
    )
    leader_elect_resource_name: Annotated[str, Field(min_length=1)] = Field(
        "hami-scheduler", description="Lease of kube-scheduler"
    )
    leader_elect_resource_namespace: Annotated[str, Field(min_length=1)] = Field(
        "kube-system", description="namespace of that Lease"
    )
    hostname: str = Field(
        "", description="what kube-scheduler's identity begins with; the host's name without it"
    )

    pod_name: str = Field(
        "",
        description="name of this pod, which gets the label gpuslice.io/leads while it decides; "
        "empty labels none",
    )
    pod_namespace: str = Field("", description="namespace of this pod")

    node_scheduler_policy: Literal["binpack", "spread"] = Field(
        "binpack", description="how nodes are chosen for pods that do not say"
    )
    gpu_scheduler_policy: Annotated[str, AfterValidator(_policy)] = Field(
        "spread",
        description="the same of a node's devices: binpack, spread, numa, mutex, topology-aware, "
        "or several with commas",
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
    node_label_selector: str = Field(
        "", description="label selector of the nodes that are known; empty takes all"
    )
    reservation_s: Annotated[float, Field(gt=0)] = Field(
        30.0, description="how long devices wait for a binding after /filter"
    )

    node_lock: bool = Field(
        True, description="hold HAMi's lock of a node while its device plugin hands devices out"
    )
    node_lock_expire_s: Annotated[float, Field(gt=0)] = Field(
        300.0, description="age at which a lock of a node counts for nothing"
    )
    node_lock_retry_timeout_s: _Seconds = Field(
        28.0, description="how long a binding waits for the lock; 0 fails it at once"
    )
    api_timeout_s: Annotated[float, Field(gt=0)] = Field(
        5.0, description="how long one request to the API server may take"
    )

    success_events: bool = Field(
        False, description="write HAMi's Event BindingSucceed beside kube-scheduler's Scheduled"
    )

    refit_address: str = Field("0.0.0.0", description="address of /refit")  # noqa: S104
    refit_port: _Port = Field(9445, description="port of /refit, with TLS; 0 takes any")
    refit_accounts: Names = Field(
        (),
        description="device plugins' users, such as system:serviceaccount:kube-system:"
        "hami-device-plugin; without any /refit is not served",
    )
    refit_audiences: Names = Field(
        (), description="audiences of their tokens; without any that of the API server"
    )
    tls_cert_file: Path = Field(Path("/tls/tls.crt"), description="of /refit: certificate chain")
    tls_key_file: Path = Field(Path("/tls/tls.key"), description="of /refit: private key")

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged"
    )
    log_format: Literal["json", "text"] = Field("json", description="how the log looks")

    @property
    def own_hostname(self) -> str:
        """Return what kube-scheduler's identity begins with."""
        return self.hostname or socket.gethostname()

    @property
    def body_bytes(self) -> int:
        """Return the longest body of a request."""
        return self.body_mib * 1024 * 1024

    @model_validator(mode="after")
    def _answers_in_time(self) -> "ExtenderSettings":
        for waits in ("node_lock_retry_timeout_s", "wait_ready_s"):
            if getattr(self, waits) >= self.http_timeout_s:
                flag = "--" + waits.replace("_", "-")
                message = f"{flag} must be below --http-timeout-s: nobody would hear the answer"
                raise ValueError(message)
        return self
