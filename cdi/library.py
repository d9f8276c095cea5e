"""HAMi-core's library on this node: checked once, then kept under its content's hash.

The administrator provides `libvgpu.so` (HAMi publishes no release file of it) and may replace it
at any time. Containers mount a copy that is never written again, so a replaced library reaches
new containers only. A *placeholder* stands in where there is no GPU to limit: it says that it
enforces nothing and is known as one everywhere.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdi.durable import Whole, sweep_temporary, write_whole
from cdi.elf import HEADER_SIZE, empty_header, problem
from cdi.errors import store_errors
from cdi.faults import FaultPoint
from cdi.rooted import below
from gpu.refusal import Refusal, RefusedError

CONTAINER_LIBRARY_PATH: Final = "/usr/local/vgpu/libvgpu.so"
PLACEHOLDER_LABEL: Final = b"gpuslice placeholder library: enforces nothing\n"

_LIBRARY_NAME = "libvgpu.so"
_PRELOAD_NAME = "ld.so.preload"
_PRELOAD = f"{CONTAINER_LIBRARY_PATH}\n".encode()
_POINTS: Final = Whole(
    FaultPoint.LIBRARY_TEMPORARY_WRITTEN,
    FaultPoint.LIBRARY_COPIED,
    FaultPoint.LIBRARY_DIRECTORY_MADE,
)
_SIZE_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLibrary:
    """An adopted library; the paths are the host's."""

    host_library_path: str
    host_preload_path: str
    sha256: str
    placeholder: bool
    """True where nothing is enforced: for simulations and demonstrations."""


def make_placeholder(path: Path) -> None:
    """Write a placeholder library to *path*."""
    with store_errors(path):
        write_whole(path, empty_header() + PLACEHOLDER_LABEL, _POINTS)


def _refuse(code: str, path: Path, limit: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code=code,
            field="enforcement.library",
            value=str(path),
            limit=limit,
            remedy="install HAMi-core's libvgpu.so there, or allow shares without enforcement",
        )
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_SIZE_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise _refuse("EnforcementLibraryMissing", path, "there is no such file") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise _refuse("EnforcementLibraryUnreadable", path, reason) from error
    if len(content) > _SIZE_MAX_BYTES:
        raise _refuse("EnforcementLibraryInvalid", path, "is larger than 64 MiB")
    return content


@dataclass(frozen=True, slots=True)
class LibraryStore:
    """Copies of libraries below *directory*, which the runtime knows as *host_directory*."""

    directory: Path
    host_directory: str

    def adopt(self, path: Path, *, expected_sha256: str | None = None) -> HookLibrary:
        """Check the library at *path* and keep a copy; refuse one that would not be loaded.

        StoreError if the copy cannot be written.
        """
        content = _read(path)
        wrong = problem(content)
        if wrong is not None:
            raise _refuse("EnforcementLibraryInvalid", path, wrong)
        sha256 = hashlib.sha256(content).hexdigest()
        if expected_sha256 not in {None, sha256}:
            raise _refuse("EnforcementLibraryChanged", path, f"its sha256 is {sha256}")
        self._keep(f"{sha256}/{_LIBRARY_NAME}", content)
        self._keep(f"{sha256}/{_PRELOAD_NAME}", _PRELOAD)
        return HookLibrary(
            host_library_path=below(self.host_directory, f"/{sha256}/{_LIBRARY_NAME}"),
            host_preload_path=below(self.host_directory, f"/{sha256}/{_PRELOAD_NAME}"),
            sha256=sha256,
            placeholder=content[HEADER_SIZE:] == PLACEHOLDER_LABEL,
        )

    def sweep_temporary(self) -> None:
        """Remove halves of copies, each up to a library's size, that killed writes left.

        Call it before the first `adopt`.
        """
        with store_errors(self.directory):
            for copy in self.directory.iterdir() if self.directory.is_dir() else ():
                if copy.is_dir():
                    sweep_temporary(copy)

    def _keep(self, name: str, content: bytes) -> None:
        kept = self.directory / name
        try:
            same = kept.read_bytes() == content
        except OSError:
            same = False
        if not same:
            with store_errors(kept):
                write_whole(kept, content, _POINTS, sync=True)
