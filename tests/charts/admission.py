"""Judges a write by the chart's admission policies as an API server does.

Apiserver: pkg/admission/plugin/policy/validating. A policy counts if all its conditions hold,
and an error refuses, as `failurePolicy: Fail` has it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from tests.charts.rendering import Object

_SEEN: Final = ("object", "oldObject", "request")
_VARIABLE: Final = re.compile(r"variables\.(\w+)")
_ENVIRONMENT: Final = cel.NewEnv(
    variables=dict.fromkeys(_SEEN, cel.Type.DYN),
    extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
)
NODE_NAME: Final = "authentication.kubernetes.io/node-name"


def refusals(policies: Sequence[Object], values: Mapping[str, Any]) -> list[str]:
    """Return the messages of what refuses a write; *values* are request, object and oldObject."""
    return [
        message
        for policy in policies
        if _is_about(policy["spec"], values)
        for message in _messages(policy["spec"], values)
    ]


def write(
    resource: str,
    operation: str,
    *,
    new: Object | None = None,
    old: Object | None = None,
    user: str,
    node: str | None,
) -> dict[str, Any]:
    """Return what policies see of a write by *user* from a pod on *node*."""
    plain, _, subresource = resource.partition("/")
    extra = {} if node is None else {NODE_NAME: [node]}
    return {
        "object": new,
        "oldObject": old,
        "request": {
            "operation": operation,
            "resource": {"resource": plain},
            "subResource": subresource,
            "userInfo": {"username": user, "extra": extra},
        },
    }


def _is_about(spec: Object, values: Mapping[str, Any]) -> bool:
    request = values["request"]
    parts = (request["resource"]["resource"], request["subResource"])
    resource = "/".join(filter(None, parts))
    named = any(
        resource in rule["resources"] and request["operation"] in rule["operations"]
        for rule in spec["matchConstraints"]["resourceRules"]
    )
    return named and all(
        _value(each["expression"], values) is not False for each in spec["matchConditions"]
    )


def _messages(spec: Object, values: Mapping[str, Any]) -> list[str]:
    variables: dict[str, str] = {}

    def value(expression: str) -> Any:
        return _value(_inlined(expression, variables), values)

    for each in spec.get("variables", []):
        variables[each["name"]] = _inlined(each["expression"], variables)
    found = []
    for each in spec["validations"]:
        if value(each["expression"]) is not True:
            worded = each.get("messageExpression")
            found.append(str(value(worded)) if worded else each["message"])
    return found


def _inlined(expression: str, variables: Mapping[str, str]) -> str:
    """Return *expression* with those of variables in the place of these."""
    return _VARIABLE.sub(lambda found: f"({variables[found[1]]})", expression)


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    """Return what it comes to, or its error, which is no answer that lets anything pass."""
    program = _ENVIRONMENT.compile(expression)
    return program.eval(_ENVIRONMENT.Activation(dict(values))).value()
