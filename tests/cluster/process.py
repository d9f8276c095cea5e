"""Processes that were started, remembered in a file, so that whoever comes later can end them.

A number alone is not enough: after the process has ended the kernel gives it to another. The
start time in ticks since boot (field 22 of /proc/<pid>/stat) with the boot's own name tells them
apart, and a process that does not match is never touched.
"""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD: Final = 19
_ENDED: Final = ("Z", "X")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process: its number here, when it started, in which boot, and what it is."""

    name: str
    pid: int
    started_ticks: int
    boot: str

    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        state, started_ticks = _stat(self.pid) or ("X", -1)
        return started_ticks == self.started_ticks and state not in _ENDED and self.boot == _boot()

    def kill(self) -> None:
        """Kill it when it is still the one that was recorded."""
        # A pidfd keeps naming the process that was checked, even if it ends in between.
        try:
            descriptor = os.pidfd_open(self.pid)
        except (ProcessLookupError, FileNotFoundError):
            # The latter where a thread of another process has the number by now.
            return
        try:
            if self.alive():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until it has ended; false when it has not in time."""
        deadline_s = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.02)
        return True


def observe(name: str, pid: int) -> ProcessRecord:
    """Return the record of a process that runs now; ProcessLookupError when it does not."""
    found = _stat(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return ProcessRecord(name=name, pid=pid, started_ticks=found[1], boot=_boot())


class Records:
    """The records of one cluster, in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, record: ProcessRecord) -> None:
        """Append *record*."""
        with self._path.open("a") as lines:
            lines.write(json.dumps(asdict(record)) + "\n")

    def read(self) -> list[ProcessRecord]:
        """Return all records; a last line that was cut short is left out."""
        records = []
        for line in self._path.read_text().splitlines() if self._path.exists() else []:
            try:
                records.append(ProcessRecord(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return records


def _boot() -> str:
    return _BOOT.read_text().strip()


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold blanks and parentheses, so that fields count from the last one.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[_START_FIELD])
