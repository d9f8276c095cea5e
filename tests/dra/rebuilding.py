"""Nodes whose process is killed or whose state is damaged, and marks in the regions of claims."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agent.damage import damage
from tests.dra.builders import UID
from tests.dra.nodes import Node
from tests.fakes.claim_server import ClaimServer


@contextmanager
def restarted(node: Node, server: ClaimServer, **changes: Any) -> Iterator[Node]:
    """Kill the process of *node* and run the next one on the same files."""
    node.close()
    last = Node(node.directory, server, **changes)
    try:
        yield last
    finally:
        last.close()


@contextmanager
def damaged(
    node: Node, server: ClaimServer, kind: str = "changed", **changes: Any
) -> Iterator[Node]:
    """Kill the process, damage its state, and run the next one."""
    damage(node.directory / "state", kind)
    with restarted(node, server, **changes) as last:
        yield last


def asides(node: Node) -> list[Path]:
    """Return the directories in which damaged states are kept."""
    return sorted(node.directory.glob("state.damaged-*"))


def region(node: Node, uid: str = UID) -> Path:
    """Return the region of a claim."""
    return node.directory / "regions" / uid / "region.cache"


def mark(path: Path) -> None:
    """Leave something in a region, as the processes of its claim do."""
    with path.open("r+b") as file:
        file.write(b"used")


def is_marked(path: Path) -> bool:
    """Tell whether what they left is still there."""
    return path.read_bytes()[:4] == b"used"
