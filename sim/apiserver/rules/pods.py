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
    known: set[str | None] = set()
    for index, claim in enumerate(claims):
        path = f"spec.resourceClaims[{index}]"
        if claim.get("name") in known:
            found.duplicate(f"{path}.name", claim["name"])
        known.add(claim.get("name"))
        _check_claim(found, path, claim)
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
        either = "`resourceClaimName`, `resourceClaimTemplateName`"
        why = f"at most one of {either.replace(',', ' or')} may be specified"
        found.invalid(path, claim, why if sources else f"must specify one of: {either}")
    for name in sources:
        names.check_subdomain(found, f"{path}.{name}", claim[name])


def _check_container(
    found: Findings, path: str, container: JsonObject, known: set[str | None]
) -> None:
    if not container.get("image"):
        found.required(f"{path}.image")
    resources = container.get("resources", {})
    claims = resources.get("claims", [])
    found.unique(
        f"{path}.resources.claims", [(claim.get("name"), claim.get("request")) for claim in claims]
    )
    for index, claim in enumerate(claims):
        if claim.get("name") not in known:
            at = f"{path}.resources.claims[{index}]"
            why = "must be one of the names in pod.spec.resourceClaims"
            found.not_found(at, claim.get("name"), why if known else f"{why} which is empty")
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, amount in requests.items():
        if "/" in name and name not in limits:
            why = "Limit must be set for non overcommitable resources"
            found.required(f"{path}.resources.limits", why)
        elif "/" in name and limits[name] != amount:
            found.invalid(f"{path}.resources.requests", amount, f"must be equal to {name} limit")


def _check_update(found: Findings, spec: JsonObject, before: JsonObject) -> None:
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind, ())) != len(before.get(kind, ())):
            found.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
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
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            "was previously negative)",
        )
