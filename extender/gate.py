"""Whether decisions are sound at this moment: this replica leads, and has read everything.

kube-scheduler begins to ask as soon as it leads, which we learn a moment later; a refusal costs
the pod a second of back-off, a short wait costs nobody anything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from extender.metrics import Metrics
from extender.parts import State

log = structlog.get_logger(__name__)

_POLL_S: Final = 0.02


class Leadership(Protocol):
    """Tells who leads; see `extender.leading`."""

    def leads(self) -> bool:
        """Tell whether this replica may decide."""

    def problem(self) -> str | None:
        """Return why not."""

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Have *listener* called in the loop whenever that begins or ends."""


class Gate:
    """Lets decisions through; make it in the loop, before anything follows a Lease.

    What the old leader bound at last must be known before the new one decides: between the two
    stands *catch_up*. Reservations of an earlier time in the lead are worth nothing.
    """

    def __init__(
        self,
        leadership: Leadership,
        state: State,
        metrics: Metrics,
        *,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._leadership, self._state, self._metrics = leadership, state, metrics
        self._catch_up = catch_up
        self._caught_up = False
        self._catching: asyncio.Task[None] | None = None
        leadership.on_change(self._changed)

    def leads(self) -> bool:
        """Tell whether what was decided here may still be written."""
        return self._leadership.leads()

    def problem(self) -> str | None:
        """Return why nothing can be decided now, `None` when it can."""
        if (problem := self._leadership.problem() or self._state.not_synced()) is not None:
            return problem
        return None if self._caught_up else "what another leader did last is being read"

    async def wait(self, seconds: float) -> str | None:
        """Wait until decisions are sound, and return why not where *seconds* were not enough."""
        problem = self.problem()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        while problem is not None and loop.time() < until_s:
            await asyncio.sleep(_POLL_S)
            problem = self.problem()
        return problem

    def _changed(self, leads: bool) -> None:  # noqa: FBT001 - what a listener is given
        self._metrics.is_leader.set(leads)
        self._metrics.leader_changes.inc()
        self._caught_up = False
        if self._catching is not None:
            self._catching.cancel()
            self._catching = None
        self._state.drop_all()
        if leads:
            self._catching = asyncio.get_running_loop().create_task(self._catch_up_now())

    async def _catch_up_now(self) -> None:
        while True:
            try:
                await self._catch_up()
            except Exception:  # the top of the loop
                log.exception("state not caught up")
                await asyncio.sleep(1.0)
            else:
                self._caught_up = True
                return
