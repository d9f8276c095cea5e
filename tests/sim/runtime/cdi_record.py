"""The record of what the CDI library makes of the cases, as a file beside this one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from tests.sim.runtime.oci import Answer

FILE: Final = Path(__file__).with_name("cdi_answers.json")
_ADAPTER: Final = TypeAdapter(dict[str, Answer])


def read() -> dict[str, Answer]:
    """Return the recorded answers by the case's name."""
    return _ADAPTER.validate_python(json.loads(FILE.read_text(encoding="utf-8"))["answers"])


def write(library: str, answers: Mapping[str, Answer]) -> None:
    """Write the *answers* of the *library*, which is named with its release."""
    told: dict[str, Any] = _ADAPTER.dump_python(dict(answers), mode="json")
    document = {"library": library, "answers": told}
    FILE.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
