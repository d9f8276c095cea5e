"""Which boot the agent last ran in, kept apart from the state, which may have to be rebuilt.

A region on a disk looks the same after a reboot, but what it says of running processes is no
longer true. Records of claims name their boot; when they cannot be read any more this file does.
"""

from pathlib import Path

import structlog

from cdi.durable import Whole
from cdi.faults import FaultPoint
from dra.journal import DamagedError, read_whole, write_whole

_POINTS = Whole(FaultPoint.BOOT_ID_TEMPORARY_WRITTEN, FaultPoint.BOOT_ID_WRITTEN)

log = structlog.get_logger(__name__)


class BootFile:
    """The file at *path*; it need not be there, nor say anything that can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """Return the boot id, empty when it cannot be told."""
        try:
            return str(read_whole(self._path).get("bootId", ""))
        except FileNotFoundError:
            return ""
        except (DamagedError, OSError) as error:
            log.warning("boot id not read", reason=str(error))
            return ""

    def write(self, boot_id: str) -> None:
        """Remember *boot_id*, as far as the disk has room."""
        if self.read() == boot_id:
            return
        try:
            write_whole(self._path, {"bootId": boot_id}, _POINTS)
        except OSError as error:
            log.warning("boot id not written", reason=str(error))
