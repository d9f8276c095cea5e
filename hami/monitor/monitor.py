"""The monitor: one thread that looks, steers, says and clears up every few seconds.

It may be stopped at any moment, and leaves no container waiting: a stop takes back all that was
stored in regions. One that is killed cannot, so every start does that first.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from hami.monitor.directories import RESYNC_S, StaleDirectories
from hami.monitor.metrics import Names, UsageCollector
from hami.monitor.notices import Notices, Recorder
from hami.monitor.processes import PROC, HostProcesses
from hami.monitor.scan import Scanner
from hami.monitor.sources import Snapshot, Sources
from hami.monitor.steering import Steering
from kube.events import Regarding

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 5.0
"""HAMi's; the library lets a launch count as recent for as long."""
_RECORD_S: Final = 1.0
"""The library writes the time of a launch once in this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions:
    """What an administrator decides."""

    interval_s: float = INTERVAL_S
    feedback: bool = True
    """Whether containers wait for those of higher priority."""
    hami_names: bool = True
    legacy_names: bool = False
    resync_s: float = RESYNC_S
    """How long the directory of a pod that is not known stays."""
    margin_mib: int = 0
    """How far above a grant is nothing to be said."""
    ignored_processes: frozenset[str] = frozenset()
    """Names of host programs that may use any GPU."""
    proc: Path = PROC
    """Where the host's processes are shown."""


class Monitor:
    """Watches over what containers use; `collector` and `snapshot` are for any thread."""

    def __init__(
        self,
        sources: Sources,
        *,
        node: Regarding,
        recorder: Recorder,
        options: MonitorOptions | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._options = options or MonitorOptions()
        self._sources = sources
        self._now_s = now_s
        processes = HostProcesses(self._options.proc)
        self._scanner = Scanner(sources, processes, now_s=now_s)
        self._steering = Steering(lately_s=self._options.interval_s + _RECORD_S)
        self._notices = Notices(
            recorder,
            node,
            margin_mib=self._options.margin_mib,
            ignored=self._options.ignored_processes,
        )
        self._directories = StaleDirectories(
            sources.plugin_regions, processes, resync_s=self._options.resync_s, now_s=now_s
        )
        self._snapshot: Snapshot | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.collector = UsageCollector(
            self.snapshot,
            pods=sources.pods,
            waiting=self._steering.waiting,
            without_effect=self._steering.without_effect,
            names=Names(
                node=node.name,
                hami=self._options.hami_names,
                legacy=self._options.legacy_names,
            ),
        )

    def snapshot(self) -> Snapshot | None:
        """Return what the newest scan has found; `None` before the first."""
        return self._snapshot

    def start(self) -> None:
        """Take back what a monitor before this one may have left, and begin to look."""
        self._release()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End, and let every container go on; may be called more than once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        # Should the thread hang, it stores nothing any more.
        self._steering.close()
        self._release()

    def look(self) -> None:
        """Do once what the thread does again and again."""
        snapshot = self._scanner.scan()
        self._snapshot = snapshot
        if self._options.feedback:
            self._steering.steer(snapshot.places, snapshot.regions, now_s=self._now_s())
        self._notices.look(snapshot)
        self._directories.sweep(self._sources.pods())

    def _release(self) -> None:
        self._steering.release_all(self._scanner.known_places())

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception:  # the top of the thread's loop
                log.exception("monitor failed")
                self._steering.let_go()
            self._stopping.wait(self._options.interval_s)
