"""Says once on a pod, or on the node, what is used beyond what was granted.

A program allocates for a moment, and a container's processes are seen before its pod is known to
run: what is seen in two looks in a row is a trouble, and it is over when it was not seen for a
while. One trouble is one event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from hami.monitor.excess import MIB, strays, uses
from hami.monitor.sources import GpuWorker, Snapshot
from kube.events import EventType, Regarding

log = structlog.get_logger(__name__)

ABOVE_GRANT: Final = "GPUMemoryAboveGrant"
WITHOUT_SHARE: Final = "GPUUsedWithoutShare"
LOOKS: Final = 2
OVER_S: Final = 60.0


class Recorder(Protocol):
    """Writes events (`kube.events.EventRecorder`)."""

    def event(self, regarding: Regarding, type_: EventType, reason: str, message: str, /) -> None:
        """Note that this happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something to be said."""

    key: tuple[str, ...]
    """What it is about, without what changes."""
    regarding: Regarding
    reason: str
    message: str


@dataclass(slots=True)
class _Course:
    looks: int = 0
    last_s: float = 0.0
    said: bool = False


class Notices:
    """Says each trouble once; for one thread."""

    def __init__(
        self,
        recorder: Recorder,
        node: Regarding,
        *,
        margin_mib: int = 0,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare; so much above a grant, and processes of these names, are nothing to be said."""
        self._recorder = recorder
        self._node = node
        self._margin_mib = margin_mib
        self._ignored = ignored
        self._courses: dict[tuple[str, ...], _Course] = {}

    def look(self, snapshot: Snapshot) -> None:
        """Say what has become a trouble with this look."""
        now_s = snapshot.taken_s
        for trouble in {each.key: each for each in self._troubles(snapshot)}.values():
            course = self._courses.setdefault(trouble.key, _Course())
            course.looks += 1
            course.last_s = now_s
            if course.looks >= LOOKS and not course.said:
                course.said = True
                log.warning("gpu use not granted", reason=trouble.reason, message=trouble.message)
                self._recorder.event(trouble.regarding, "Warning", trouble.reason, trouble.message)
        for key, course in list(self._courses.items()):
            unsaid_and_gone = not course.said and course.last_s < now_s
            if unsaid_and_gone or now_s - course.last_s > OVER_S:
                del self._courses[key]

    def _troubles(self, snapshot: Snapshot) -> Iterator[Trouble]:
        for use in uses(snapshot):
            if use.above_bytes > self._margin_mib * MIB:
                holder = use.holder
                yield Trouble(
                    key=(ABOVE_GRANT, holder.pod.uid, holder.container, use.device.uuid),
                    regarding=holder.pod.reference(),
                    reason=ABOVE_GRANT,
                    message=(
                        f"container {holder.container} uses {use.used_bytes // MIB} MiB of GPU "
                        f"{use.device.uuid} and was granted {use.granted_bytes // MIB} MiB"
                    ),
                )
        for worker in strays(snapshot):
            if worker.name not in self._ignored:
                yield self._stray(snapshot, worker)

    def _stray(self, snapshot: Snapshot, worker: GpuWorker) -> Trouble:
        pod = snapshot.pods.get(worker.pod_uid or "")
        whose = "of no pod" if not worker.pod_uid else f"of pod {worker.pod_uid}"
        return Trouble(
            # All processes of a pod on a GPU are one trouble, and those of no pod by their name.
            key=(WITHOUT_SHARE, worker.gpu_uuid, worker.pod_uid or f"/{worker.name}"),
            regarding=self._node if pod is None else pod.reference(),
            reason=WITHOUT_SHARE,
            message=(
                f"process {worker.host_pid} ({worker.name or 'unnamed'}) {whose} uses GPU "
                f"{worker.gpu_uuid}, of which it was given no part"
            ),
        )
