"""Rules for the specs of ResourceClaims, their templates and DeviceClasses.

Whether a CEL expression compiles is asked from a function that the cluster passes in: the
server itself knows no CEL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.apiserver.rules import names

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

CheckExpression = Callable[[str], str | None]
"""Returns what is wrong with a device selector, None when it is right."""

_DISTINCT_SINCE = 36
_DECLARATIVE_SINCE = 37
_REQUESTS_MAX = 32
_CONSTRAINTS_MAX = 32
_CONFIGS_MAX = 32
_SELECTORS_MAX = 32
_ALTERNATIVES_MAX = 8
_EXPRESSION_MAX_BYTES = 10 * 1024
_PARAMETERS_MAX_BYTES = 10 * 1024
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_MODES = ("All", "ExactCount")
_EFFECTS = ("NoExecute", "NoSchedule")
_KNOWN_AS = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def check_claim_spec(
    found: Findings, path: str, spec: JsonObject, check_expression: CheckExpression
) -> None:
    """Check the spec of a claim or of a template's claim."""
    devices, path = spec.get("devices", {}), f"{path}.devices"
    requests = devices.get("requests", [])
    found.at_most(f"{path}.requests", requests, _REQUESTS_MAX)
    found.unique(f"{path}.requests", [request.get("name") for request in requests])
    for index, request in enumerate(requests):
        _check_request(found, f"{path}.requests[{index}]", request, check_expression)
    known = request_names(spec)
    constraints = devices.get("constraints", [])
    found.at_most(f"{path}.constraints", constraints, _CONSTRAINTS_MAX)
    for index, constraint in enumerate(constraints):
        _check_constraint(found, f"{path}.constraints[{index}]", constraint, known)
    configs = devices.get("config", [])
    found.at_most(f"{path}.config", configs, _CONFIGS_MAX)
    for index, config in enumerate(configs):
        at = f"{path}.config[{index}]"
        check_references(found, f"{at}.requests", config.get("requests", []), known)
        check_config(found, at, config)


def check_class(found: Findings, new: JsonObject, check_expression: CheckExpression) -> None:
    """Check a DeviceClass."""
    spec = new.get("spec", {})
    _check_selectors(found, "spec.selectors", spec.get("selectors", []), check_expression)
    configs = spec.get("config", [])
    found.at_most("spec.config", configs, _CONFIGS_MAX)
    for index, config in enumerate(configs):
        check_config(found, f"spec.config[{index}]", config)
    extended = spec.get("extendedResourceName")
    if extended is not None and ("/" not in extended or not names.is_label_key(extended)):
        why = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
        if found.minor < _DECLARATIVE_SINCE:
            why = "must be a valid extended resource name"
        found.invalid("spec.extendedResourceName", extended, why)


def check_admin_access(found: Findings, path: str, spec: JsonObject, namespace: JsonObject) -> None:
    """Check that administrative access is asked for in a namespace that allows it."""
    labels = namespace.get("metadata", {}).get("labels", {})
    if labels.get(_ADMIN_LABEL) == "true":
        return
    for index, request in enumerate(spec.get("devices", {}).get("requests", ())):
        if request.get("exactly", {}).get("adminAccess"):
            # This is how the server names it, although the field stands in `exactly`.
            at = f"{path}.devices.requests[{index}].adminAccess"
            found.forbidden(
                at,
                f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the "
                "containing namespace",
            )


def request_names(spec: JsonObject) -> set[str]:
    """Return what a reference may name: requests and `request/subrequest`."""
    known: set[str] = set()
    for request in spec.get("devices", {}).get("requests", ()):
        known.add(request["name"])
        known.update(
            f"{request['name']}/{alternative['name']}"
            for alternative in request.get("firstAvailable", ())
        )
    return known


def check_references(found: Findings, path: str, references: list[str], known: set[str]) -> None:
    """Check names of requests that something refers to."""
    found.at_most(path, references, _REQUESTS_MAX)
    found.unique(path, references)
    for index, reference in enumerate(references):
        check_reference(found, f"{path}[{index}]", reference, known)


def check_reference(found: Findings, path: str, reference: str, known: set[str]) -> None:
    """Check one name of a request."""
    if reference not in known:
        found.invalid(path, reference, _KNOWN_AS)


def check_config(found: Findings, path: str, config: JsonObject) -> None:
    """Check the opaque configuration of a claim, class or allocation."""
    opaque = config.get("opaque")
    if opaque is None:
        found.required(f"{path}.opaque")
        return
    names.check_driver(found, f"{path}.opaque.driver", opaque.get("driver", ""))
    if not isinstance(opaque.get("parameters", {}), dict):
        found.invalid(f"{path}.opaque.parameters", "<value omitted>", "must be a valid JSON object")
    size = len(json.dumps(opaque.get("parameters", {}), separators=(",", ":")))
    if size > _PARAMETERS_MAX_BYTES:
        found.at_most_bytes(f"{path}.opaque.parameters", "x" * size, _PARAMETERS_MAX_BYTES)


def _check_request(
    found: Findings, path: str, request: JsonObject, check_expression: CheckExpression
) -> None:
    names.check_label(found, f"{path}.name", request.get("name", ""))
    exact, alternatives = request.get("exactly"), request.get("firstAvailable", [])
    rule = "exactly one of `exactly` or `firstAvailable` is required"
    if exact is None and not alternatives:
        found.required(path, rule)
    elif exact is not None and alternatives:
        found.invalid(path, "", f"{rule}, but multiple fields are set")
    elif exact is not None:
        _check_device_request(found, f"{path}.exactly", exact, check_expression)
    else:
        path = f"{path}.firstAvailable"
        found.at_most(path, alternatives, _ALTERNATIVES_MAX)
        found.unique(path, [alternative.get("name") for alternative in alternatives])
        for index, alternative in enumerate(alternatives):
            at = f"{path}[{index}]"
            names.check_label(found, f"{at}.name", alternative.get("name", ""))
            _check_device_request(found, at, alternative, check_expression)


def _check_device_request(
    found: Findings, path: str, request: JsonObject, check_expression: CheckExpression
) -> None:
    names.check_subdomain(found, f"{path}.deviceClassName", request.get("deviceClassName", ""))
    _check_selectors(found, f"{path}.selectors", request.get("selectors", []), check_expression)
    mode, count = request.get("allocationMode", "ExactCount"), request.get("count", 0)
    if mode not in _MODES:
        found.not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        found.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        found.invalid(f"{path}.count", count, "must be greater than zero")
    for key in request.get("capacity", {}).get("requests", {}):
        names.check_qualified(found, f"{path}.capacity.requests[{key}]", key)
    for index, toleration in enumerate(request.get("tolerations", ())):
        check_toleration(found, f"{path}.tolerations[{index}]", toleration)


def check_toleration(found: Findings, path: str, toleration: JsonObject) -> None:
    """Check a toleration of device taints."""
    operator = toleration.get("operator", "Equal")
    if operator not in {"Equal", "Exists"}:
        found.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if operator == "Exists" and toleration.get("value"):
        found.invalid(f"{path}.value", toleration["value"], "must be empty for operator `Exists`")
    if toleration.get("effect", "NoExecute") not in (*_EFFECTS, ""):
        found.not_supported(f"{path}.effect", toleration["effect"], _EFFECTS)


def _check_selectors(
    found: Findings, path: str, selectors: list[JsonObject], check_expression: CheckExpression
) -> None:
    found.at_most(path, selectors, _SELECTORS_MAX)
    for index, selector in enumerate(selectors):
        at = f"{path}[{index}].cel"
        if "cel" not in selector:
            found.required(at)
            continue
        expression = selector["cel"].get("expression", "")
        found.at_most_bytes(f"{at}.expression", expression, _EXPRESSION_MAX_BYTES)
        wrong = check_expression(expression)
        if wrong is not None:
            found.invalid(f"{at}.expression", expression, _wrong_expression(wrong))


def _wrong_expression(wrong: str) -> str:
    no_boolean = re.match(r"the result is (\w+) instead of BOOL", wrong)
    if no_boolean is None:
        return f"compilation failed: {wrong}"
    return f"must evaluate to bool or the unknown type, not {no_boolean[1].lower()}"


def _check_constraint(found: Findings, path: str, constraint: JsonObject, known: set[str]) -> None:
    check_references(found, f"{path}.requests", constraint.get("requests", []), known)
    present = [name for name in ("matchAttribute", "distinctAttribute") if name in constraint]
    if not present and found.minor < _DISTINCT_SINCE:
        found.required(f"{path}.matchAttribute")
    elif len(present) != 1:
        # It says so in both cases.
        found.required(
            path,
            'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set",
        )
    for name in present:
        names.check_qualified(found, f"{path}.{name}", constraint[name], domain_needed=True)
