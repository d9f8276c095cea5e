"""What the publisher believes about the server's support for shares, and whom it tells.

Fail closed: until the server is known to keep sharing, GPUs are offered whole. Only the very first
question may be put a few times before that, because slices of an earlier process may offer shares
that are in use, and closing them for a passing error would help nobody. A verdict once reached
stands until the server says otherwise, by the probe or by what it made of a real slice.
"""

import threading
from dataclasses import replace

import structlog

from dra.sharing import (
    FEATURE_GATE,
    NOT_ASKED,
    EventSink,
    Sharing,
    SharingProbe,
    SharingVerdict,
    keeps_taints,
    sharing_losses,
)
from kube.backoff import Backoff
from kube.events import Regarding

_PROBES_BEFORE_CLOSING = 3

log = structlog.get_logger(__name__)


def remedy(verdict: SharingVerdict) -> str:
    """Return what an administrator can do to have GPUs shared."""
    switch = f"switch on the feature gate {FEATURE_GATE}"
    # A request for two shares on a node with one device ends the scheduler of 1.34.4
    # (dynamic-resource-allocation: allocator_experimental.go, allocateDevice).
    if verdict.server_version.startswith("v1.34."):
        return f"update to Kubernetes 1.35 or newer and {switch}"
    return switch


class SharingState:
    """Asked and changed by one thread; `mark_stale`, `mark_renewed` and `verdict` are for any."""

    def __init__(self, probe: SharingProbe, events: EventSink, node: Regarding) -> None:
        """Prepare; *node* is the reference that events are about."""
        self._probe, self._events, self._node = probe, events, node
        self._stale = threading.Event()
        self._stale.set()
        self._verdict = NOT_ASKED
        self._failures = 0
        self._backoff = Backoff()

    @property
    def verdict(self) -> SharingVerdict:
        """The last one; `UNKNOWN` only as long as there was no other."""
        return self._verdict

    def mark_stale(self) -> None:
        """Have the server asked again: it may be another one now."""
        self._stale.set()

    def mark_renewed(self) -> None:
        """Have a server asked again that could not do all.

        Of several API servers the one that a watch is renewed on may have been updated while the
        watch was on another. Where all is known, asking would only cost requests: every slice
        that is written is read back.
        """
        if not (self._verdict.kept and self._verdict.taints_kept):
            self._stale.set()

    def ask_if_stale(self) -> float | None:
        """Ask if needed; return after how many seconds to try again if there was no answer."""
        if not self._stale.is_set():
            return None
        # Cleared first: a connection made while the answer is under way asks again.
        self._stale.clear()
        verdict = self._probe.probe()
        if verdict.state is Sharing.UNKNOWN:
            self._stale.set()
            self._failures += 1
            if self._verdict.state is Sharing.UNKNOWN:
                self._verdict = verdict
            return self._backoff.next_s()
        self._failures = 0
        self._backoff.reset()
        self._take(verdict)
        return None

    def is_settled(self) -> bool:
        """Tell whether to publish by the present verdict."""
        known = self._verdict.state is not Sharing.UNKNOWN
        return known or self._failures >= _PROBES_BEFORE_CLOSING

    def overrule(self, lost: tuple[str, ...]) -> bool:
        """Believe a real slice of which the server did not keep the *lost* fields.

        Tells whether that is another verdict than the one before.
        """
        before = self._verdict
        losses = tuple(dict.fromkeys((*before.dropped, *lost)))
        verdict = replace(
            before,
            state=Sharing.DROPPED if sharing_losses(lost) else before.state,
            taints_kept=before.taints_kept and keeps_taints(lost),
            dropped=losses,
        )
        if (verdict.state, verdict.taints_kept) == (before.state, before.taints_kept):
            return False
        self._take(verdict)
        return True

    def _take(self, verdict: SharingVerdict) -> None:
        before, self._verdict = self._verdict, verdict
        if verdict.taints_kept != before.taints_kept:
            log.info("server asked for device taints", kept=verdict.taints_kept)
        if verdict.state is before.state:
            return
        if verdict.state is Sharing.DROPPED:
            message = (
                "Only whole GPUs are offered: API server "
                f"{verdict.server_version} drops what sharing needs; {remedy(verdict)}"
            )
            log.warning("sharing not supported", gate=FEATURE_GATE, dropped=verdict.dropped)
            self._events.event(self._node, "Warning", "SharingNotSupported", message)
        elif before.state is Sharing.DROPPED:
            message = f"GPUs are offered in shares: the API server now keeps {FEATURE_GATE} fields"
            log.info("sharing supported", server_version=verdict.server_version)
            self._events.event(self._node, "Normal", "SharingSupported", message)
