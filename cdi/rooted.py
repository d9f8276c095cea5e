"""Paths below a driver root: found in our view, written in the host's.

A driver root is somebody else's file system (`/run/nvidia/driver`, or the host's `/` mounted in
the agent's container), so a path there has two forms, and its links are followed inside it.
"""

from pathlib import Path

from gpu.rooted import resolve


def resolve_inside(root: Path, inner: str) -> str | None:
    """Return *inner*, a path below *root*, without symlinks: absolute, or None if it is missing.

    `..` never leads out of *root*; a loop counts as missing.
    """
    try:
        found = resolve(root, inner)
        found.lstat()
    except OSError:
        return None
    return "/" + found.relative_to(root).as_posix().removeprefix(".")


def below(root: str, inner: str) -> str:
    """Return absolute *inner* as seen from outside *root*; both are POSIX paths."""
    return root.rstrip("/") + inner


def local(root: Path, inner: str) -> Path:
    """Return where absolute *inner* of *root* is in our own view."""
    return root / inner.lstrip("/")
