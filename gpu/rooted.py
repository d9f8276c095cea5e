"""Paths of another root directory, seen from outside it.

A driver container's tree, or the host's below a mount, holds links written for its own root:
`/usr/lib64/libcuda.so.1 -> /opt/driver/libcuda.so.1`. Following them from outside leaves that
tree and finds this container's files, or none. The standard library follows links only from the
process's own root, hence these few lines.
"""

from pathlib import Path

_MOST_LINKS = 40  # as the kernel's own limit


def resolve(root: Path, path: str) -> Path:
    """Return where *path* leads for a process whose root is *root*; the end need not exist.

    `OSError` if the links go round in a circle.
    """
    parts = [part for part in reversed(Path(path).parts) if part != "/"]
    inside = Path()
    links = 0
    while parts:
        part = parts.pop()
        if part == "..":
            inside = inside.parent
            continue
        step = root / inside / part
        if not step.is_symlink():
            inside /= part
            continue
        links += 1
        if links > _MOST_LINKS:
            message = f"too many links below {root}: {path}"
            raise OSError(message)
        target = step.readlink()
        if target.is_absolute():
            inside = Path()
        parts.extend(part for part in reversed(target.parts) if part != "/")
    return root / inside
