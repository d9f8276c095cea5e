"""Files that appear whole or not at all, under any reader's eyes.

The runtime reads a CDI directory whenever it changes: a half-written file would break every
container start that needs it. So content goes to a hidden temporary name that no reader takes
(only `.json` and `.yaml` are read, hidden or not), and is then renamed.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

from cdi.errors import StoreError

TEMPORARY_SUFFIX: Final = ".tmp"


def make_directory(directory: Path) -> None:
    """Make *directory* readable by all, with its parents; an existing one is left as it is."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(directory, error) from error


def write_whole(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Put *content* at *path* in one step; *durable* makes it outlive a power cut."""
    make_directory(path.parent)
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX
        )
    except OSError as error:
        raise StoreError(path, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(path, error) from error


def sync_directory(directory: Path) -> None:
    """Make the names in *directory* outlive a power cut."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
