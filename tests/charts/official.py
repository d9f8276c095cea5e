"""Kubernetes' published schemas of one minor, as a judge of what the chart renders.

The package kubernetes-validate carries them; its own function reads megabytes at every call, so
they are read here once for a minor.
"""

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import jsonschema
from referencing import Registry, Resource

WITHOUT_SCHEMA: Final = {
    ("cert-manager.io/v1", "Certificate"): "of cert-manager",
    ("cert-manager.io/v1", "Issuer"): "of cert-manager",
    ("monitoring.coreos.com/v1", "PodMonitor"): "of Prometheus' operator",
    ("monitoring.coreos.com/v1", "PrometheusRule"): "of Prometheus' operator",
    ("security.openshift.io/v1", "SecurityContextConstraints"): "of OpenShift",
}
"""Kinds that the chart makes on demand and Kubernetes has no schema for."""


def violations(obj: dict[str, Any], minor: int) -> list[str]:
    """Return what release 1.*minor* has against *obj*; a kind that it does not serve is one."""
    version, kind = obj["apiVersion"], obj["kind"]
    if (version, kind) in WITHOUT_SCHEMA:
        return []
    validator = _validator(version, kind, minor)
    if validator is None:
        return [f"1.{minor} does not serve {kind} of {version}"]
    return [
        f"{kind}/{obj['metadata']['name']}: {error.json_path}: {error.message}"
        for error in validator.iter_errors(obj)
    ]


def _folder(minor: int) -> Traversable:
    return files("kubernetes_validate") / "kubernetes-json-schema" / f"v1.{minor}.0-local-strict"


@cache
def _registry(minor: int) -> Registry[Any]:
    definitions = json.loads((_folder(minor) / "_definitions.json").read_text())
    registry: Registry[Any] = Registry().with_resource(
        definitions["$id"], Resource.from_contents(definitions)
    )
    return registry


@cache
def _validator(version: str, kind: str, minor: int) -> jsonschema.Draft202012Validator | None:
    group, _, name = version.rpartition("/")
    parts = [kind.lower(), *([group.partition(".")[0]] if group else []), name]
    file = _folder(minor) / f"{'-'.join(parts)}.json"
    if not file.is_file():
        return None
    return jsonschema.Draft202012Validator(json.loads(file.read_text()), registry=_registry(minor))
