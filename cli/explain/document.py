"""An explanation as JSON for programs; docs/explain.md documents the fields."""

from typing import Any

from pydantic import TypeAdapter

from sim.explain.model import Explanation

FORMAT = 1
"""Grows when a field changes its meaning or goes away."""
_ADAPTER = TypeAdapter(Explanation)


def document_of(said: Explanation) -> dict[str, Any]:
    """Return *said* as plain JSON values."""
    return {"format": FORMAT, **_ADAPTER.dump_python(said, mode="json")}
