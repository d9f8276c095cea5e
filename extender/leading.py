"""Whether this replica decides: it does while the kube-scheduler beside it leads.

The extender does not compete for a Lease of its own: only the kube-scheduler of the same pod calls
it. kube-scheduler's identity is its host's name, `_` and a UUID
(`cmd/kube-scheduler/app/server.go`), and the containers of a pod have one host name; the whole of
it is compared, since `scheduler-1` begins the name of `scheduler-10` too.

As in `kube.lease` the times that others write are not believed: a Lease ends when it has stood
unchanged since we saw it change. kube-scheduler gives up itself and ends when it could not renew
for two thirds of that time (`renewDeadline` 10 s of 15 s), so from then on nobody is served here
either, long before another one begins.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from kube.client import Client
from kube.objects import JsonObject
from kube.paths import leases
from kube.reflector import Change, Pace, Reflector

log = structlog.get_logger(__name__)

_BELIEVED: Final = 2 / 3
"""Of the duration of a Lease."""
_USUAL_S: Final = 15
_PACE: Final = Pace(silence_s=9.0, max_wait_s=2.0)
"""A Lease that is held changes every two seconds: a watch that is silent for longer is dead."""
_MARK: Final = "_"


@dataclass(frozen=True, slots=True)
class Holding:
    """What one state of the Lease says."""

    holder: str
    duration_s: int


def holding_of(lease: JsonObject) -> Holding:
    """Read a Lease; odd values count as nobody, and as the usual time."""
    spec: Any = lease.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    holder, duration = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    return Holding(
        holder if isinstance(holder, str) else "",
        duration if type(duration) is int and duration > 0 else _USUAL_S,
    )


def is_of(holder: str, hostname: str) -> bool:
    """Tell whether *holder* is the kube-scheduler of *hostname*."""
    host, mark, _ = holder.rpartition(_MARK)
    return bool(mark) and host == hostname


class AlwaysLeading:
    """A single replica: there is nobody to be told from."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def leads(self) -> bool:
        """Tell that it decides."""
        return True

    def problem(self) -> str | None:
        """Return nothing."""
        return None

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Tell *listener* once and for all."""
        listener(True)


class Leading:
    """Follows the Lease; used in one loop, fed by the thread of a reflector."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        hostname: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._hostname, self._loop = hostname, loop
        self._lease = f"{namespace}/{name}"
        self._listeners: list[Callable[[bool], None]] = []
        self._holder: str | None = None
        self._until_s = 0.0
        self._told = False
        self._expiry: asyncio.TimerHandle | None = None
        self._reflector = Reflector[tuple[str, Holding]](
            client,
            leases(namespace),
            params={"fieldSelector": f"metadata.name={name}"},
            # The version makes a renewal a change, though nothing else in it may be one.
            decode=lambda item: (
                str(item["metadata"].get("resourceVersion", "")),
                holding_of(item),
            ),
            on_change=self._changed,
            pace=_PACE,
        )

    def start(self) -> None:
        """Begin to follow."""
        self._reflector.start()

    def stop(self) -> None:
        """End following, and leading."""
        self._reflector.stop()
        if self._expiry is not None:
            self._expiry.cancel()
        self._until_s = 0.0
        self._tell()

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Have *listener* called in the loop whenever it begins (true) or ends (false)."""
        self._listeners.append(listener)

    def leads(self) -> bool:
        """Tell whether the kube-scheduler beside leads at this moment."""
        return self._loop.time() < self._until_s

    def problem(self) -> str | None:
        """Return why nothing is decided here."""
        if self.leads():
            return None
        if self._holder is None:
            return f"the Lease {self._lease} has not been seen"
        if not self._holder:
            return f"nobody holds the Lease {self._lease}"
        if is_of(self._holder, self._hostname):
            return f"the Lease {self._lease} is not renewed"
        return f"{self._holder} leads, not {self._hostname}"

    def _changed(self, change: Change[tuple[str, Holding]]) -> None:
        found = None if change.new is None else change.new[1]
        # A loop that has ended wants no news.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.take, found)

    def take(self, found: Holding | None) -> None:
        """Take one state of the Lease, seen just now; `None` where it is gone."""
        self._holder = None if found is None else found.holder
        if found is not None and is_of(found.holder, self._hostname):
            believed_s = found.duration_s * _BELIEVED
            self._until_s = self._loop.time() + believed_s
            self._look_again(believed_s)
        else:
            self._until_s = 0.0
        self._tell()

    def _look_again(self, after_s: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._loop.call_later(after_s, self._tell)

    def _tell(self) -> None:
        leads = self.leads()
        if leads == self._told:
            return
        self._told = leads
        log.info("leading started" if leads else "leading stopped", lease=self._lease)
        for listener in self._listeners:
            listener(leads)
