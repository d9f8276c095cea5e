"""The program as a whole: certificates, server, probes and whatever decides, in one loop.

How it ends matters to others. After SIGTERM the pod is taken out of its Service, which every node
learns a little later; so it first says that it is not ready and serves on, then takes no more
connections and lets requests finish. A second signal ends it at once.
"""

import asyncio
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from kube.client import Client
from kube.config import ClientConfig, load_config
from kube.draversions import VersionedClient
from kube.listener import Listener, bind
from kube.probes import ProbeServer
from kube.tls import ServingContext
from webhook.certificates import Certificates
from webhook.metrics import Metrics
from webhook.parts import MakeParts, Parts, Service, StartError, Surroundings
from webhook.server import Limits, build_app
from webhook.settings import WebhookSettings

log = structlog.get_logger(__name__)

_USER_AGENT: Final = "gpuslice-webhook"
_BEAT_S: Final = 1.0
_STUCK_S: Final = 30.0
"""A loop that does not turn for so long answers nobody: kubelet should restart the container."""


class Program:
    """One run; make and `run` it in the loop that serves."""

    def __init__(
        self,
        settings: WebhookSettings,
        make_parts: MakeParts,
        *,
        identity: ClientConfig | None = None,
    ) -> None:
        """Put the parts together; *identity* replaces the one that the settings point to.

        Raises `ConfigError` and `StartError`.
        """
        self._settings = settings
        self._metrics = Metrics()
        kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
        identity = identity or load_config(kubeconfig)
        self._client = _client(settings, identity)
        serving = _serving_context(settings)
        self._certificates = Certificates(
            settings, client=self._client, serving=serving, metrics=self._metrics
        )
        self._listening = _listening(settings)
        surroundings = Surroundings(
            settings=settings,
            identity=identity,
            client=self._client,
            metrics=self._metrics,
            port=self._listening.getsockname()[1],
            authorities=self._certificates.authorities,
        )
        self._parts: Parts = make_parts(surroundings)
        self._stop = asyncio.Event()
        self._beat_s = time.monotonic()
        limits = Limits(time_budget_s=settings.time_budget_s)
        app = build_app(
            mutate=self._parts.mutate,
            validate=self._parts.validate,
            metrics=self._metrics,
            limits=limits,
            draining=self._stop.is_set,
        )
        self._listener = Listener(
            app, self._listening, serving, finish_s=limits.time_budget_s + limits.body_s
        )
        self._probes = self._probe_server()

    def stop(self) -> None:
        """Begin to end; call it in the loop."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop`, and end in order; raises when a part has failed."""
        log.info(
            "webhook started", port=self._listening.getsockname()[1], probe_port=self._probes.port
        )
        with self._beside():
            async with asyncio.TaskGroup() as group:
                services: list[Service] = [self._beat, self._certificates.keep]
                services += self._parts.services
                helpers = [group.create_task(service()) for service in services]
                await self._serve()
                for helper in helpers:
                    helper.cancel()
        log.info("webhook ended")

    @contextmanager
    def _beside(self) -> Iterator[None]:
        self._probes.start()
        started = []
        try:
            for part in self._parts.background:
                part.start()
                started.append(part)
            yield
        finally:
            for part in reversed(started):
                part.stop()
            self._probes.stop()
            self._listening.close()

    async def _serve(self) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        loaded = asyncio.create_task(self._certificates.loaded.wait())
        try:
            await asyncio.wait((stopped, loaded), return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                return
            # What is there now stays: it need not be looked through for garbage again.
            gc.collect()
            gc.freeze()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listener.run_until_stopped())
                await stopped
                log.info("webhook draining", drain_s=self._settings.drain_s)
                await asyncio.sleep(self._settings.drain_s)
                self._listener.stop()
        finally:
            stopped.cancel()
            loaded.cancel()

    async def _beat(self) -> None:
        while True:
            self._beat_s = time.monotonic()
            await asyncio.sleep(_BEAT_S)

    def _probe_server(self) -> ProbeServer:
        address, port = self._settings.probe_address, self._settings.probe_port
        ready_checks = {
            "server": self._not_serving,
            "certificate": self._certificates.problem,
            **self._parts.ready_checks,
        }
        try:
            return ProbeServer(
                address,
                port,
                {"loop": self._stuck, **self._parts.live_checks},
                ready_checks=ready_checks,
                registry=self._metrics.registry,
            )
        except OSError as error:
            message = f"probes cannot be served on {address} port {port}: {error.strerror}"
            raise StartError(message) from error

    def _stuck(self) -> str | None:
        silent_s = time.monotonic() - self._beat_s
        return f"it has not turned for {silent_s:.0f} s" if silent_s > _STUCK_S else None

    def _not_serving(self) -> str | None:
        if self._stop.is_set():
            return "it is about to end"
        return None if self._listener.started else "it does not listen yet"


def _client(settings: WebhookSettings, identity: ClientConfig) -> Client:
    """Return a client that all parts speak to in `v1`.

    Only a version that was asked for is translated to: where none is served, as on older clusters,
    404 is what everybody waits with.
    """
    version = settings.resource_api_version
    if version in {"auto", "v1"}:
        return Client(identity, user_agent=_USER_AGENT)
    return VersionedClient(identity, user_agent=_USER_AGENT, api_version=version)


def _serving_context(settings: WebhookSettings) -> ServingContext:
    if settings.client_ca_file is not None and settings.quota:
        message = (
            "--client-ca-file needs --no-quota: replicas ask one another about quotas, "
            "and have no client certificates"
        )
        raise StartError(message)
    try:
        return ServingContext(client_ca_file=settings.client_ca_file)
    except OSError as error:
        message = f"--client-ca-file: {settings.client_ca_file}: {error.strerror or error}"
        raise StartError(message) from error


def _listening(settings: WebhookSettings) -> socket.socket:
    try:
        return bind(settings.address, settings.port)
    except OSError as error:
        message = f"reviews cannot be served on {settings.address}: {error.strerror or error}"
        raise StartError(message) from error
