"""Expressions about a write, as `matchConditions` of webhooks hold them.

They see `object`, `oldObject` and `request` (apiserver: pkg/admission/plugin/cel); `authorizer` is
not modelled, nor are the libraries of Kubernetes that no webhook here uses. The engine is loaded
with the first expression, because it is large and most servers need none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_VARIABLES = ("object", "oldObject", "request")
_MISSING = re.compile(r'^Key not found in map : "(.*)"$')


def fault_of(expression: str) -> str | None:
    """Return why *expression* is no condition, or nothing."""
    program = _compiled(expression)
    return program if isinstance(program, str) else None


def answer_of(expression: str, values: JsonObject) -> bool | str:
    """Return what *expression* says of *values*, or in words why it says nothing."""
    program = _compiled(expression)
    if isinstance(program, str):
        return program
    result = program.eval(_environment().Activation(values))
    try:
        value = result.value()
    except TypeError as error:
        value = error
    if isinstance(value, bool):
        return value
    why = str(value).partition(": ")[2] or str(value)
    why = _MISSING.sub(r"no such key: \1", why)
    return f"expression '{expression}' resulted in error: {why}"


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - see the module's docstring
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    return cel.NewEnv(
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
        ],
    )


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    """Return a program, or what is wrong as a text."""
    try:
        program = _environment().compile(expression)
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        return f"compilation failed: {text}"
    kind = str(program.return_type())
    return program if kind == "BOOL" else f"must evaluate to bool but got {kind.lower()}"
