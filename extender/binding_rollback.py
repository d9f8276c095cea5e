"""Takes back what a try to bind has written, and first finds out what that was.

A request that got no answer may have been carried out. As long as nobody knows whether the pod is
bound, whatever holds its devices has to go on holding them. Annotations are removed only where they
are those of this very try: by the time it is settled another leader may have begun the next.
"""

import asyncio
from typing import Final

import structlog

from extender.binding_attempt import Attempt
from extender.calls import Calls
from extender.locks import NodeLocks
from extender.metrics import Metrics, Phase
from extender.parts import State
from kube.errors import ApiError, ConflictError, KubeError, NotFoundError, ServerError

log = structlog.get_logger(__name__)

_SETTLE_TRIES: Final = 8
_REMOVALS: Final = 3


def may_be_carried_out(error: KubeError) -> bool:
    """Tell whether a request may have had its effect though it failed."""
    return isinstance(error, ServerError) or not isinstance(error, ApiError)


class Rollback:
    """Used in the loop."""

    def __init__(
        self,
        *,
        state: State,
        calls: Calls,
        locks: NodeLocks | None,
        metrics: Metrics,
        settle_s: float,
    ) -> None:
        """Take the first pause before a pod of unknown fate is looked at again."""
        self._state, self._calls, self._locks = state, calls, locks
        self._metrics, self._settle_s = metrics, settle_s
        self._unsettled: dict[str, asyncio.Task[None]] = {}

    def is_settling(self, uid: str) -> bool:
        """Tell whether a pod's last try has not come to its end."""
        return uid in self._unsettled

    async def is_bound_after_all(self, tried: Attempt, error: KubeError) -> bool:
        """Find out what a failed binding has done; take all back where it was nothing."""
        if may_be_carried_out(error) or isinstance(error, ConflictError):
            try:
                pod = await self._calls.pod(tried.namespace, tried.name)
            except NotFoundError:
                pod = None
            except KubeError:
                self._settle_later(tried)
                return False
            if tried.has_bound(pod):
                return True
        await self.take_back(tried, annotated=True)
        return False

    async def take_back(self, tried: Attempt, *, annotated: bool) -> None:
        """Remove annotations that may be there, then the locks, and free the devices at last."""
        for word in tried.words:
            self._metrics.bind_rollbacks.labels(Phase.BIND.value, word, "binding").inc()
        if annotated:
            await self._remove_annotations(tried)
        await self.unlock(tried)
        self.free(tried)

    def free(self, tried: Attempt) -> None:
        """Forget the reservation, unless the pod was filtered again and has another by now."""
        if self._state.reservation(tried.uid) == tried.reservation:
            self._state.drop(tried.uid)

    async def unlock(self, tried: Attempt) -> None:
        """Release what was locked."""
        if self._locks is not None and tried.locked:
            await self._locks.release(tried.wanted, tried.locked)

    def _settle_later(self, tried: Attempt) -> None:
        self._state.written(tried.uid)
        task = asyncio.get_running_loop().create_task(self._settle(tried))
        self._unsettled[tried.uid] = task
        task.add_done_callback(lambda _: self._unsettled.pop(tried.uid, None))

    async def _settle(self, tried: Attempt) -> None:
        for count in range(_SETTLE_TRIES):
            await asyncio.sleep(self._settle_s * 2**count)
            try:
                pod = await self._calls.pod(tried.namespace, tried.name)
            except NotFoundError:
                pod = None
            except KubeError as error:
                log.warning("binding not settled", pod=tried.name, error=str(error))
                continue
            if not tried.has_bound(pod):
                await self.take_back(tried, annotated=True)
            return

    async def _remove_annotations(self, tried: Attempt) -> None:
        for _ in range(_REMOVALS):
            try:
                pod = await self._calls.raw_pod(tried.namespace, tried.name)
                if tried.has_marked(pod):
                    undone = tried.undone(pod["metadata"]["resourceVersion"])
                    await self._calls.change_pod(tried.namespace, tried.name, undone)
            except NotFoundError:
                return
            except ConflictError:
                continue
            except KubeError as error:
                log.warning("annotations not removed", pod=tried.name, error=str(error))
                return
            else:
                return
