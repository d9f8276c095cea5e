"""An explanation as JSON for programs; docs/explain.md documents the fields."""

from typing import Any

from pydantic import TypeAdapter

from cli.explain.deciders import Decider
from sim.explain.model import Explanation

FORMAT = 1
"""Grows when a field changes its meaning or goes away."""
_ADAPTER = TypeAdapter(Explanation)


def document_of(said: Explanation, decided_by: Decider = Decider.CLAIMS) -> dict[str, Any]:
    """Return *said* as plain JSON values."""
    found = _ADAPTER.dump_python(said, mode="json")
    return {"format": FORMAT, "decided_by": decided_by.value, **found}
