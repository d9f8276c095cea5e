"""Tells by a label of its pod whether this replica leads; by it the Service of `/refit` finds it.

All replicas are ready once they have read the cluster, so that rollouts and budgets for disruptions
count them; device plugins must reach the one that decides, and Services choose by labels.
"""

import asyncio
import contextlib
from typing import Final

import structlog

from extender.calls import Calls
from kube.backoff import Backoff
from kube.errors import KubeError

log = structlog.get_logger(__name__)

LABEL: Final = "gpuslice.io/leads"
_FIRST_S: Final = 1.0
_MAX_S: Final = 30.0


class LeadLabel:
    """The label of one pod; used in one loop."""

    def __init__(self, calls: Calls, *, namespace: str, name: str) -> None:
        self._calls, self._namespace, self._name = calls, namespace, name
        self._leads = False
        self._told = ""
        self._backoff = Backoff(_FIRST_S, _MAX_S)
        self._news = asyncio.Event()
        # The container before this one may have left it.
        self._news.set()

    def changed(self, leads: bool) -> None:  # noqa: FBT001 - what a listener is given
        """Take what the label has to say from now on."""
        self._leads = leads
        self._news.set()

    async def keep(self) -> None:
        """Write the label at first and at each change; runs until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            value = "true" if self._leads else None
            try:
                await self._calls.change_pod(
                    self._namespace, self._name, {"labels": {LABEL: value}}
                )
            except KubeError as error:
                if str(error) != self._told:
                    self._told = str(error)
                    log.warning("lead not shown", label=LABEL, error=self._told)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.next_s()):
                        await self._news.wait()
                self._news.set()
            else:
                self._told = ""
                self._backoff.reset()
