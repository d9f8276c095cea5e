"""Keeps the annotations of the node as they should be, whoever changes what in between.

What is there is compared with what should be every 30 s, and at once when either changes: an
annotation that somebody deletes or overwrites is restored, and one that is right is not written.
HAMi's own plugin compares with what it wrote last, before it knows whether that was kept. Between
two writes are some seconds, so that two programs which write the same annotation do no harm but to
one another. All other annotations, such as the one by which administrators take a card out of use,
are nobody's business here. At exit everything stays: kubelet knows that the plugin is gone.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Protocol

import structlog

from hami.nodenotes import PairScores
from hami.plugin import announcement
from hami.plugin.announcement import OURS, RegisterFormat
from hami.plugin.model import Offer
from hami.plugin.ownnode import OwnNode
from kube.errors import KubeError

log = structlog.get_logger(__name__)


class OfferSource(Protocol):
    """Knows what there is to announce."""

    def look(self) -> Offer | None:
        """Return what the node offers now; `None` while that is not known."""

    def scores(self) -> PairScores | None:
        """Return the points of its pairs of cards; `None` while these are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncerRules:
    """The administrator's part, and the times."""

    form: RegisterFormat = RegisterFormat.JSON
    topology: bool = False
    """Whether the points of pairs are written, for the policy topology-aware."""
    interval_s: float = 30.0
    retry_s: float = 5.0
    """After an error, and at least between two writes."""
    settle_s: float = 0.1
    """What changes together is written together."""


class _Outcome(Enum):
    """What came of a look."""

    KEPT = auto()
    UNKNOWN = auto()
    """It is not known yet what should be there, or what is."""
    FAILED = auto()


class Announcer:
    """Writes from one thread, `run`; all other methods may be called from any."""

    def __init__(
        self, *, node: OwnNode, source: OfferSource, rules: AnnouncerRules | None = None
    ) -> None:
        self._node, self._source = node, source
        self._rules = rules or AnnouncerRules()
        self._wake = threading.Event()
        self._problem: str | None = "the node has not been read yet"
        self._written_s = float("-inf")

    def set(self) -> None:
        """Look soon: the node or the offer has changed, or `run` shall notice its end."""
        self._wake.set()

    def problem(self) -> str | None:
        """Return why the node does not say what it should; `None` where it does."""
        return self._problem

    def run(self, stopping: threading.Event) -> None:
        """Keep the annotations until *stopping* is set; `set` ends the wait for it."""
        due_s = time.monotonic()
        while True:
            # In this order: whoever stops this sets *stopping* first.
            self._wake.clear()
            if stopping.is_set():
                return
            is_due = time.monotonic() >= due_s
            match self._look(is_due=is_due):
                case _Outcome.KEPT:
                    if is_due:
                        due_s = time.monotonic() + self._rules.interval_s
                    if self._wake.wait(max(0.0, due_s - time.monotonic())):
                        stopping.wait(self._pause_s())
                case _Outcome.UNKNOWN:
                    self._wake.wait(self._rules.retry_s)
                case _Outcome.FAILED:
                    due_s = time.monotonic()
                    stopping.wait(self._rules.retry_s)

    def withdraw(self) -> None:
        """Take away what was written: the node is served in another way. Raises `KubeError`.

        Only after `run` has ended.
        """
        copy = self._node.copy()
        there = dict.fromkeys(key for key in OURS if copy is not None and key in copy.annotations)
        if there:
            self._node.annotate(there)
            log.info("node annotations withdrawn", keys=sorted(there))

    def _pause_s(self) -> float:
        since_s = time.monotonic() - self._written_s
        return max(self._rules.settle_s, self._rules.retry_s - since_s)

    def _look(self, *, is_due: bool) -> _Outcome:
        """Look, write what differs, and remember why that was not possible."""
        before = self._problem
        try:
            self._problem = self._kept(is_due=is_due)
            outcome = _Outcome.KEPT if self._problem is None else _Outcome.UNKNOWN
        except (KubeError, ValueError) as error:
            self._problem, outcome = f"node annotations not written: {error}", _Outcome.FAILED
        except Exception as error:  # the top of the thread's loop
            log.exception("announcement failed")
            self._problem, outcome = f"announcement failed: {error}", _Outcome.FAILED
        if outcome is _Outcome.FAILED and self._problem != before:
            log.warning("node not announced", reason=self._problem)
        return outcome

    def _kept(self, *, is_due: bool) -> str | None:
        offer = self._source.look()
        if offer is None:
            return "what the node offers is not known yet"
        if not self._node.wait_synced(0):
            return "the node has not been read yet"
        copy = self._node.copy()
        if copy is None:
            return "there is no Node object of this node"
        wanted = announcement.announcement(
            offer,
            form=self._rules.form,
            topology=self._rules.topology,
            scores=self._source.scores() if self._rules.topology else None,
        )
        changes = announcement.changes(
            wanted, copy.annotations, now=datetime.now(UTC), is_due=is_due
        )
        if changes:
            self._write(changes, offer)
        return None

    def _write(self, changes: Mapping[str, str | None], offer: Offer) -> None:
        self._written_s = time.monotonic()
        self._node.annotate(changes)
        log.info(
            "node annotations written",
            keys=sorted(changes),
            cards=len(offer.cards),
            withheld=len(offer.withheld),
        )
