"""What real API servers told in the scenes, one file for each minor with the release in it."""

import json
from pathlib import Path
from typing import Any, Final

COMPLETE: Final = ("1.36", "1.37")
"""Of older releases only those scenes are recorded that show which fields they keep."""
_FOLDER: Final = Path(__file__).with_name("recorded")


def path_of(minor: str) -> Path:
    """Return the file of *minor*."""
    return _FOLDER / f"{minor}.json"


def minors() -> list[str]:
    """Return the minors that were recorded, oldest first."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def read(minor: str) -> dict[str, dict[str, Any]]:
    """Return what each scene told on the real server of *minor*."""
    content: dict[str, dict[str, Any]] = json.loads(path_of(minor).read_text())["scenes"]
    return content


def write(minor: str, release: str, scenes: dict[str, dict[str, Any]]) -> None:
    """Write the file of *minor*."""
    content = {"kubernetes": release, "scenes": scenes}
    path_of(minor).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
