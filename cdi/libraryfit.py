"""Whether a library fits the node on which a container is about to load it.

One that does not is refused before the container starts: the loader would go on without it, and
the container would run without limits. Of images nothing is known here, so what a library needs of
their C library is judged when it is delivered.
"""

import platform

from cdi.compatibility import CudaRange, version_of
from cdi.library import HookLibrary
from gpu.refusal import Refusal

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
