"""Gives a library to those containers alone for which it fits the node."""

from collections.abc import Callable

import structlog

from cdi.compatibility import Source
from cdi.library import HookLibrary
from cdi.libraryfit import misfit
from gpu.refusal import RefusedError

log = structlog.get_logger(__name__)


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
