"""Takes back what a try to bind has written, and first finds out what that was.

As long as nobody knows whether the pod is bound, whatever holds its devices has to go on holding
them. Annotations are removed only where they are those of this very try, as by the time it is
settled another leader may have begun the next, and only from the pod as it was just seen: it is
changed by that, so that a Binding that arrives late is refused.
"""

import asyncio
from enum import Enum, auto
from typing import Final

import structlog

from extender.binding_attempt import Attempt
from extender.calls import Calls
from extender.locks import NodeLocks
from extender.metrics import Metrics, Phase
from extender.parts import State
from kube.errors import ConflictError, KubeError, NotFoundError

log = structlog.get_logger(__name__)

_SETTLE_TRIES: Final = 7
_REMOVALS: Final = 3


class Fate(Enum):
    """What has become of a try."""

    BOUND = auto()
    UNDONE = auto()
    """The pod does not bear it, and will not be bound by it."""
    UNKNOWN = auto()


class Rollback:
    """Used in the loop."""

    def __init__(
        self,
        *,
        state: State,
        calls: Calls,
        locks: NodeLocks | None,
        metrics: Metrics,
        busy: set[str],
        settle_s: float,
    ) -> None:
        """Keep in *busy* whose fate is unknown; *settle_s* is the first pause before a new look."""
        self._state, self._calls, self._locks = state, calls, locks
        self._metrics, self._busy, self._settle_s = metrics, busy, settle_s
        self._settling: dict[str, asyncio.Task[None]] = {}

    def is_settling(self, uid: str) -> bool:
        """Tell whether a pod's last try has not come to its end."""
        return uid in self._settling

    async def is_bound_after_all(self, tried: Attempt) -> bool:
        """Find out what a try that failed has done; take all back where it did not bind.

        Where that cannot be told now it is done later, and nothing is given back until then.
        """
        fate = await self._fate(tried) if tried.may_be_written else Fate.UNDONE
        if fate is Fate.UNKNOWN:
            self._settle_later(tried)
        elif fate is Fate.UNDONE:
            await self.give_back(tried)
        return fate is Fate.BOUND

    async def give_back(self, tried: Attempt) -> None:
        """Release the locks, and free the devices at last."""
        for word in tried.words:
            self._metrics.bind_rollbacks.labels(Phase.BIND.value, word, "binding").inc()
        if self._locks is not None and tried.locked:
            await self._locks.release(tried.wanted, tried.locked)
        self.free(tried)

    def free(self, tried: Attempt) -> None:
        """Forget the reservation, unless the pod was filtered again and has another by now."""
        if self._state.reservation(tried.uid) == tried.reservation:
            self._state.drop(tried.uid)

    def _settle_later(self, tried: Attempt) -> None:
        self._busy.add(tried.uid)
        task = asyncio.get_running_loop().create_task(self._settle(tried))
        self._settling[tried.uid] = task
        task.add_done_callback(lambda _: self._settled(tried.uid))

    def _settled(self, uid: str) -> None:
        self._settling.pop(uid, None)
        self._busy.discard(uid)

    async def _settle(self, tried: Attempt) -> None:
        for count in range(_SETTLE_TRIES):
            self._state.written(tried.uid)
            await asyncio.sleep(self._settle_s * 2**count)
            fate = await self._fate(tried)
            if fate is Fate.UNDONE:
                await self.give_back(tried)
            if fate is not Fate.UNKNOWN:
                return
        log.error("binding not settled", pod=f"{tried.namespace}/{tried.name}")

    async def _fate(self, tried: Attempt) -> Fate:
        """Look at the pod, and remove what this try has written if it is not bound."""
        for _ in range(_REMOVALS):
            try:
                pod = await self._calls.raw_pod(tried.namespace, tried.name)
                if tried.has_bound(pod):
                    return Fate.BOUND
                if not tried.has_marked(pod):
                    return Fate.UNDONE
                undone = tried.undone(pod)
                await self._calls.change_pod(tried.namespace, tried.name, undone)
            except NotFoundError:
                return Fate.UNDONE
            except ConflictError:
                continue
            except KubeError as error:
                log.warning("annotations not removed", pod=tried.name, error=str(error))
                return Fate.UNKNOWN
            else:
                return Fate.UNDONE
        return Fate.UNKNOWN
