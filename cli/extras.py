"""Packages that only some commands need, which are extras of the installation.

A command imports them when it runs. Where one is missing, the user is told what to install and not
in which module of ours it was looked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OURS: Final = frozenset(
    {"cdi", "cli", "dra", "extender", "gpu", "hami", "kube", "protos", "sim", "webhook"}
)


class MissingExtraError(Exception):
    """An extra is not installed; the text names it."""


@contextmanager
def needing(extras: str) -> Iterator[None]:
    """Import in the block what *extras*, such as `sim,webhook`, bring.

    Raises `MissingExtraError` where a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in _OURS:
            raise
        message = f"{package} is not installed; install `gpuslice[{extras}]`"
        raise MissingExtraError(message) from error
