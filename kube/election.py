"""Which of several replicas leads, and telling it when that begins and ends.

A request may hang for as long as the client's timeout, and then *on_stopped* comes late, though
`is_leader` is right all the time since it asks the clock. So give the elector a client of its own
with a timeout of two seconds or so, and ask `is_leader` before each write that only a leader may
make.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from kube.client import Client
from kube.errors import KubeError
from kube.lease import Candidate, Terms, address_in
from kube.owners import Owners, nobody

__all__ = ["Elector", "Terms"]

log = structlog.get_logger(__name__)

_JOIN_S: Final = 3.0
_SPREAD: Final = 1.2


class Elector:
    """Runs in one thread, which also calls *on_started* and *on_stopped*."""

    def __init__(  # noqa: PLR0913 - what to lead, as whom, and whom to tell
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_started: Callable[[], None] | None = None,
        on_stopped: Callable[[], None] | None = None,
        terms: Terms | None = None,
        owners: Owners = nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to compete for the Lease *name*; make *identity* by `kube.lease.identity_of`.

        *owners* are those of a Lease that has to be made.
        """
        self._candidate = Candidate(
            client,
            namespace=namespace,
            name=name,
            identity=identity,
            terms=terms,
            owners=owners,
            clock=clock,
        )
        self._on_started, self._on_stopped = on_started, on_stopped
        self._stopped = threading.Event()
        self._told_s: float | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"election {name}", daemon=True)

    def start(self) -> None:
        """Begin to compete."""
        self._thread.start()

    def stop(self) -> None:
        """Stop leading, have *on_stopped* called, and give the Lease back."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def is_leader(self) -> bool:
        """Tell whether this process leads at this moment."""
        return self._candidate.leading_since() is not None

    def leading_since(self) -> float | None:
        """Return since when it leads without a gap, by the monotonic clock, or `None`."""
        return self._candidate.leading_since()

    def leader_address(self) -> str | None:
        """Return `host:port` of the one who leads, or `None` while nobody is known to."""
        holder = self._candidate.holder()
        return None if holder is None else address_in(holder)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._attempt()
            self._tell()
            self._stopped.wait(self._pause_s())
            self._tell()
        self._candidate.resign()
        if self._tell():
            self._release()

    def _attempt(self) -> None:
        try:
            self._candidate.attempt()
        except KubeError as error:
            if not self._failing:
                log.warning("lease not renewed", error=str(error), leading=self.is_leader())
            self._failing = True
        except Exception:
            log.exception("lease not renewed")
        else:
            self._failing = False

    def _pause_s(self) -> float:
        """Return how long to wait: not beyond the end of our own term."""
        retry_s = self._candidate.terms.retry_s
        if self.is_leader():
            return min(retry_s, self._candidate.remaining_s())
        # Candidates that ask in step would meet at each expiry.
        return random.uniform(retry_s, retry_s * _SPREAD)  # noqa: S311 - no secret

    def _tell(self) -> bool:
        """Tell what has changed; say whether whoever was told has taken it."""
        since_s, told_s = self._candidate.leading_since(), self._told_s
        if since_s == told_s:
            return True
        self._told_s = since_s
        taken = True
        if told_s is not None:
            log.info("leading stopped")
            taken = self._call(self._on_stopped)
        if since_s is not None:
            log.info("leading started")
            taken = self._call(self._on_started) and taken
        return taken

    def _call(self, listener: Callable[[], None] | None) -> bool:
        try:
            if listener is not None:
                listener()
        except Exception:
            log.exception("listener failed")
            return False
        return True

    def _release(self) -> None:
        try:
            self._candidate.release()
        except KubeError as error:
            log.warning("lease not released", error=str(error))
        except Exception:
            log.exception("lease not released")
