"""Makes the claim templates that translated pods name, and deletes those that none names any more.

Only the leader works, and it knows nothing but what it sees: what is missing is made, what stood
unused for a while is deleted. Claims are made, owned and deleted by Kubernetes itself, which waits
for a template as long as it has to. So a restart, a lost write or two leaders for a moment cost
nothing but time.

A template of another content under one of our names is left alone: somebody made it, and he has
to be asked.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from kube.client import Client
from kube.events import EventRecorder
from kube.objects import JsonObject
from webhook.templatecontent import expected_templates
from webhook.templatekeeping import NamespaceKeeper, TemplatePace, Tools
from webhook.templateplan import Expected, Reader
from webhook.trimming import Template
from webhook.view import Kind, Listener

__all__ = ["Source", "TemplateController", "TemplatePace"]

log = structlog.get_logger(__name__)

_KINDS: Final = frozenset({Kind.PODS, Kind.TEMPLATES})
_JOIN_S: Final = 2.0


class Source(Protocol):
    """What a `ClusterView` knows, as far as this needs it."""

    def on_change(self, listener: Listener) -> None:
        """Have *listener* called after each change."""

    def unsynced(self) -> frozenset[Kind]:
        """Return the kinds that are not known in full."""

    def namespaces_in_use(self) -> frozenset[str]:
        """Return the namespaces with pods or templates."""

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return pods."""

    def templates(self, namespace: str) -> tuple[Template, ...]:
        """Return templates."""


class TemplateController:
    """Runs in one thread from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - what to read, to write and to ask
        self,
        client: Client,
        source: Source,
        events: EventRecorder,
        *,
        leads: Callable[[], bool],
        pace: TemplatePace | None = None,
        expected: Callable[[JsonObject], Expected] = expected_templates,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; *leads* is asked before each write."""
        self._tools = Tools(
            client=client, events=events, leads=leads, clock=clock, pace=pace or TemplatePace()
        )
        self._source, self._expected = source, expected
        self._changed = threading.Condition()
        self._dirty: set[str] = set()
        self._all_dirty = True
        self._stopped = False
        self._kept: dict[str, tuple[Reader, NamespaceKeeper]] = {}
        self._resync_s = 0.0
        self._thread = threading.Thread(target=self._run, name="templates", daemon=True)
        source.on_change(self._note)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End; a request that hangs is left to its timeout."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def wake(self) -> None:
        """Look at everything now."""
        with self._changed:
            self._all_dirty = True
            self._changed.notify()

    def _note(self, kind: Kind, namespace: str) -> None:
        if kind not in _KINDS:
            return
        with self._changed:
            self._dirty.add(namespace)
            self._all_dirty |= not namespace
            self._changed.notify()

    def _run(self) -> None:
        wait_s = 0.0
        while (dirty := self._await_work(wait_s)) is not None:
            try:
                wait_s = self._turn(dirty)
            except Exception:
                log.exception("templates not looked at")
                self._resync_s = 0.0
                wait_s = self._tools.pace.sync_wait_s

    def _await_work(self, wait_s: float) -> set[str] | None:
        """Wait for a change or *wait_s*; return the namespaces that changed, `None` to end."""
        with self._changed:
            if not (self._dirty or self._all_dirty or self._stopped):
                self._changed.wait(wait_s)
            if self._stopped:
                return None
            if self._all_dirty:
                self._resync_s = 0.0
            dirty, self._dirty, self._all_dirty = self._dirty, set(), False
            return dirty

    def _turn(self, dirty: set[str]) -> float:
        """Look at *dirty* and at what is due; return how long nothing else will be."""
        pace = self._tools.pace
        if not self._tools.leads():
            self._kept.clear()
            self._resync_s = 0.0
            return pace.standby_s
        if self._source.unsynced() & _KINDS:
            # Pods that are not known yet need their templates as well.
            self._resync_s = 0.0
            return pace.sync_wait_s
        now_s = self._tools.clock()
        if now_s >= self._resync_s:
            self._resync_s = now_s + pace.resync_s
            dirty = {*self._source.namespaces_in_use(), *self._kept}
        for namespace in dirty | {name for name in self._kept if self._due_s(name) <= now_s}:
            self._look(namespace)
        next_s = min([self._resync_s, *map(self._due_s, self._kept)])
        return max(0.0, next_s - self._tools.clock())

    def _due_s(self, namespace: str) -> float:
        due_s = self._kept[namespace][1].due_s()
        return self._resync_s if due_s is None else due_s

    def _look(self, namespace: str) -> None:
        """Look at one namespace; what goes wrong there does not touch the others."""
        pods, templates = self._source.pods(namespace), self._source.templates(namespace)
        if not pods and not templates:
            self._kept.pop(namespace, None)
            return
        found = self._kept.get(namespace)
        if found is None:
            found = (Reader(self._expected), NamespaceKeeper(namespace, self._tools))
            self._kept[namespace] = found
        reader, keeper = found
        try:
            keeper.follow(reader.plan(pods, templates))
        except Exception:
            log.exception("templates not looked at", namespace=namespace)
            # Times that were due would be due again at once.
            del self._kept[namespace]
