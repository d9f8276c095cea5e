"""The program as a whole: who leads, what is known, what decides, and three listeners, in one loop.

On SIGTERM it ends leading first, so that nothing new is decided; bindings that are under way end.
kube-scheduler beside it ends at the same time and asks nothing more.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

from extender import collecting
from extender.binding import Binder, BindPace
from extender.callers import Callers
from extender.calls import Calls
from extender.gate import Gate
from extender.leading import AlwaysLeading, Leading
from extender.leadlabel import LeadLabel
from extender.locks import NodeLocks
from extender.metrics import Metrics
from extender.parts import MakeParts, Parts, StartError, Surroundings
from extender.quickprotocol import quick_protocol
from extender.routes.filtering import Filtering
from extender.routes.refitting import Refitting
from extender.routes.volcano import Volcano
from extender.server import Probes, probe_app, refit_app, scheduler_app
from extender.settings import ExtenderSettings
from kube.client import Client
from kube.config import ClientConfig, load_config
from kube.events import EventRecorder
from kube.listener import Listener, bind

if TYPE_CHECKING:
    from kube.tls import ServingContext

log = structlog.get_logger(__name__)

_AGENT: Final = "gpuslice-extender"
_BIND_SPARE_S: Final = 5.0
"""What a binding takes at most besides waiting for a lock."""
_CERTIFICATE_S: Final = 5.0
_SWITCH_S: Final = 0.001
"""For how long a watch's thread may keep the loop from running once it wants to."""


class Program:
    """One run; make and `run` it in the loop that serves."""

    def __init__(
        self,
        settings: ExtenderSettings,
        make_parts: MakeParts,
        *,
        identity: ClientConfig | None = None,
    ) -> None:
        """Put the parts together; *identity* replaces the one that the settings point to.

        Raises `ConfigError` and `StartError`.
        """
        self._settings, self.metrics = settings, Metrics()
        kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
        identity = identity or load_config(kubeconfig)
        self._client = Client(identity, user_agent=_AGENT, timeout_s=settings.api_timeout_s)
        self._calls = Calls(self._client, self.metrics)
        self._events = EventRecorder(
            self._client, component=settings.scheduler_name, host=settings.own_hostname
        )
        self._leading = self._leadership()
        surroundings = Surroundings(
            settings=settings,
            identity=identity,
            client=self._client,
            metrics=self.metrics,
            leads=self._leading.leads,
        )
        self._parts: Parts = make_parts(surroundings)
        self._gate = Gate(
            self._leading, self._parts.state, self.metrics, catch_up=self._parts.catch_up
        )
        self._stop = asyncio.Event()
        self._sockets: list[socket.socket] = []
        self._refit_tls: ServingContext | None = None
        self._listeners = self._make_listeners()

    @property
    def port(self) -> int:
        """Where kube-scheduler asks."""
        return int(self._sockets[0].getsockname()[1])

    @property
    def metrics_port(self) -> int:
        """Where those outside the pod look."""
        return int(self._sockets[1].getsockname()[1])

    @property
    def refit_port(self) -> int | None:
        """Where device plugins ask, if they may."""
        return int(self._sockets[2].getsockname()[1]) if len(self._sockets) > 2 else None

    def stop(self) -> None:
        """Begin to end; call it in the loop."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop`, and end in order; raises when a part has failed."""
        sys.setswitchinterval(_SWITCH_S)
        log.info("extender started", port=self.port, metrics_port=self.metrics_port)
        with self._beside(), collecting.seldom():
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(service()) for service in self._services()]
                served = [group.create_task(each.run_until_stopped()) for each in self._listeners]
                await self._stop.wait()
                await asyncio.sleep(self._settings.drain_s)
                self._leading.stop()
                for listener in self._listeners:
                    listener.stop()
                await asyncio.gather(*served)
                for helper in helpers:
                    helper.cancel()
        log.info("extender ended")

    def _services(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        yield from self._parts.services
        yield self._tidy_memory
        if self._refit_tls is not None:
            yield self._keep_certificate
        settings = self._settings
        if settings.pod_name:
            label = LeadLabel(self._calls, namespace=settings.pod_namespace, name=settings.pod_name)
            self._leading.on_change(label.changed)
            yield label.keep

    @contextmanager
    def _beside(self) -> Iterator[None]:
        started = []
        try:
            for part in (*self._parts.background, self._leading):
                part.start()
                started.append(part)
            yield
        finally:
            for part in reversed(started):
                part.stop()
            self._events.close()
            self._calls.close()
            for each in self._sockets:
                each.close()

    def _leadership(self) -> Leading | AlwaysLeading:
        settings = self._settings
        if not settings.leader_elect:
            return AlwaysLeading()
        return Leading(
            self._client,
            namespace=settings.leader_elect_resource_namespace,
            name=settings.leader_elect_resource_name,
            hostname=settings.own_hostname,
            loop=asyncio.get_running_loop(),
        )

    def _make_listeners(self) -> list[Listener]:
        settings, state, metrics = self._settings, self._parts.state, self.metrics
        probes = Probes(ready=self._not_ready, state=state, metrics=metrics)
        busy = set[str]()
        filters = Filtering(
            self._parts.chooser, self._gate, metrics, wait_ready_s=settings.wait_ready_s, busy=busy
        )
        scheduler = scheduler_app(
            filters=filters,
            binder=self._binder(busy),
            asked=Volcano(self._parts.chooser, metrics),
            probes=probes,
            body_bytes=settings.body_bytes,
        )
        finish_s = settings.http_timeout_s
        listeners = [
            Listener(
                scheduler,
                self._bound(settings.address, settings.port),
                None,
                finish_s=finish_s,
                protocol=quick_protocol(filters, settings.body_bytes),
            ),
            Listener(
                probe_app(probes),
                self._bound(settings.metrics_address, settings.metrics_port),
                None,
                finish_s=1,
            ),
        ]
        if settings.refit_accounts and self._parts.refitter is not None:
            # What reads certificates is large, and most extenders have none.
            from kube.tls import ServingContext  # noqa: PLC0415

            self._refit_tls = ServingContext()
            listening = self._bound(settings.refit_address, settings.refit_port)
            listeners.append(
                Listener(refit_app(self._refitting()), listening, self._refit_tls, finish_s=2)
            )
        return listeners

    def _binder(self, busy: set[str]) -> Binder:
        settings, metrics = self._settings, self.metrics
        locks = NodeLocks(
            self._calls,
            self._parts.state,
            metrics,
            expire_s=settings.node_lock_expire_s,
            bind_max_s=settings.http_timeout_s + _BIND_SPARE_S,
            busy=busy,
        )
        return Binder(
            state=self._parts.state,
            gate=self._gate,
            calls=self._calls,
            locks=locks if settings.node_lock else None,
            metrics=metrics,
            events=self._events,
            pace=BindPace(lock_wait_s=settings.node_lock_retry_timeout_s),
            busy=busy,
            tells_success=settings.success_events,
        )

    def _refitting(self) -> Refitting:
        settings = self._settings
        if (refitter := self._parts.refitter) is None:
            raise StartError("nothing here can refit")
        return Refitting(
            refitter=refitter,
            state=self._parts.state,
            gate=self._gate,
            calls=self._calls,
            callers=Callers(
                self._calls, accounts=settings.refit_accounts, audiences=settings.refit_audiences
            ),
            metrics=self.metrics,
            events=self._events,
        )

    def _bound(self, address: str, port: int) -> socket.socket:
        try:
            listening = bind(address, port)
        except OSError as error:
            message = f"{address} port {port} cannot be served: {error.strerror or error}"
            raise StartError(message) from error
        self._sockets.append(listening)
        return listening

    def _not_ready(self) -> str | None:
        return "it is about to end" if self._stop.is_set() else self._gate.problem()

    async def _keep_certificate(self) -> None:
        settings = self._settings
        if self._refit_tls is None:
            return
        from kube.tls import CertificateWatch, PairFiles  # noqa: PLC0415

        watch = CertificateWatch(
            PairFiles(settings.tls_cert_file, settings.tls_key_file), self._refit_tls
        )
        while True:
            await asyncio.to_thread(watch.look)
            await asyncio.sleep(_CERTIFICATE_S)

    async def _tidy_memory(self) -> None:
        """Take what was read at first out of the sight of the garbage collector."""
        while self._parts.state.not_synced() is not None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
        collecting.settle()
