"""The errors of this package; refusals towards a user are `gpu.refusal.RefusedError`.

CdiError
|-- SpecError        a document that the runtime's library, or we, do not accept
|-- StoreError       the file system did not do what was asked
`-- DelegateError    nvidia-ctk failed or wrote what we cannot use

"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_CODES: Final = {
    errno.EROFS: "ReadOnly",
    errno.ENOSPC: "DiskFull",
    errno.EDQUOT: "DiskFull",
    errno.EACCES: "PermissionDenied",
    errno.EPERM: "PermissionDenied",
    errno.ENOTDIR: "NotADirectory",
    errno.EEXIST: "NotADirectory",  # a file stands where the directory has to be made
}


class CdiError(Exception):
    """What every error of this package is."""


class SpecError(CdiError):
    """One thing wrong with a spec: *field* is its path in the document, empty for the whole."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class StoreError(CdiError):
    """A failed file operation with a stable *code*: `ReadOnly`, `DiskFull`, ... or `IoFailed`."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path, error)
        self.code: str = _CODES.get(error.errno or 0, "IoFailed")
        self.path = path
        self.detail = error.strerror or str(error)

    def __str__(self) -> str:
        return f"{self.code}: {self.path}: {self.detail}"


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn a failed file operation of the block into a StoreError about *path*."""
    try:
        yield
    except OSError as error:
        raise StoreError(path, error) from error


class DelegateError(CdiError):
    """nvidia-ctk did not produce usable edits: *what* it did instead, and what is known of it."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(what, detail)
        self.what = what
        self.detail = detail

    def __str__(self) -> str:
        return f"nvidia-ctk {self.what}: {self.detail}"
