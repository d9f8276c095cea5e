"""Which mode a node was served in last, so that a start can tell whether that is a change.

A start that finds it unreadable, or forgotten on purpose, looks as after a change: it asks the API
server how the node is to be served and who still uses its GPUs.
"""

from pathlib import Path

import structlog

from cdi.durable import Whole, write_alone
from cdi.faults import FaultPoint
from cli.nodeagent.mode import Mode

log = structlog.get_logger(__name__)

_POINTS = Whole(FaultPoint.MODE_TEMPORARY_WRITTEN, FaultPoint.MODE_WRITTEN)


class ModeFile:
    """The file at *path*; it need not be there, nor say anything that can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Mode | None:
        """Return the mode, `None` when it cannot be told."""
        try:
            text = self._path.read_text(encoding="ascii").strip()
            return Mode(text) if text else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("node mode not read", reason=str(error))
            return None

    def exists(self) -> bool:
        """Tell whether there is one, be it forgotten."""
        return self._path.exists()

    def forget(self) -> None:
        """Have the next start ask."""
        self._write("")

    def write(self, mode: Mode) -> None:
        """Remember *mode*, as far as the disk has room."""
        if self.read() is not mode:
            self._write(str(mode))

    def _write(self, text: str) -> None:
        try:
            write_alone(self._path, f"{text}\n".encode(), _POINTS)
        except OSError as error:
            log.warning("node mode not written", reason=str(error))
