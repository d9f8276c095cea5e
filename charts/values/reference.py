"""docs/values.md: every value with its type, its default and its meaning."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from charts.values.programs import PROGRAMS, Program
from charts.values.schema import document, known

FILE: Final = Path(__file__).parents[2] / "docs" / "values.md"
_Json = dict[str, Any]
_PLACES: Final = {"node-agent": "kubeletPlugin", "webhook": "webhook", "extender": "scheduler"}
_HEAD: Final = """\
# Values of the chart

<!-- Made from charts/values and charts/gpuslice/values.yaml by `make manifests`. -->

What `helm install --set` and `--values` take. `values.schema.json` refuses every other key and
every value that is not of the type given here. Defaults below `settings` are the programs' own.
Kubernetes' own types are checked as of Kubernetes 1.37.
"""
_TABLE: Final = "| Key | Type | Default | Meaning |\n|---|---|---|---|\n"


def text() -> str:
    """Return the file."""
    schema = document()
    keys = known(schema)
    sections = {key: each for key, each in keys.items() if "properties" in each}
    parts = [_HEAD, "## General\n", _table(_rows(_without(schema, sections), ""))]
    for key, section in sections.items():
        parts += [f"## `{key}`\n", _sentence(section)]
        settings = section["properties"].get("settings", {})
        if "properties" not in settings:
            parts.append(_table(_rows(section, f"{key}.")))
            continue
        parts.append(_table(_rows(_without(section, {"settings"}), f"{key}.")))
        parts += _settings(_program(key), settings)
    return "\n".join(parts)


def _program(section: str) -> Program:
    (found,) = [each for each in PROGRAMS if _PLACES[each.name] == section]
    return found


def _settings(program: Program, schema: _Json) -> list[str]:
    place = f"{_PLACES[program.name]}.settings"
    model = program.settings().model_fields
    taken = "\n".join(
        f"- `--{name.replace('_', '-')}`: {source}" for name, source in program.left_out.items()
    )
    return [
        f"### `{place}`\n",
        f"Flags of `gpuslice {program.name}`, {len(model)} of them.\n",
        _table(_rows(schema, f"{place}.")),
        f"Not there, because the chart says them itself:\n\n{taken}\n",
    ]


def _without(schema: _Json, keys: Any) -> _Json:
    kept = {key: each for key, each in known(schema).items() if key not in keys}
    return {**schema, "properties": kept}


def _table(rows: Iterator[str]) -> str:
    return _TABLE + "".join(rows)


def _rows(schema: _Json, before: str) -> Iterator[str]:
    for key, each in known(schema).items():
        path = before + key
        if "properties" in each:
            yield from _rows(each, f"{path}.")
            continue
        cells = (f"`{path}`", _kind(each), _default(each), _sentence(each).strip())
        yield f"| {' | '.join(map(_escaped, cells))} |\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "&#124;").replace("<", "&lt;")


def _sentence(schema: _Json) -> str:
    words = schema.get("description", "")
    if not words:
        return ""
    ended = words if words.endswith((".", ":")) else f"{words}."
    # What users write begins a sentence as it is written, and so do programs.
    first = ended.partition(" ")[0]
    is_a_word = re.fullmatch("[a-z]+('s)?", first) and not first.startswith("kube")
    return f"{ended[0].upper() if is_a_word else ended[0]}{ended[1:]}\n"


def _default(schema: _Json) -> str:
    if "default" not in schema:
        return "none"
    value = schema["default"]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{json.dumps(value)}`"


def _kind(schema: _Json) -> str:
    if "enum" in schema:
        return " or ".join(f"`{each}`" if each else "empty" for each in schema["enum"])
    if alternatives := schema.get("anyOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_kind(each) for each in alternatives))
    if "$ref" in schema:
        return f"Kubernetes' {schema['$ref'].rpartition('.')[2]}"
    return _plain(schema)


def _plain(schema: _Json) -> str:
    kind = str(schema.get("type"))
    if kind == "array":
        return f"list of {_kind(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    return "text" if kind == "string" else kind + _limits(schema)


def _limits(schema: _Json) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    if least is not None:
        return f", {least} or more"
    return f", above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
