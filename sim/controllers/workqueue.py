"""Keys to work on: each once at a time, failed ones again after a growing pause."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from sim.apiserver.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

log = structlog.get_logger(__name__)

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 1.0

KeyT = TypeVar("KeyT", bound="Hashable")


class RetryError(Exception):
    """The work could not be finished yet; its key comes again."""


class WorkQueue(Generic[KeyT]):
    """A queue in which a waiting key is not added a second time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[KeyT, None] = {}
        self._failures: dict[KeyT, int] = {}
        self._filled = asyncio.Event()

    def add(self, key: KeyT) -> None:
        """Let *key* be worked on."""
        self._waiting[key] = None
        self._filled.set()

    async def run(self, work: Callable[[KeyT], Awaitable[None]]) -> None:
        """Work on keys one after the other until cancelled."""
        while True:
            await self._filled.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            if not self._waiting:
                self._filled.clear()
            try:
                await work(key)
            except (StatusError, RetryError) as error:
                log.debug("work postponed", queue=self._name, key=key, why=str(error))
                self._postpone(key)
            except Exception:
                log.exception("work failed", queue=self._name, key=key)
                self._postpone(key)
            else:
                self._failures.pop(key, None)

    def _postpone(self, key: KeyT) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause_s = min(_FIRST_PAUSE_S * 2**failures, _LONGEST_PAUSE_S)
        asyncio.get_running_loop().call_later(pause_s, self.add, key)
