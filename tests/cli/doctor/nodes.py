"""Trees of files as nodes have them."""

from pathlib import Path
from typing import Any

from cli.doctor.model import Half, Verdict
from cli.doctor.node.checks import CHECKS
from cli.doctor.node.view import Node
from cli.doctor.running import run


def write(root: Path, files: dict[str, str]) -> Path:
    """Write *files* below *root*, by their absolute paths on the node."""
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def verdict(root: Path, check: str, **options: Any) -> Verdict:
    """Return what the check with this id says of the node at *root*."""
    (chosen,) = [each for each in CHECKS if each.id == check]
    (finding,) = run([chosen], Node(host_root=root, **options), Half.NODE)
    return finding.verdict
