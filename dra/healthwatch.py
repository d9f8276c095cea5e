"""Waits for XIDs, and says which GPUs are ill and which are well again.

Not being told of XIDs is no reason not to offer a GPU: an old one reports none, and what the
driver advises is read with everything else. Where a GPU's registration or a wait fails, the GPUs
are read again, which finds one that was lost, and then the rest is registered anew; the longer
that goes wrong, the longer it is left alone.

Everything here happens in the thread that reads the GPUs and ends the session, so no wait is
under way when the session ends.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from gpu import xids
from gpu.errors import NvmlError
from gpu.events import XidEvents
from gpu.health import History, Reading, XidEvent
from gpu.model import Ailment, GpuUuid, Inventory
from gpu.nvml import Nvml
from gpu.scan import ABSENT
from gpu.xids import XidPolicy

log = structlog.get_logger(__name__)

_SAY_AGAIN_S = 60.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_SHORTEST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """The administrator's part."""

    policy: XidPolicy = field(default_factory=XidPolicy)
    recovery_s: float = 60.0
    """How long no critical XID must have come from a GPU that the driver calls well."""
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _Repeated:
    """When something was said last, and how often it happened since."""

    said_s: float
    times: int = 0


@dataclass(slots=True, kw_only=True)
class _Followed:
    """How far XIDs can be had in one session."""

    is_off: bool
    """Nothing is asked for: nobody wants it, or the driver has no events."""
    events: XidEvents | None = None
    mute: set[GpuUuid] = field(default_factory=set)
    """GPUs that report nothing."""
    complaints: set[tuple[GpuUuid, str]] = field(default_factory=set)
    pause_s: float = 0.0
    """How long to wait after the next failure; 0 while nothing failed."""
    retry_s: float = 0.0
    """When to try again after the last one."""


class HealthWatch:
    """Outlives sessions; `follow` one after each reading, `end_session` before it is closed."""

    def __init__(self, rules: HealthRules) -> None:
        self._rules = rules
        self._history = History()
        self._pending: set[XidEvent] = set()
        self._ailing: frozenset[Ailment] = frozenset()
        self._repeated: dict[tuple[GpuUuid | None, int], _Repeated] = {}
        self._session = _Followed(is_off=rules.policy.is_off)

    def diagnose(self, reading: Reading) -> Inventory:
        """Return what was read with what ails the GPUs."""
        self._history = self._history.after(
            reading, self._pending, now_s=self._rules.clock(), recovery_s=self._rules.recovery_s
        )
        self._pending.clear()
        inventory = self._history.diagnosed(reading.inventory)
        self._say_changes(inventory)
        return inventory

    def forget(self) -> None:
        """Forget all XIDs: the driver was away, and whoever took it has looked at the GPUs."""
        self._history = History()
        self._pending.clear()

    def follow(self, session: Nvml) -> None:
        """Have XIDs of the GPUs that were read last reported, as far as they can be."""
        followed = self._session
        if followed.is_off:
            return
        if followed.events is None:
            if self._rules.clock() < followed.retry_s:
                return
            try:
                followed.events = session.events()
            except NvmlError as error:
                self._interrupt(error)
                return
        if not self._register(followed.events, session):
            # The set cannot be used any more; one registration less is tried each time.
            self._drop()
            self.follow(session)

    def wait(self, stop: threading.Event, timeout_s: float) -> bool:
        """Wait for an XID, at most *timeout_s*; return whether the GPUs should be read again."""
        followed = self._session
        if followed.events is None or not followed.events.uuids:
            stop.wait(timeout_s)
            is_interrupted = followed.events is None and followed.pause_s > 0
            return is_interrupted and self._rules.clock() >= followed.retry_s
        started_s = time.monotonic()
        try:
            event = followed.events.wait(timeout_s)
        except NvmlError as error:
            self._interrupt(error)
            return True
        followed.pause_s = 0.0
        if event is not None:
            return self._take(event)
        if time.monotonic() - started_s < _SHORTEST_WAIT_S:
            # NVML may return before the time is over; this loop must not spin then.
            stop.wait(_SHORTEST_WAIT_S)
        return False

    def end_session(self) -> None:
        """Free what the session holds for this."""
        self._drop()
        self._session = _Followed(is_off=self._rules.policy.is_off)

    def _register(self, events: XidEvents, session: Nvml) -> bool:
        """Register what is new; return whether *events* can still be used."""
        handles, mute = session.handles(), self._session.mute
        for uuid in events.uuids - handles.keys():
            events.forget(uuid)
        mute.intersection_update(handles)
        for uuid in sorted(handles.keys() - events.uuids - mute):
            try:
                if not events.register(uuid, handles[uuid]):
                    mute.add(uuid)
                    log.info("gpu reports no xids", uuid=uuid)
            except NvmlError as error:
                self._complain(uuid, error)
                if error.reason == "UNKNOWN":
                    mute.add(uuid)
                    return False
        return True

    def _complain(self, uuid: GpuUuid, error: NvmlError) -> None:
        complaint = (uuid, str(error))
        if complaint not in self._session.complaints:
            self._session.complaints.add(complaint)
            log.warning("gpu xids not registered", uuid=uuid, reason=str(error))

    def _interrupt(self, error: NvmlError) -> None:
        """Give the event set up; try again at once, and then ever more rarely."""
        self._drop()
        followed = self._session
        if error.reason in ABSENT:
            followed.is_off = True
            log.info("driver reports no xids", reason=str(error))
            return
        followed.retry_s = self._rules.clock() + followed.pause_s
        log.warning("xids not received", reason=str(error), retry_in_s=followed.pause_s)
        followed.pause_s = min(max(2 * followed.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)

    def _drop(self) -> None:
        events, self._session.events = self._session.events, None
        if events is None:
            return
        try:
            events.close()
        except NvmlError as error:
            log.debug("event set not freed", reason=str(error))

    def _take(self, event: XidEvent) -> bool:
        """Keep *event* if it counts; return whether the GPUs should be read again."""
        critical = self._rules.policy.is_critical(event.xid)
        self._say(event, critical=critical)
        if critical and event.gpu_uuid is not None:
            self._pending.add(event)
        return critical or event.xid == xids.RECOVERY_ACTION_CHANGED

    def _say(self, event: XidEvent, *, critical: bool) -> None:
        """Log *event*; a program that fails again and again shall not fill the log."""
        now_s = self._rules.clock()
        key = (event.gpu_uuid, event.xid)
        before = self._repeated.get(key)
        if before is not None and now_s - before.said_s < _SAY_AGAIN_S:
            before.times += 1
            return
        self._repeated[key] = _Repeated(now_s)
        (log.warning if critical else log.info)(
            "gpu xid seen",
            uuid=event.gpu_uuid or "unknown",
            gpu_instance=event.gpu_instance_id,
            xid=event.xid,
            meaning=xids.meaning(event.xid),
            critical=critical,
            unsaid=before.times if before else 0,
        )

    def _say_changes(self, inventory: Inventory) -> None:
        ailing = frozenset(inventory.ailments)
        there = {gpu.uuid for gpu in inventory.gpus}
        there |= {mig.uuid for gpu in inventory.gpus for mig in gpu.mig_devices}
        for ailment in sorted(ailing - self._ailing, key=_order):
            log.warning("gpu ailing", uuid=ailment.uuid, code=ailment.code, reason=ailment.message)
        over = {ailment for ailment in self._ailing - ailing if ailment.uuid in there}
        for ailment in sorted(over, key=_order):
            log.info("gpu recovered", uuid=ailment.uuid, code=ailment.code)
        self._ailing = (self._ailing | ailing) - over


def _order(ailment: Ailment) -> tuple[str, str]:
    return ailment.uuid, ailment.code
