"""Where regions are: of containers that the device plugin served, and of claims.

A container of the plugin's has the directory `<pod UID>_<container>`, and its region in it. With
HAMi's own layout the container can write that directory and names the region itself, so only few
names are looked at, and no link is followed.
"""

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

REGION_NAME: Final = "region.cache"
_NAME: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_([a-z0-9][a-z0-9-]*)")
PRIORITY_DEFAULT: Final = 1
"""HAMi-core's, where none is asked for."""
_SUFFIX: Final = ".cache"
_NAMES_MAX: Final = 64


class Owner(NamedTuple):
    """Whose a directory is."""

    pod_uid: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A region and who may have processes in it."""

    path: Path
    pod_uids: frozenset[str]
    priority: int | None = None
    """What was granted; `None` where only the region tells, which the container can write."""
    never_limits: bool = False
    """Whether its core limit is switched off for good."""


def owner_of(name: str) -> Owner | None:
    """Return whose the directory *name* is; `None` if it is nobody's."""
    found = _NAME.fullmatch(name)
    return None if found is None else Owner(*found.groups())


def directory_of(owner: Owner) -> str:
    """Return the name of the directory of *owner*."""
    return f"{owner.pod_uid}_{owner.container}"


class PluginRegions:
    """The regions below the device plugin's *directory*; `None` where there is no plugin."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory

    def owners(self) -> tuple[Owner, ...]:
        """Return who has a directory; OSError if that cannot be told."""
        if self.directory is None:
            return ()
        try:
            with os.scandir(self.directory) as entries:
                found = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return ()
        return tuple(owner for name in sorted(found) if (owner := owner_of(name)) is not None)

    def region(self, owner: Owner) -> Path | None:
        """Return where the region of *owner* is; `None` if there is none."""
        if self.directory is None:
            return None
        directory = self.directory / directory_of(owner)
        try:
            with os.scandir(directory) as entries:
                names = [
                    each.name
                    for each in itertools.islice(entries, _NAMES_MAX)
                    if each.name.endswith(_SUFFIX) and each.is_file(follow_symlinks=False)
                ]
        except OSError:
            return None
        names = [name for name in names if "libvgpu.so" not in name and not name.startswith(".")]
        if REGION_NAME in names:
            return directory / REGION_NAME
        return directory / min(names) if names else None
