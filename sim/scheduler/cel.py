"""Evaluate device selectors (kubernetes: dynamic-resource-allocation/cel/compile.go).

The four fields of `device` are declared as variables with dots in their names, which gives every
field its type; `device` alone is therefore no value here. A domain that a device does not have
is an empty map, which no map of the engine can be: the expression is rewritten for it, from
`device.attributes[d]` to an optional index with an empty map as its alternative. An optional
index, `device.attributes[?d]`, has a value for every domain. A name that is missing in a known
domain stays an error.
"""

import re
from functools import lru_cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from sim.scheduler.cel_library import POOL, QUANTITY, functions, wrap_quantity, wrap_semver
from sim.scheduler.devices import UNSUPPORTED, Attribute, Device, own_name
from sim.scheduler.errors import CelCompileError, CelRuntimeError
from sim.scheduler.semver import parse_semver

_TOKEN = re.compile(
    r"""(?P<text>r?(?:'''.*?'''|\"\"\".*?\"\"\"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"|(?P<index>\bdevice\s*\.\s*(?:attributes|capacity)\s*\[)(?P<optional>\s*\?)?"
    r"|(?P<open>\[)|(?P<close>\])",
    re.DOTALL,
)


def compile_selector(expression: str) -> Any:
    """Compile *expression*, or return what it was compiled to; raises `CelCompileError`."""
    made = _compiled(expression)
    if isinstance(made, CelCompileError):
        raise made
    return made


def fault_of(expression: str) -> str | None:
    """Return why *expression* is no device selector, or nothing."""
    made = _compiled(expression)
    return str(made) if isinstance(made, CelCompileError) else None


def matches(expression: str, device: Device) -> bool:
    """Tell whether *device* satisfies *expression*; raises `CelError`."""
    program = compile_selector(expression)
    answer = program.eval(_activation(expression, device))
    if answer.type() not in (cel.Type.BOOL, cel.Type.ERROR):
        raise CelRuntimeError(expression, f"the result is {answer.type()} instead of BOOL")
    try:
        value = answer.value()
    except TypeError as error:
        # To the engine some dynamic values, such as an empty optional, have another type.
        raise CelRuntimeError(expression, "the result is no BOOL") from error
    if answer.type() == cel.Type.ERROR:
        raise CelRuntimeError(expression, str(value))
    return bool(value)


@lru_cache(maxsize=1)
def _environment() -> Any:
    texts = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    amounts = cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, QUANTITY))
    return cel.NewEnv(
        descriptor_pool=POOL,
        variables={
            "device.driver": cel.Type.STRING,
            "device.attributes": texts,
            "device.capacity": amounts,
            "device.allowMultipleAllocations": cel.Type.BOOL,
        },
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
        ],
        functions=functions(),
    )


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    try:
        answer = _environment().compile(expression).return_type()
        if answer not in (cel.Type.BOOL, cel.Type.DYN):
            return CelCompileError(expression, f"the result is {answer} instead of BOOL")
        return _environment().compile(_with_empty_domains(expression))
    except RuntimeError as error:
        return CelCompileError(expression, _first_line(str(error)))


def _first_line(message: str) -> str:
    """Return what the engine's checker says, without its prefix and its drawing below."""
    return message.partition("\n")[0].removeprefix("INVALID_ARGUMENT: ERROR: <input>:")


def _with_empty_domains(expression: str) -> str:
    pieces: list[str] = []
    endings: list[str] = []
    end = 0
    for token in _TOKEN.finditer(expression):
        pieces.append(expression[end : token.start()])
        end = token.end()
        if token["index"] and token["optional"]:
            pieces.append(f"optional.of({token['index']}?")
            endings.append(".orValue({}))")
            continue
        if token["index"]:
            pieces.append(f"{token['index']}?")
            endings.append(".orValue({})")
            continue
        pieces.append(token.group())
        if token["open"]:
            endings.append("")
        elif token["close"] and endings:
            pieces.append(endings.pop())
    return "".join([*pieces, expression[end:]])


def _activation(expression: str, device: Device) -> Any:
    made = _variables(device)
    if isinstance(made, str):
        raise CelRuntimeError(expression, made)
    return made


@lru_cache(maxsize=4096)
def _variables(device: Device) -> Any:
    """Return the engine's variables, or what is wrong with the device as a text."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        if attribute.kind == UNSUPPORTED:
            return f"attribute {name} is a list, which this scheduler does not know"
        domain, _, bare = own_name(device.id.driver, name).partition("/")
        attributes.setdefault(domain, {})[bare] = _value(attribute)
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in device.capacity.items():
        domain, _, bare = own_name(device.id.driver, name).partition("/")
        capacity.setdefault(domain, {})[bare] = wrap_quantity(amount.value)
    return _environment().Activation(
        {
            "device.driver": device.id.driver,
            "device.attributes": attributes,
            "device.capacity": capacity,
            "device.allowMultipleAllocations": device.shareable,
        }
    )


def _value(attribute: Attribute) -> Any:
    if isinstance(attribute.value, tuple):
        return [_value(Attribute(attribute.kind, item)) for item in attribute.value]
    if attribute.kind == "version":
        return wrap_semver(parse_semver(str(attribute.value)))
    return attribute.value
