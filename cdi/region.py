"""The file through which the processes of one container share HAMi-core's bookkeeping.

The library ends the process when it cannot open its region and the user's uid is unknown before,
so the file is made here: of the right size, writable by all, in a directory that is not. Only
the file is mounted. Deleting it while a process uses it would double the limit.
"""

import os
from pathlib import Path
from typing import Final

from cdi.atomic import make_directory
from cdi.errors import StoreError

REGION_NAME: Final = "region.cache"
REGION_SIZE: Final = 2008952 + 1
"""The structure of HAMi-core 1.1 and 1.2 and the byte that the library writes behind it."""

_MODE: Final = 0o666


def create_region(directory: Path) -> Path:
    """Make the region in *directory*, sparse and zeroed; one of the right size is left alone."""
    path = directory / REGION_NAME
    make_directory(directory)
    try:
        try:
            found = path.lstat()
        except FileNotFoundError:
            found = None
        # Of all that can stand here only a region has this size: a link is its target's length.
        if found is None or found.st_size != REGION_SIZE:
            _replace(path)
    except OSError as error:
        raise StoreError(path, error) from error
    return path


def _replace(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, REGION_SIZE)
        os.fchmod(handle, _MODE)
    finally:
        os.close(handle)
    temporary.replace(path)


def reset_region(path: Path) -> None:
    """Zero the region at *path* in place; only for one that no live process uses.

    Usage of killed processes, and a semaphore that one of them held, otherwise stay for ever.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.ftruncate(handle, 0)
            os.ftruncate(handle, REGION_SIZE)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(path, error) from error
