"""Which versions of the C library a shared object needs, as its symbols say.

A preloaded library that needs a newer glibc than a container's image has, or one of glibc's private
symbols that a release has dropped, keeps every program of the container from starting. The loader
reads the same section, `.gnu.version_r` (LSB: Symbol Versioning).
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import Section

_GLIBC: Final = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
_PRIVATE: Final = "GLIBC_PRIVATE"
_PACKED_RELOCATIONS: Final = "GLIBC_ABI_DT_RELR"
_PACKED_SINCE: Final = (2, 36)

# Far more than any library has; the reader believes the counts in a damaged file.
_SECTIONS_MAX: Final = 1024
_ENTRIES_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LibcNeeds:
    """What a shared object needs of glibc."""

    minimum: tuple[int, int] | None
    """The oldest release that has it all; `None` where nothing is needed by version."""
    private: bool
    """Symbols that glibc keeps for itself, and drops without notice."""

    @property
    def minimum_text(self) -> str:
        """The release as people write it."""
        return "" if self.minimum is None else f"{self.minimum[0]}.{self.minimum[1]}"


def libc_needs(content: bytes) -> LibcNeeds | None:
    """Return what the shared object *content* needs, `None` where that cannot be read."""
    try:
        names = _needed(content)
    except (ELFError, ValueError, LookupError, TypeError, OverflowError, AttributeError):
        # What the reader meets in a damaged file depends on where it is damaged.
        return None
    if names is None:
        return None
    releases = [_release(name) for name in names]
    return LibcNeeds(
        minimum=max((each for each in releases if each is not None), default=None),
        private=_PRIVATE in names,
    )


def _release(name: str) -> tuple[int, int] | None:
    if name == _PACKED_RELOCATIONS:
        return _PACKED_SINCE
    found = _GLIBC.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def _needed(content: bytes) -> set[str] | None:
    sections = list(islice(ELFFile(io.BytesIO(content)).iter_sections(), _SECTIONS_MAX + 1))
    if not 0 < len(sections) <= _SECTIONS_MAX:
        return None
    entries = list(islice(chain.from_iterable(map(_entries, sections)), _ENTRIES_MAX + 1))
    return set(entries) if len(entries) <= _ENTRIES_MAX else None


def _entries(section: Section) -> Iterator[str]:
    if isinstance(section, GNUVerNeedSection):
        for _, entries in section.iter_versions():
            # An empty file of a list counts too, or a damaged one would be read for ever.
            yield ""
            yield from (str(entry.name) for entry in entries)
