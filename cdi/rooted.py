"""Paths below a driver root: found in our view, written in the host's.

A driver root is somebody else's file system (`/run/nvidia/driver`, or the host's `/` mounted in
the agent's container), so its absolute symlinks mean paths inside it. The standard library only
resolves against the process's own root; hence this walk.
"""

import os
import stat
from collections import deque
from pathlib import Path, PurePosixPath

_LINKS_MAX = 40


def resolve_inside(root: Path, inner: str) -> str | None:
    """Return *inner*, a path below *root*, without symlinks: absolute, or None if it is missing.

    `..` never leads out of *root*; a loop counts as missing.
    """
    left = deque(PurePosixPath(inner).parts)
    done: list[str] = []
    links = 0
    while left:
        part = left.popleft()
        if part in {"/", "."}:
            continue
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        try:
            is_link = stat.S_ISLNK(here.lstat().st_mode)
        except OSError:
            return None
        if not is_link:
            done.append(part)
            continue
        links += 1
        if links > _LINKS_MAX:
            return None
        target = PurePosixPath(os.readlink(here))  # noqa: PTH115 - a text, not a path of ours
        if target.is_absolute():
            done = []
        left.extendleft(reversed(target.parts))
    return "/" + "/".join(done)


def below(root: str, inner: str) -> str:
    """Return absolute *inner* as seen from outside *root*; both are POSIX paths."""
    return root.rstrip("/") + inner


def local(root: Path, inner: str) -> Path:
    """Return where absolute *inner* of *root* is in our own view."""
    return root / inner.lstrip("/")
