"""The table of docs/migration-from-hami.md: what becomes of each value of HAMi's chart.

The document is written by hand but for this, which stands between two marks and is made from the
table that the templates act by.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FILE: Final = Path(__file__).parents[2] / "docs" / "migration-from-hami.md"
_TABLE: Final = Path(__file__).parents[1] / "gpuslice" / "files" / "hami-compat.yaml"
_BEGIN: Final = "<!-- Made from charts/gpuslice/files/hami-compat.yaml by `make manifests`. -->\n"
_END: Final = "<!-- End of the table. -->\n"
_HEAD: Final = "| Value of HAMi | Its default | Here |\n|---|---|---|\n"
_LONG: Final = 60
_Json = dict[str, Any]


def text() -> str:
    """Return the file with the table as it has to be."""
    before, begin, rest = FILE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        message = f"{FILE.name}: the marks around the table are missing"
        raise ValueError(message)
    return "".join((before, _BEGIN, _HEAD, *_rows(), _END, after))


def _rows() -> Iterator[str]:
    for row in yaml.safe_load(_TABLE.read_text())["keys"]:
        yield f"| `{row['key']}`{_releases(row)} | {_default(row)} | {_here(row)} |\n"


def _releases(row: _Json) -> str:
    if since := row.get("since"):
        return f" ({since})"
    return f" (up to {until})" if (until := row.get("until")) else ""


def _default(row: _Json) -> str:
    if "default" not in row or row["default"] is None:
        return ""
    shown = json.dumps(row["default"])
    return f"`{shown}`" if len(shown) <= _LONG else "a list of names"


def _here(row: _Json) -> str:
    if reason := row.get("refuse"):
        return f"refused: {reason}"
    if other := row.get("same"):
        return f"refused unless it is as in `{other}`: no such image is used"
    if whole := row.get("part"):
        return f"with `{whole}`"
    said = ", ".join(f"`{path}`" for path in _paths(row["to"]))
    note = row.get("note", "")
    return f"{said}: {note}" if note else said


def _paths(to: Any) -> Iterator[str]:
    for each in to if isinstance(to, list) else [to]:
        yield each if isinstance(each, str) else str(each["path"])
