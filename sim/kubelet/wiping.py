"""Delete slices that nobody keeps up: at kubelet's start, and 30 s after a plugin is lost.

Only slices with `spec.nodeName` are kubelet's to delete. A driver that comes back in time keeps
its slices (kubelet: `cm/dra/plugin/dra_plugin_manager.go`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from sim.apiserver.errors import StatusError
from sim.kubelet.plugins import Plugins
from sim.kubelet.timing import Timing, backoff

log = structlog.get_logger(__name__)

DeleteSlices = Callable[[str | None], Awaitable[int]]
"""Delete this node's slices, of one driver or of all; return how many there were."""


@dataclass(slots=True)
class _Absence:
    wipe_at_s: float
    failures: int = 0
    wiped: bool = False


class ConnectionMonitor:
    """Watch the connections of all plugins and wipe the slices of drivers that stay away."""

    def __init__(self, plugins: Plugins, delete_slices: DeleteSlices, timing: Timing) -> None:
        self._plugins = plugins
        self._delete_slices = delete_slices
        self._timing = timing
        self._seen: set[str] = set()
        self._absent: dict[str, _Absence] = {}

    def watch(self, driver: str) -> None:
        """Begin to look after *driver*: a plugin of it has been registered just now."""
        self._seen.add(driver)
        self._absent.pop(driver, None)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            for driver in self._plugins.drivers():
                for plugin in self._plugins.instances(driver):
                    plugin.nudge()
            for driver in sorted(self._seen):
                if self._up(driver):
                    self._absent.pop(driver, None)
                else:
                    await self._away(driver)
            await asyncio.sleep(self._timing.poll_s)

    def _up(self, driver: str) -> bool:
        return any(plugin.connected for plugin in self._plugins.instances(driver))

    async def _away(self, driver: str) -> None:
        now_s = time.monotonic()
        absence = self._absent.setdefault(driver, _Absence(now_s + self._timing.wipe_after_s))
        if absence.wiped or now_s < absence.wipe_at_s:
            return
        try:
            count = await self._delete_slices(driver)
        except StatusError as error:
            absence.failures += 1
            limit_s = self._timing.wipe_backoff_max_s
            wait_s = backoff(self._timing.wipe_backoff_s, limit_s, absence.failures)
            absence.wipe_at_s = now_s + wait_s
            log.warning("slices not wiped", driver=driver, error=str(error))
            return
        log.info("slices wiped", driver=driver, count=count)
        absence.wiped = True
