"""Our files in the runtime's CDI directory, one per prepared claim and no others.

The directory belongs to all CDI vendors, so only names of our own kind are listed or removed.
`/var/run/cdi` is usually a tmpfs: after a boot the files are gone while claims are still
prepared, so a missing file is nothing special here.
"""

import errno
import os
import re
from pathlib import Path
from typing import Final

from cdi.durable import Whole, make_directory, remove, sweep_temporary, write_whole
from cdi.errors import StoreError, store_errors
from cdi.faults import FaultPoint
from cdi.names import CLASS, VENDOR, check_claim_uid

_PREFIX: Final = f"{VENDOR}-{CLASS}_"
_SUFFIX: Final = ".json"
_POINTS: Final = Whole(
    FaultPoint.SPEC_TEMPORARY_WRITTEN, FaultPoint.SPEC_WRITTEN, FaultPoint.CDI_DIRECTORY_MADE
)
_OURS: Final = re.compile(rf"{re.escape(_PREFIX)}([0-9A-Za-z][0-9A-Za-z-]*){re.escape(_SUFFIX)}")


class SpecStore:
    """Claims' specs in *directory*; every method raises StoreError if the file system fails."""

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self._directory = directory
        self._durable = durable

    def path(self, claim_uid: str) -> Path:
        """Return the file of a claim, whether it exists or not."""
        return self._directory / f"{_PREFIX}{check_claim_uid(claim_uid)}{_SUFFIX}"

    def prepare(self) -> None:
        """Make the directory, so that a start fails early where it cannot be made."""
        with store_errors(self._directory):
            make_directory(self._directory, FaultPoint.CDI_DIRECTORY_MADE)

    def write(self, claim_uid: str, spec: bytes) -> None:
        """Put *spec* in place of what was there; readers see either, never a part."""
        path = self.path(claim_uid)
        with store_errors(path):
            write_whole(path, spec, _POINTS, sync=self._durable)

    def read(self, claim_uid: str) -> bytes | None:
        """Return the bytes of a claim's file; None if there is none."""
        path = self.path(claim_uid)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(path, error) from error

    def delete(self, claim_uid: str) -> None:
        """Remove a claim's file; one that is not there counts as removed."""
        path = self.path(claim_uid)
        try:
            remove(path, FaultPoint.SPEC_DELETED)
        except OSError as error:
            # A read-only file system refuses to remove even what is not there.
            if error.errno != errno.EROFS or path.exists():
                raise StoreError(path, error) from error

    def claim_uids(self) -> set[str]:
        """Return the claims that have a file here."""
        matches = (_OURS.fullmatch(name) for name in self._names())
        return {match[1] for match in matches if match}

    def sweep_temporary(self) -> int:
        """Remove what writes that never finished left behind, and return how many there were.

        Call it before the first write only: it would also take a write in progress.
        """
        with store_errors(self._directory):
            return sweep_temporary(self._directory, _PREFIX)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._directory)  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(self._directory, error) from error
