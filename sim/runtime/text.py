"""The text of a CDI spec file as the CDI library reads it: all of it as YAML.

JSON is YAML nearly always, so a `.json` file may hold what only YAML allows, a key that stands
twice makes either unusable, and of several documents the first one counts. Python's YAML reader
knows YAML 1.1, where `yes` is a truth value and 2024-01-01 a date; the library's takes both for
text, and so does this one.
"""

import json
import re
from typing import Any, TypeVar

import yaml

from sim.runtime.errors import SpecError


class Whole(int):
    """A whole number that remembers how it was written."""

    literal: str


class Real(float):
    """Another number that remembers how it was written."""

    literal: str


class _Reader(yaml.SafeLoader):
    """YAML with the scalars of JSON only, and without keys that stand twice."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> Whole:
        return _written(Whole(super().construct_yaml_int(node)), node.value)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> Real:
        return _written(Real(super().construct_yaml_float(node)), node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        _check_once([key.value for key, _ in node.value])
        return super().construct_mapping(node, deep=deep)


_Reader.yaml_implicit_resolvers = {}
_Reader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
_Reader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_Reader.add_implicit_resolver(
    "tag:yaml.org,2002:bool",
    re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
    list("tTfF"),
)
_Reader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Reader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$"),
    list("-+0123456789"),
)


_Reader.add_constructor("tag:yaml.org,2002:int", _Reader.construct_yaml_int)
_Reader.add_constructor("tag:yaml.org,2002:float", _Reader.construct_yaml_float)


Number = TypeVar("Number", Whole, Real)


def decode(data: bytes) -> object:
    """Return what the first document of *data* holds; raise `SpecError`."""
    try:
        # JSON is most of what there is, and its reader is a hundred times as quick.
        return json.loads(data, object_pairs_hook=_once, parse_float=_real)
    except ValueError:
        return _decode_yaml(data)


def _decode_yaml(data: bytes) -> object:
    reader: Any = _Reader(data)
    try:
        return reader.get_data() if reader.check_data() else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"not YAML: {error}"
        raise SpecError(message) from error
    finally:
        reader.dispose()


def _real(text: str) -> Real:
    return _written(Real(text), text)


def _written(number: Number, literal: str) -> Number:
    number.literal = literal
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _check_once([key for key, _ in pairs])
    return dict(pairs)


def _check_once(keys: list[Any]) -> None:
    seen: set[str] = set()
    for key in keys:
        if str(key) in seen:
            message = f"key {key!r} stands there twice"
            raise SpecError(message)
        seen.add(str(key))
