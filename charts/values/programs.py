"""What stands below `settings`: every setting of that program, but for what the chart says itself.

Types, limits and descriptions are those of the program's own model, so a flag that is made for a
program can be set by the chart without another word.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, create_model
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from cli.nodeagent.settings import NodeAgentSettings
from extender.settings import ExtenderSettings
from kube.settings import BaseProgramSettings
from webhook.settings import WebhookSettings

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A program of which the chart makes a container, and what it takes from `settings`."""

    name: str
    """Of the component and its container."""
    model: type[BaseProgramSettings]
    left_out: Mapping[str, str]
    """Settings that are not taken from there, each with where they are from."""
    choices: Mapping[str, _Json]
    """What a validator of the model says and its schema cannot."""

    def settings(self) -> type[BaseModel]:
        """Return the model of `settings`."""
        fields: dict[str, Any] = {}
        for name, field in self.model.model_fields.items():
            if name in self.left_out:
                continue
            info = copy(field)
            if name in self.choices:
                info.json_schema_extra = self.choices[name]
            fields[name] = (field.annotation, info)
        config = ConfigDict(alias_generator=to_camel, extra="forbid")
        return create_model(f"Settings of {self.name}", __config__=config, **fields)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check by the model; what was given stays as it is."""
        model = self.settings()

        def check(given: _Json) -> _Json:
            model.model_validate(given)
            return given

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of the model, whose defaults are the program's."""
        return handler(self.settings().__pydantic_core_schema__)


def _one_of(*values: str) -> _Json:
    return {"items": {"type": "string", "enum": list(values)}, "minItems": 1}


def _numbers(most: int, *words: str) -> _Json:
    """Return the schema of a list of numbers, which people write as they are or as text."""
    alternatives: list[_Json] = [
        {"type": "integer", "minimum": 1, "maximum": most},
        {"type": "string", "pattern": f"^([1-9][0-9]*{''.join(f'|{word}' for word in words)})$"},
    ]
    return {"items": {"anyOf": alternatives}}


def _port(of: str) -> _Json:
    """Return the schema of a port that probes and Services are told of; 0 would tell them none."""
    return {"minimum": 1, "description": f"port of {of}"}


_ACCOUNT: Final = "the pod's service account is used"
_DEVICE_CONFIG: Final = "deviceConfig"

NODE_AGENT: Final = Program(
    "node-agent",
    NodeAgentSettings,
    left_out={
        "node_name": "the node that the pod runs on",
        "pod_uid": "the pod's own",
        "kubeconfig": _ACCOUNT,
        "mode": "mode, and the Node's label gpuslice.io/node-mode",
        "resource_api_version": "resourceApiVersion",
        "kubelet_root": "kubeletRoot",
        "cdi_directory": "cdiRoot",
        "nvidia_driver_root": "nvidiaDriverRoot",
        "host_root": "where the chart mounts the host's files",
        "proc_root": "where the chart mounts the host's files",
        "sys_root": "where the chart mounts the host's files",
        "hami_core_library": "library",
        "shares_per_gpu": "sharing.splitCount",
        "device_config": _DEVICE_CONFIG,
        "node_config": "nodeConfiguration",
        "external_node_config": "nodeConfiguration",
        "refit_endpoint": "scheduler.refit",
        "refit_ca_file": "scheduler.refit",
        "refit_token_file": "scheduler.refit",
    },
    choices={
        "probe_port": _port("/healthz, /readyz, /metrics"),
        "ignored_xids": _numbers(65535, "all"),
        "critical_xids": _numbers(65535),
        "device_list_strategy": _one_of("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
    },
)
WEBHOOK: Final = Program(
    "webhook",
    WebhookSettings,
    left_out={
        "namespace": "the namespace of the release",
        "service_name": "the Service of the release",
        "custom_url": "webhook.customUrl",
        "kubeconfig": _ACCOUNT,
        "tls": "webhook.tls",
        "tls_cert_file": "webhook.tls",
        "tls_key_file": "webhook.tls",
        "tls_ca_file": "webhook.tls",
        "configurations": "what the release installs",
        "mode": "mode",
        "resource_api_version": "resourceApiVersion",
        "device_config": _DEVICE_CONFIG,
        "scheduler_name": "scheduler.name",
        "exempt_namespaces": "webhook.exemptNamespaces",
        "pod_name": "the pod's own",
        "advertise_address": "the pod's own",
    },
    choices={
        "port": _port("reviews, with TLS"),
        "probe_port": _port("/healthz, /readyz, /metrics, without TLS"),
        # A template writes a million as 1e+06.
        "gpu_sizes_mib": _numbers(999_999),
    },
)
EXTENDER: Final = Program(
    "extender",
    ExtenderSettings,
    left_out={
        "kubeconfig": _ACCOUNT,
        "scheduler_name": "scheduler.name",
        "leader_elect": "scheduler.leaderElect",
        "hostname": "the pod's own name",
        "pod_name": "the pod's own",
        "pod_namespace": "the pod's own",
        "device_config": _DEVICE_CONFIG,
        "tls_cert_file": "scheduler.refit.tls",
        "tls_key_file": "scheduler.refit.tls",
    },
    choices={
        "port": _port("kube-scheduler's questions, without TLS"),
        "metrics_port": _port("/healthz, /readyz and /metrics"),
        "refit_port": _port("/refit, with TLS"),
        "gpu_scheduler_policy": {
            "pattern": "^(binpack|spread|numa|mutex|topology-aware)"
            "(,(binpack|spread|numa|mutex|topology-aware))*$"
        },
    },
)
PROGRAMS: Final = (NODE_AGENT, WEBHOOK, EXTENDER)

NodeAgentValues = Annotated[_Json, NODE_AGENT]
WebhookValues = Annotated[_Json, WEBHOOK]
ExtenderValues = Annotated[_Json, EXTENDER]
