"""Whether a library fits the node on which a container is about to load it.

One that does not is refused before the container starts: the loader would go on without it, and
the container would run without limits. Of images nothing is known here, so what a library needs of
their C library is judged when it is delivered.
"""

import platform
from collections.abc import Callable

import structlog

from cdi.compatibility import CudaRange, Source, version_of
from cdi.library import HookLibrary
from gpu.refusal import Refusal, RefusedError

log = structlog.get_logger(__name__)

_REMEDY = "deliver a library that fits, or mend its manifest"


def misfit(
    library: HookLibrary, *, cuda_driver_version: str, machine: str | None = None
) -> Refusal | None:
    """Say why *library* does not fit a node of *machine*, ours if not given; else `None`.

    *cuda_driver_version* is the newest CUDA that the node's driver supports, empty if not known.
    """
    manifest = library.manifest
    if manifest is None:
        return None
    built_for, ours = manifest.architecture, machine or platform.machine()
    if built_for != ours:
        return _refusal("architecture", built_for, f"the node is {ours}")
    if cuda_driver_version and not _is_within(manifest.cuda, cuda_driver_version):
        said = f"{manifest.cuda.minimum or 'any'} to {manifest.cuda.maximum or 'any'}"
        return _refusal("cuda", said, f"the node's driver is one for CUDA {cuda_driver_version}")
    return None


class FittingLibrary:
    """Gives the library of the moment, if it fits."""

    def __init__(
        self, source: Callable[[], HookLibrary], cuda_driver_version: Callable[[], str]
    ) -> None:
        """Prepare; *source* raises `RefusedError` where there is no library."""
        self._source, self._cuda_driver_version = source, cuda_driver_version
        self._said = ""

    def __call__(self) -> HookLibrary:
        """Return the library; raise `RefusedError` without one, and if it does not fit."""
        library = self._source()
        refusal = misfit(library, cuda_driver_version=self._cuda_driver_version())
        if refusal is not None:
            raise RefusedError(refusal)
        if library.manifest is None and library.sha256 != self._said:
            self._said = library.sha256
            self._say(library)
        return library

    @staticmethod
    def _say(library: HookLibrary) -> None:
        known = library.compatibility
        log.warning(
            "library used without a manifest",
            sha256=library.sha256,
            release=known.version or None,
            assumed=known.source is Source.ASSUMED,
            remedy="put a manifest beside it, so that it is judged before it is used",
        )


def _is_within(cuda: CudaRange, version: str) -> bool:
    found = version_of(version)
    return (cuda.minimum is None or version_of(cuda.minimum) <= found) and (
        cuda.maximum is None or found <= version_of(cuda.maximum)
    )


def _refusal(field: str, value: str, limit: str) -> Refusal:
    return Refusal(
        code="LibraryDoesNotFit",
        field=f"manifest.{field}",
        value=value,
        limit=limit,
        remedy=_REMEDY,
    )
