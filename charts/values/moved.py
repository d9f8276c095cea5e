"""Keys of other charts, which the schema lets through so that templates say what to use instead."""

from typing import Any, Final

import yaml

from charts.values.written import FILE

_FILES: Final = FILE.parent / "files"


def _read(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((_FILES / name).read_text()))


def keys() -> dict[str, str]:
    """Return the keys, each with a part of what templates say of it: the values to use."""
    moved = _read("moved-values.yaml")
    hami = {_foreign(row["key"]) for row in _read("hami-compat.yaml")["keys"]}
    return {
        **moved["others"],
        **{key: f"hamiCompat.{key}" for key in sorted(hami - set(moved["shared"]))},
    }


def shared() -> list[str]:
    """Return the keys that HAMi's chart and ours both have."""
    return list(_read("moved-values.yaml")["shared"])


def _foreign(key: str) -> str:
    """Return how much of a key of HAMi's chart it takes to tell it from ours."""
    names = key.split(".")
    return ".".join(names[: 2 if names[0] == "scheduler" else 1])
