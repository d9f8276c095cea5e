"""What a test says is known of a namespace's claims."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.claimspec import CLASSES

Spec = dict[str, Any]


def a_spec(memory: str | None = None, cores: str | None = None, **parts: Any) -> Spec:
    """Build the spec of a claim for one device of the class for shares."""
    asked = {"memory": memory, "cores": cores}
    exactly: Spec = {"deviceClassName": parts.pop("device_class", "share.gpuslice.io")}
    if requests := {key: value for key, value in asked.items() if value is not None}:
        exactly["capacity"] = {"requests": requests}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly | parts}]}}


def a_config(*requests: str, **fields: Any) -> Spec:
    """Build a config for our driver."""
    parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **fields}
    config: Spec = {"opaque": {"driver": "gpuslice.io", "parameters": parameters}}
    return config | {"requests": list(requests)} if requests else config


def with_configs(spec: Spec, *configs: Spec) -> Spec:
    """Return *spec* with *configs*."""
    return {"devices": spec["devices"] | {"config": list(configs)}}


@dataclass(frozen=True, kw_only=True)
class Known:
    """Claims, templates, and which pods have which claim."""

    claims: Mapping[str, Spec] = field(default_factory=dict)
    templates: Mapping[str, Spec] = field(default_factory=dict)
    pods: Mapping[str, Collection[str]] = field(default_factory=dict)
    classes: frozenset[str] = CLASSES

    def claim_spec(self, name: str) -> Spec | None:
        """Return the spec of a claim."""
        return self.claims.get(name)

    def template_spec(self, name: str) -> Spec | None:
        """Return the spec of a template's claims."""
        return self.templates.get(name)

    def users(self, claim: str) -> Collection[str]:
        """Return the pods that have a claim."""
        return self.pods.get(claim, ())
