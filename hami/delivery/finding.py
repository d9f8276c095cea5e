"""Finds the library, and what is said of it, in a directory that somebody else's image has filled.

HAMi's images hold it as `libvgpu.so.<release>` (HAMi: docker/Dockerfile), others as `libvgpu.so`.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdi.compatibility import (
    MANIFEST_SUFFIX,
    Compatibility,
    Libc,
    Manifest,
    by_release,
    manifest_path,
    release_in_name,
    version_of,
)
from cdi.elf import machine_of
from cdi.elfversions import LibcNeeds, libc_needs
from cdi.libraryfile import read_library, read_manifest
from gpu.refusal import Refusal, RefusedError

LIBRARY_NAME: Final = "libvgpu.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A library that may be delivered."""

    path: Path
    content: bytes
    sha256: str
    manifest: Manifest | None
    """The builder's, or one made of what is known of the release; `None` where nothing is."""
    is_made: bool
    needs: LibcNeeds | None
    """What it needs of images; `None` where that cannot be read."""


def find(directory: Path, *, manifest: Path | None = None) -> Found:
    """Return the library in *directory*; `RefusedError` for none, several or one that is unfit.

    Its manifest is at *manifest*, if given, else beside it.
    """
    path = _library_in(directory)
    content = read_library(path)
    sha256 = hashlib.sha256(content).hexdigest()
    needs = libc_needs(content)
    beside = manifest or manifest_path(path)
    if manifest is not None or beside.exists():
        said = read_manifest(beside)
        _check(said, beside, sha256=sha256, content=content, needs=needs)
        return Found(
            path=path, content=content, sha256=sha256, manifest=said, is_made=False, needs=needs
        )
    known = by_release(release_in_name(path.name))
    made = _made(known, sha256=sha256, content=content, needs=needs)
    return Found(
        path=path, content=content, sha256=sha256, manifest=made, is_made=True, needs=needs
    )


def _library_in(directory: Path) -> Path:
    plain = directory / LIBRARY_NAME
    if plain.is_file():
        return plain
    found = sorted(
        path
        for path in directory.glob(f"{LIBRARY_NAME}.*")
        if path.is_file() and not path.name.endswith(MANIFEST_SUFFIX)
    )
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.name for path in found)
    raise RefusedError(
        Refusal(
            code="LibraryAmbiguous" if found else "LibraryMissing",
            field="--from",
            value=str(directory),
            limit=f"it holds {names}" if found else f"it holds no {LIBRARY_NAME}",
            remedy=f"have it hold one {LIBRARY_NAME} or {LIBRARY_NAME}.<release>",
        )
    )


def _check(
    manifest: Manifest, path: Path, *, sha256: str, content: bytes, needs: LibcNeeds | None
) -> None:
    """Hold what *manifest* says against the library itself."""
    if manifest.sha256 != sha256:
        raise _untrue(path, "sha256", manifest.sha256, f"the library's is {sha256}")
    built_for = machine_of(content)
    if manifest.architecture != built_for:
        raise _untrue(path, "architecture", manifest.architecture, f"it is built for {built_for}")
    minimum = needs.minimum if needs else None
    if manifest.libc and minimum and minimum > version_of(manifest.libc.minimum):
        limit = f"it needs glibc {'.'.join(map(str, minimum))}"
        raise _untrue(path, "libc.minimum", manifest.libc.minimum, limit)


def _made(
    known: Compatibility, *, sha256: str, content: bytes, needs: LibcNeeds | None
) -> Manifest | None:
    built_for = machine_of(content)
    if known.layout is None or built_for is None:
        return None
    libc = Libc(minimum=needs.minimum_text) if needs and needs.minimum else None
    return Manifest.model_validate(
        {
            "format": 1,
            "sha256": sha256,
            "version": known.version,
            "regionLayout": known.layout,
            "needsLockDirectory": known.needs_lock_directory,
            "architecture": built_for,
            "libc": libc,
        }
    )


def _untrue(path: Path, field: str, value: str, limit: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code="LibraryManifestUntrue",
            field=f"manifest.{field}",
            value=value,
            limit=limit,
            remedy=f"mend {path}",
        )
    )
