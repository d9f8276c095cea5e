"""The manifests of the webhook, and what they say in the API server's place."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from kube.objects import JsonObject
from sim.apiserver.expressions import answer_of

FOLDER = Path(__file__).parents[2] / "manifests" / "dra" / "webhook"
_OF_PODS = ("Deployment", "PodDisruptionBudget")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def documents(*names: str) -> list[JsonObject]:
    """Return the objects in the files of these names, or in all; none that is about pods."""
    paths = [FOLDER / name for name in names] or sorted(FOLDER.glob("*.yaml"))
    found = [each for path in paths for each in yaml.safe_load_all(path.read_text())]
    return [each for each in found if each["kind"] not in _OF_PODS]


@cache
def only(kind: str) -> JsonObject:
    """Return the only object of a kind."""
    (found,) = (each for each in documents() if each["kind"] == kind)
    return found


@cache
def hooks() -> dict[str, JsonObject]:
    """Return the webhooks by name."""
    return {
        hook["name"]: hook for each in documents("configurations.yaml") for hook in each["webhooks"]
    }


@cache
def condition(hook: str) -> str:
    """Return the only condition of a webhook."""
    (found,) = hooks()[hook]["matchConditions"]
    return str(found["expression"])


def texts(expression: str) -> list[str]:
    """Return the texts in an expression, in their order."""
    return _TEXT.findall(expression)


def is_asked(hook: str, item: JsonObject, old: JsonObject | None = None, **request: Any) -> bool:
    """Tell whether the webhook is asked about a write."""
    group = {"group": "", "version": "v1", "resource": "pods"}
    about = {"operation": "CREATE" if old is None else "UPDATE", "resource": group, **request}
    answer = answer_of(condition(hook), {"object": item, "oldObject": old, "request": about})
    assert isinstance(answer, bool), answer
    return answer


_VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")


@cache
def _environment() -> Any:
    return cel.NewEnv(
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )


def evaluated(expression: str, values: JsonObject) -> Any:
    """Return what an expression of a policy says."""
    program = _environment().compile(expression)
    known = dict.fromkeys(_VARIABLES) | values
    return program.eval(_environment().Activation(known)).value()


def denial(policy: JsonObject, **values: Any) -> str | None:
    """Return what *policy* says against a write, if anything."""
    spec = policy["spec"]
    if not all(evaluated(each["expression"], values) for each in spec["matchConditions"]):
        return None
    variables = {each["name"]: evaluated(each["expression"], values) for each in spec["variables"]}
    for each in spec["validations"]:
        if not evaluated(each["expression"], {**values, "variables": variables}):
            return str(evaluated(each["messageExpression"], values))
    return None
