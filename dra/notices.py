"""Events for people: what was refused or will disappoint, said on the object they look at."""

from collections.abc import Callable

import structlog

from dra.plan import Rules, warnings
from dra.record import PreparedClaim
from gpu.refusal import Refusal
from kube.events import EventRecorder, Regarding
from kube.paths import DRA_VERSION

log = structlog.get_logger(__name__)


class Notices:
    """Turns refusals into events and log lines."""

    def __init__(
        self, events: EventRecorder, rules: Rules, pods_changed: Callable[[], None]
    ) -> None:
        self._events = events
        self._rules = rules
        self._pods_changed = pods_changed

    def say(self, regarding: Regarding, refusal: Refusal) -> None:
        """Record *refusal* as a warning about *regarding*."""
        self._events.event(regarding, "Warning", refusal.code, str(refusal))

    def prepared(self, claim: PreparedClaim) -> None:
        """Say on a claim that was just prepared what its user should know."""
        for warning in warnings(claim, self._rules):
            log.warning("claim prepared with a warning", reason=str(warning))
            self.say(_claim(claim), warning)
        if claim.limits:
            self._pods_changed()


def _claim(claim: PreparedClaim) -> Regarding:
    # Of v1 also where a server has only older versions: whoever describes a claim finds its events
    # by kind, name and UID, and they shall look the same after an update.
    return Regarding(
        api_version=f"resource.k8s.io/{DRA_VERSION}",
        kind="ResourceClaim",
        name=claim.name,
        uid=claim.uid,
        namespace=claim.namespace,
    )
