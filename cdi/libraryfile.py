"""Reads what somebody else has put on the node: HAMi-core's library, and the manifest beside it."""

from pathlib import Path
from typing import Final

from cdi.compatibility import MANIFEST_BYTES_MAX, Manifest
from cdi.elf import problem
from cdi.errors import SpecError
from gpu.refusal import Refusal, RefusedError

_BYTES_MAX: Final = 64 * 1024 * 1024


def library_refused(code: str, path: Path, limit: str) -> RefusedError:
    """Return the error about the library at *path*."""
    return RefusedError(
        Refusal(
            code=code,
            field="enforcement.library",
            value=str(path),
            limit=limit,
            remedy="install HAMi-core's libvgpu.so there, or allow shares without enforcement",
        )
    )


def read_library(path: Path) -> bytes:
    """Return the content of a library that the loader would take; RefusedError for any other."""
    content = _read(path, _BYTES_MAX)
    if len(content) > _BYTES_MAX:
        raise library_refused("EnforcementLibraryInvalid", path, "is larger than 64 MiB")
    wrong = problem(content)
    if wrong is not None:
        raise library_refused("EnforcementLibraryInvalid", path, wrong)
    return content


def read_manifest(path: Path) -> Manifest:
    """Return the manifest at *path*; RefusedError if there is none, or none that can be meant."""
    try:
        return Manifest.parse(_read(path, MANIFEST_BYTES_MAX))
    except SpecError as error:
        refusal = Refusal(
            code="LibraryManifestInvalid",
            field=f"manifest.{error.field}" if error.field else "manifest",
            value=str(path),
            limit=error.reason,
        )
        raise RefusedError(refusal) from error


def _read(path: Path, size_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size_max + 1)
    except FileNotFoundError as error:
        raise library_refused("EnforcementLibraryMissing", path, "there is no such file") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise library_refused("EnforcementLibraryUnreadable", path, reason) from error
