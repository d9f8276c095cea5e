"""values.schema.json: what helm refuses before it renders.

It is of draft 7, because helm before 3.18 reads no later one. Models of ours are put in where they
are used, so that each place can say what a key means there; only Kubernetes' own are shared.
"""

import json
from pathlib import Path
from typing import Any, Final

from charts.values import moved
from charts.values.kubernetes import resolved
from charts.values.tree import Values
from charts.values.written import Path_, comments, defaults

FILE: Final = Path(__file__).parents[1] / "gpuslice" / "values.schema.json"
_Json = dict[str, Any]


def document() -> _Json:
    """Return the schema."""
    schema = Values.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    whole = _described(_inlined(schema, models), (), comments())
    _put_defaults(whole, defaults())
    foreign = moved.keys()
    for path in foreign:
        _let_through(whole, path.split("."))
    return resolved(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Values of the chart gpuslice",
            **whole,
        }
    )


def known(part: _Json) -> _Json:
    """Return the keys of *part* that are of this chart, with their schemas."""
    return {key: each for key, each in part.get("properties", {}).items() if each}


def text() -> str:
    """Return the file."""
    return json.dumps(document(), indent=1) + "\n"


def _inlined(part: Any, models: _Json) -> Any:
    if isinstance(part, list):
        return [_inlined(each, models) for each in part]
    if not isinstance(part, dict):
        return part
    if isinstance(reference := part.get("$ref"), str):
        rest = {key: value for key, value in part.items() if key != "$ref"}
        return _inlined({**models[reference.rpartition("/")[2]], **rest}, models)
    return {
        key: _inlined(value, models)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str))
    }


def _described(part: _Json, path: Path_, words: dict[Path_, str]) -> _Json:
    if path in words:
        part = {**part, "description": words[path]}
    if "properties" not in part:
        return part
    inside = {
        key: _described(value, (*path, key), words) for key, value in part["properties"].items()
    }
    return {**part, "properties": inside}


def _let_through(part: _Json, names: list[str]) -> None:
    for name in names[:-1]:
        part = part["properties"][name]
    # Everything is valid: templates say what to use.
    part["properties"].setdefault(names[-1], {})


def _put_defaults(part: _Json, said: Any) -> None:
    """Have each leaf say the default of values.yaml, in its order; other mappings say none."""
    if "properties" not in part:
        return
    if isinstance(said, dict):
        order = {key: place for place, key in enumerate(said)}
        keys = sorted(part["properties"], key=lambda key: order.get(key, len(order)))
        part["properties"] = {key: part["properties"][key] for key in keys}
    for key, inner in part["properties"].items():
        if isinstance(said, dict) and key in said:
            inner["default"] = said[key]
        if "properties" in inner:
            default = inner.pop("default", None)
            _put_defaults(inner, default)
