"""Which process of the host a slot of a region means, whether it lives, and whose a process is.

The library writes its pid as the container sees it, and the host's when NVML has told it. Numbers
come again, and slots of killed processes stay: so a process of the host counts as the one that is
meant if its number in its own namespace is that of the slot (`NSpid` in /proc/<pid>/status,
Linux 4.1), if its control group is not another pod's, and if it began when it did the last time.
Where the host's number is not known, or counts in other numbers than /proc does here (a node that
is a container itself), all processes are looked through, once for each scan.

The agent needs the host's numbers: `hostPID`, or the host's /proc mounted elsewhere.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hami.monitor.regions.reading import Liveness

PROC: Final = Path("/proc")
_ENDED: Final = frozenset("ZXx")
# The kernel's first namespace has a fixed number (include/linux/proc_ns.h: PROC_PID_INIT_INO).
_FIRST_NAMESPACE: Final = "pid:[4026531836]"
# Of a static pod it is a hash of its file; systemd's slices have no dash within a name.
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})\b")
_STATE, _START = 0, 19


@dataclass(frozen=True, slots=True)
class _Slot:
    """What a slot says, and in which pods its process may be."""

    pod_uids: frozenset[str]
    pid: int
    host_pid: int


@dataclass(slots=True)
class _Seen:
    """The process that was found for a slot, and when it began in the kernel's ticks."""

    host_pid: int
    start: str


@dataclass(slots=True)
class _Table:
    """All processes by their number in their own namespace."""

    host_pids: dict[int, list[int]] = field(default_factory=dict)


class HostProcesses:
    """Looks at the processes below *proc*; for one thread."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._seen: dict[_Slot, _Seen] = {}
        self._asked: set[_Slot] = set()
        self._table: _Table | None = None
        self._sees_pods = False

    def begin(self) -> None:
        """Begin a scan: forget slots that the last one did not ask for."""
        self._seen = {slot: self._seen[slot] for slot in self._asked & self._seen.keys()}
        self._asked.clear()
        self._table = None

    def of_pods(self, pod_uids: frozenset[str]) -> Liveness:
        """Return what tells whether a process of one of these pods lives."""
        return lambda pid, host_pid: self._is_alive(_Slot(pod_uids, pid, host_pid))

    def sees_pods(self) -> bool:
        """Tell whether processes of pods are shown here at all; if not, nobody seems to live."""
        if not self._sees_pods:
            if self._table is None:
                self._table = self._read_table()
            self._sees_pods = any(
                self.pod_of(pid) for pids in self._table.host_pids.values() for pid in pids
            )
        return self._sees_pods

    def pod_of(self, host_pid: int) -> str | None:
        """Return the UID of the pod of a process, empty if it is no pod's, `None` if not known."""
        text = self._text(host_pid, "cgroup")
        if text is None:
            return None
        found = _POD.search(text)
        return found.group(1).replace("_", "-") if found else ""

    def name_of(self, host_pid: int) -> str:
        """Return the name of a process, cut as the kernel does; empty if it is gone."""
        return (self._text(host_pid, "comm") or "").strip()

    def _is_alive(self, slot: _Slot) -> bool:
        self._asked.add(slot)
        seen = self._seen.get(slot)
        if seen is not None:
            # Another process with its number does not bring it back.
            return self._start(seen.host_pid) == seen.start
        for host_pid in self._candidates(slot):
            start = self._start(host_pid)
            if start is not None and self._is_meant(slot, host_pid):
                self._seen[slot] = _Seen(host_pid, start)
                self._sees_pods = True
                return True
        return False

    def _candidates(self, slot: _Slot) -> Iterable[int]:
        if slot.host_pid:
            yield slot.host_pid
            if self._counts_as_the_host():
                return
        if self._table is None:
            self._table = self._read_table()
        yield from self._table.host_pids.get(slot.pid, ())

    def _is_meant(self, slot: _Slot, host_pid: int) -> bool:
        own = self._own_pids(host_pid)
        if own and own[-1] != slot.pid:
            return False
        pod_uid = self.pod_of(host_pid)
        if pod_uid or not own:
            return pod_uid in slot.pod_uids
        # Its control group names no pod: both its numbers have to be right, or be one.
        return len(own) == 1 or host_pid == slot.host_pid

    def _counts_as_the_host(self) -> bool:
        """Tell whether numbers below *proc* are those that the driver knows; if in doubt, yes."""
        try:
            return os.readlink(self._proc / "1/ns/pid") == _FIRST_NAMESPACE  # noqa: PTH115
        except OSError:
            return True

    def _read_table(self) -> _Table:
        table = _Table()
        try:
            names = os.listdir(self._proc)  # noqa: PTH208 - thousands of names
        except OSError:
            return table
        for name in names:
            if name.isdecimal():
                own = self._own_pids(int(name))
                if own:
                    table.host_pids.setdefault(own[-1], []).append(int(name))
        return table

    def _own_pids(self, host_pid: int) -> list[int]:
        """Return its numbers from the namespace of *proc* inwards; empty if nothing tells."""
        for line in (self._text(host_pid, "status") or "").splitlines():
            if line.startswith("NSpid:"):
                return [int(each) for each in line.split()[1:]]
        return []

    def _start(self, host_pid: int) -> str | None:
        """Return when it began; `None` if it has ended."""
        text = self._text(host_pid, "stat")
        if text is None:
            return None
        # Its name may have blanks and parentheses in it.
        fields = text.rpartition(")")[2].split()
        if len(fields) <= _START or fields[_STATE] in _ENDED:
            return None
        return fields[_START]

    def _text(self, host_pid: int, name: str) -> str | None:
        try:
            return (self._proc / str(host_pid) / name).read_text(errors="replace")
        except OSError:
            return None
