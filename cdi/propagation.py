"""Whether the host sees what is mounted here.

A container has mounts of its own. What it mounts below a directory of the host is there for the
host, and for the containers that are given it, only if that directory was mounted with
`mountPropagation: Bidirectional` (mount_namespaces(7): a shared mount); otherwise the host finds an
empty directory, and the runtime starts no container that needs a file in it.
"""

import os
import re
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_OPTIONAL: Final = 6
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def is_seen_by_host(directory: Path, *, proc: Path = PROC) -> bool:
    """Tell whether mounts below *directory* show for the first process; if in doubt, yes.

    That is the host's where processes are the host's too (`hostPID`).
    """
    try:
        # By name: what these links lead to cannot be opened.
        if os.readlink(proc / "1/ns/mnt") == os.readlink(proc / "self/ns/mnt"):  # noqa: PTH115
            return True
        mounts = (proc / "self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        where = directory.resolve()
    except OSError:
        return True
    shared = True
    depth = -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = Path(_unescaped(fields[4]))
        # Of several mounts at one place the last hides the others.
        if len(point.parts) >= depth and where.is_relative_to(point):
            depth = len(point.parts)
            options = fields[_OPTIONAL : fields.index("-", _OPTIONAL)]
            shared = any(each.startswith("shared:") for each in options)
    return shared


def _unescaped(path: str) -> str:
    """Return a path as it is; the kernel writes blanks in it by their octal numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)
