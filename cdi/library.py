"""HAMi-core's library on this node: checked once, then kept under its content's hash.

The administrator provides `libvgpu.so` (HAMi publishes no release file of it) and may replace it
at any time. Containers mount a copy that is never written again, so a replaced library reaches
new containers only. A *placeholder* stands in where there is no GPU to limit: it says that it
enforces nothing and is known as one everywhere.

Beside the copies there may be a link to the newest that was delivered (`deliver`). A copy that
nobody refers to any more goes by `sweep`; the kernel has the last word on whether it is used.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cdi.compatibility import (
    ASSUMED,
    Compatibility,
    Manifest,
    by_manifest,
    by_release,
    manifest_path,
    release_in_name,
)
from cdi.durable import (
    Whole,
    make_directory,
    place_link,
    remove,
    remove_directory,
    sweep_temporary,
    write_whole,
)
from cdi.elf import HEADER_SIZE, empty_header
from cdi.errors import store_errors
from cdi.faults import FaultPoint
from cdi.lease import in_use
from cdi.libraryfile import library_refused, read_library, read_manifest
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
_LINK_POINTS: Final = Whole(FaultPoint.LIBRARY_LINK_MADE, FaultPoint.LIBRARY_LINKED)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_YOUNG_S: Final = 3600.0
"""Another instance of the agent may have kept it a moment ago, without having told anybody yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLibrary:
    """An adopted library; the paths are the host's."""

    host_library_path: str
    host_preload_path: str
    sha256: str
    placeholder: bool
    """True where nothing is enforced: for simulations and demonstrations."""
    manifest: Manifest | None = None
    compatibility: Compatibility = ASSUMED


def make_placeholder(path: Path) -> None:
    """Write a placeholder library to *path*."""
    with store_errors(path):
        write_whole(path, empty_header() + PLACEHOLDER_LABEL, _POINTS)


@dataclass(frozen=True, slots=True)
class LibraryStore:
    """Copies of libraries below *directory*, which the runtime knows as *host_directory*."""

    directory: Path
    host_directory: str

    def adopt(self, path: Path, *, expected_sha256: str | None = None) -> HookLibrary:
        """Check the library at *path* and keep a copy; refuse one that would not be loaded.

        So is the manifest beside it, if it has one. StoreError if they cannot be written.
        """
        content = read_library(path)
        sha256 = hashlib.sha256(content).hexdigest()
        if expected_sha256 not in {None, sha256}:
            raise library_refused("EnforcementLibraryChanged", path, f"its sha256 is {sha256}")
        # A link leads to where the manifest is, and the release in the name.
        real = path.resolve()
        beside = manifest_path(real)
        manifest = read_manifest(beside) if beside.exists() else None
        kept = self.keep(content, manifest)
        if kept.manifest is None:
            return replace(kept, compatibility=by_release(release_in_name(real.name)))
        return kept

    def keep(self, content: bytes, manifest: Manifest | None) -> HookLibrary:
        """Keep a copy of a library that was read, and what *manifest* says of it.

        RefusedError if that speaks of another library, StoreError if they cannot be written.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        copy = self.directory / sha256 / _LIBRARY_NAME
        beside = manifest_path(copy)
        if manifest is None:
            manifest = read_manifest(beside) if beside.exists() else None
        if manifest is not None and manifest.sha256 != sha256:
            raise RefusedError(
                Refusal(
                    code="LibraryManifestOfAnother",
                    field="manifest.sha256",
                    value=manifest.sha256,
                    limit=f"the library beside it has {sha256}",
                    remedy="replace the library and its manifest together",
                )
            )
        self._keep(f"{sha256}/{_LIBRARY_NAME}", content)
        self._keep(f"{sha256}/{_PRELOAD_NAME}", _PRELOAD)
        if manifest is not None:
            self._keep(f"{sha256}/{beside.name}", manifest.render())
        return HookLibrary(
            host_library_path=below(self.host_directory, f"/{sha256}/{_LIBRARY_NAME}"),
            host_preload_path=below(self.host_directory, f"/{sha256}/{_PRELOAD_NAME}"),
            sha256=sha256,
            placeholder=content[HEADER_SIZE:] == PLACEHOLDER_LABEL,
            manifest=manifest,
            compatibility=ASSUMED if manifest is None else by_manifest(manifest),
        )

    def deliver(self, content: bytes, manifest: Manifest | None) -> HookLibrary:
        """Do what `keep` does, and have the link in the directory lead to the copy."""
        with store_errors(self.directory):
            make_directory(self.directory, FaultPoint.LIBRARY_DIRECTORY_MADE)
        with self._alone():
            kept = self.keep(content, manifest)
            link, target = self.directory / _LIBRARY_NAME, f"{kept.sha256}/{_LIBRARY_NAME}"
            if self._delivered() != kept.sha256:
                with store_errors(link):
                    place_link(link, target, _LINK_POINTS)
            return kept

    def sweep(self, keep: Collection[str], *, young_s: float = _YOUNG_S) -> set[str]:
        """Remove copies that are not among the hashes *keep*; return which.

        The delivered one stays, and what is *young_s* old or less, or in use by a process.
        """
        if not self.directory.is_dir():
            return set()
        with self._alone(), store_errors(self.directory):
            oldest_s = time.time() - young_s
            found = {
                each.name
                for each in self.directory.iterdir()
                if _SHA256.fullmatch(each.name) and each.stat().st_mtime < oldest_s
            }
            gone = {
                sha256
                for sha256 in found - set(keep) - {self._delivered()}
                if not in_use(self.directory / sha256 / _LIBRARY_NAME)
            }
            for sha256 in gone:
                self._remove(self.directory / sha256)
        return gone

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

    def _delivered(self) -> str:
        try:
            target = (self.directory / _LIBRARY_NAME).readlink()
        except OSError:
            return ""
        return target.parent.name

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others out: a sweep of one process must not take what another is about to name."""
        with store_errors(self.directory):
            descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)

    @staticmethod
    def _remove(copy: Path) -> None:
        for file in copy.iterdir():
            remove(file, FaultPoint.LIBRARY_FILE_REMOVED)
        remove_directory(copy, FaultPoint.LIBRARY_REMOVED)
