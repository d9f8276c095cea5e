"""Reads JSON the way the CDI library's decoder does, which is not the way Python's does.

The library hands every file to sigs.k8s.io/yaml in strict mode: a key given twice or unknown
rejects the file, keys match in any case, null means "not given", and where a text is expected a
number or a truth value becomes one. Only JSON is read here: we write nothing else, and a YAML
parser would weigh on the node agent.
"""

import json
import re
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from cdi.errors import SpecError

_PLAIN_EXPONENTS = range(-4, 6)
_HALF = re.compile("[\ud800-\udfff]")


def _float_text(value: float) -> str:
    """Write *value* as Go's shortest %g does: few digits, an exponent from a million on."""
    exact = Decimal(repr(value)).normalize()
    if exact.adjusted() in _PLAIN_EXPONENTS:
        return repr(value).removesuffix(".0")
    return f"{value:.{len(exact.as_tuple().digits) - 1}e}"


def _text(value: Any) -> Any:
    """Turn a scalar into the text that the library makes of it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case _:
            return value


def _whole(value: Any) -> Any:
    """Turn null or a float without a fraction into the number that the library makes of it."""
    if value is None:
        return 0
    return int(value) if isinstance(value, float) and value.is_integer() else value


Text = Annotated[str, BeforeValidator(_text)]
Int64 = Annotated[int, BeforeValidator(_whole), Field(strict=True, ge=-(2**63), lt=2**63)]
Uint32 = Annotated[int, BeforeValidator(_whole), Field(strict=True, ge=0, lt=2**32)]


class Part(BaseModel):
    """What every piece of a spec is: frozen, strict about unknown keys, lax about their case."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _match_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        spelled = _spelling(cls)
        matched: dict[str, Any] = {}
        for key, value in data.items():
            name = spelled.get(key.casefold()) or key
            if name in matched:
                reason = f"`{name}` is given twice"
                raise ValueError(reason)
            matched[name] = value
        known = set(spelled.values())
        return {
            name: value for name, value in matched.items() if value is not None or name not in known
        }


@cache
def _spelling(part: type[Part]) -> dict[str, str]:
    """Return the keys of *part* as the specification spells them, by their folded form."""
    aliases = (field.alias for field in part.model_fields.values())
    return {alias.casefold(): alias for alias in aliases if alias is not None}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def _no_constant(name: str) -> Any:
    reason = f"{name} is no JSON number"
    raise ValueError(reason)


def _without_halves(value: Any) -> Any:
    """Replace halves of surrogate pairs as the library does: no text that is written has any."""
    match value:
        case str():
            return _HALF.sub("\ufffd", value)
        case list():
            return [_without_halves(each) for each in value]
        case dict():
            return _unique(
                [(_without_halves(key), _without_halves(each)) for key, each in value.items()]
            )
        case _:
            return value


def read_json(data: bytes) -> Any:
    """Parse *data* as one JSON document without doubled keys; SpecError says what is wrong."""
    try:
        text = data.decode("utf-8")
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        return _without_halves(document) if "\\u" in text else document
    except (ValueError, RecursionError) as error:
        raise SpecError("", f"not JSON: {error}") from error
