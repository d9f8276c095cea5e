"""Rules for pods: what concerns claims, and what may not change after creation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.json_values import copy_json
from sim.apiserver.rules import names

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def check_pod(found: Findings, new: JsonObject, old: JsonObject | None) -> None:
    """Check a pod's spec."""
    spec = new.get("spec", {})
    if old is not None:
        _check_update(found, spec, old["spec"])
        return
    if not spec.get("containers"):
        found.required("spec.containers")
    claims = spec.get("resourceClaims", [])
    found.unique("spec.resourceClaims", [claim.get("name") for claim in claims])
    for index, claim in enumerate(claims):
        _check_claim(found, f"spec.resourceClaims[{index}]", claim)
    known = {claim.get("name") for claim in claims}
    containers = [
        (f"spec.{kind}[{index}]", container)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec.get(kind, ()))
    ]
    seen: set[str] = set()
    for path, container in containers:
        name = container.get("name", "")
        names.check_label(found, f"{path}.name", name)
        if name in seen:
            found.duplicate(f"{path}.name", name)
        seen.add(name)
        _check_container(found, path, container, known)


def _check_claim(found: Findings, path: str, claim: JsonObject) -> None:
    names.check_label(found, f"{path}.name", claim.get("name", ""))
    sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
    if len(sources) != 1:
        found.invalid(
            path,
            ", ".join(sources),
            "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
        )
    for name in sources:
        names.check_subdomain(found, f"{path}.{name}", claim[name])


def _check_container(
    found: Findings, path: str, container: JsonObject, known: set[str | None]
) -> None:
    resources = container.get("resources", {})
    claims = resources.get("claims", [])
    found.unique(
        f"{path}.resources.claims", [(claim.get("name"), claim.get("request")) for claim in claims]
    )
    for index, claim in enumerate(claims):
        if claim.get("name") not in known:
            at = f"{path}.resources.claims[{index}].name"
            found.invalid(
                at, claim.get("name"), "must be one of the names in pod.spec.resourceClaims"
            )
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, amount in requests.items():
        if "/" in name and limits.get(name) != amount:
            found.invalid(f"{path}.resources.requests", amount, f"must be equal to {name} limit")


def _check_update(found: Findings, spec: JsonObject, before: JsonObject) -> None:
    expected = copy_json(spec)
    for field in _MUTABLE:
        expected.pop(field, None)
        if field in before:
            expected[field] = before[field]
    gates = spec.get("schedulingGates", [])
    if all(gate in before.get("schedulingGates", []) for gate in gates):
        expected.pop("schedulingGates", None)
        if "schedulingGates" in before:
            expected["schedulingGates"] = before["schedulingGates"]
    for kind in ("containers", "initContainers"):
        for container, old in zip(expected.get(kind, ()), before.get(kind, ()), strict=False):
            container["image"] = old.get("image")
    if expected != before:
        found.forbidden(
            "spec",
            "pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.terminationGracePeriodSeconds`,"
            "`spec.tolerations` (only additions to existing tolerations)",
        )
