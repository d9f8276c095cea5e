"""Keeps the server's certificate, and the API server's trust in it, up to date.

Mounted files are read every second: kubelet brings a changed Secret within a minute or two, and
from then on nobody should meet the old certificate for long. What is made here is looked at once a
minute. So are the webhook configurations, and at once when one changes: applying the chart anew
takes the authorities out of them, and from then on every GPU pod is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from kube.backoff import Backoff
from kube.cabundle import PLURALS, BundleWriter, configuration_path
from kube.certificates import CertificateError, split_bundle
from kube.client import Client
from kube.owners import service_owner
from kube.reflector import Change, Reflector
from kube.selfmade import SelfMade
from kube.tls import CertificateWatch, PairFiles, ServingContext
from webhook.metrics import Metrics
from webhook.settings import WebhookSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often things are looked at."""

    files_s: float = 1.0
    cluster_s: float = 60.0
    settle_s: float = 1.0
    """Where somebody else writes other authorities each time we do, both do it this slowly."""


class Certificates:
    """Watches the source that the settings name."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        client: Client,
        serving: ServingContext,
        metrics: Metrics,
        pace: Pace | None = None,
    ) -> None:
        self._settings, self._client = settings, client
        self._pace = pace or Pace()
        self._self_made = self_made = _self_made(settings, client)
        files = PairFiles(settings.tls_cert_file, settings.tls_key_file)
        self._watch = CertificateWatch(
            self_made or files,
            serving,
            on_loaded=lambda expires_at: metrics.certificate_taken(expires_at.timestamp()),
            on_failed=metrics.certificate_failures.inc,
        )
        self._writer = BundleWriter(
            client,
            settings.configurations,
            namespace=settings.namespace,
            service_name=settings.service_name,
            url=settings.custom_url,
        )
        self._writes = self_made is not None or settings.tls_ca_file is not None
        self._was_written = not self._writes
        self._from_file: bytes | None = None
        self._write_again = asyncio.Event()
        self.loaded = asyncio.Event()
        """Set once there is a certificate to serve with."""

    def problem(self) -> str | None:
        """Return why the API server cannot trust us.

        Once it could, an outage of its own is no reason to have nobody answer.
        """
        return self._watch.problem() or (None if self._was_written else self._writer.problem())

    def authorities(self) -> bytes | None:
        """Return the authorities that the API server trusts us by, PEM, as last read."""
        return self._self_made.bundle if self._self_made is not None else self._from_file

    async def keep(self) -> None:
        """Look again and again until cancelled."""
        followers = self._followers()
        for follower in followers:
            follower.start()
        try:
            async with asyncio.TaskGroup() as group:
                pace = self._pace
                look_s = pace.cluster_s if self._self_made else pace.files_s
                group.create_task(self._repeat(self._look, look_s, asyncio.Event()))
                if self._writes:
                    group.create_task(self._repeat(self._write, pace.cluster_s, self._write_again))
        finally:
            for follower in followers:
                follower.stop()

    async def _repeat(
        self, look: Callable[[], Awaitable[bool]], interval_s: float, wake: asyncio.Event
    ) -> None:
        backoff = Backoff(self._pace.settle_s, self._pace.cluster_s / 2)
        while True:
            well = False
            try:
                well = await look()
            except Exception:  # the top of the loop
                log.exception("look at certificates failed")
            if well:
                backoff.reset()
            wait_s = interval_s if well else min(interval_s, backoff.next_s())
            try:
                await asyncio.wait_for(wake.wait(), wait_s)
            except TimeoutError:
                continue
            await asyncio.sleep(self._pace.settle_s)
            wake.clear()

    async def _look(self) -> bool:
        before = self._self_made and self._self_made.bundle
        usable = await asyncio.to_thread(self._watch.look)
        if self._self_made and self._self_made.bundle != before:
            self._write_again.set()
        if usable:
            self.loaded.set()
        return usable

    async def _write(self) -> bool:
        bundle = await asyncio.to_thread(self._bundle)
        if bundle is None:
            return False
        await asyncio.to_thread(self._writer.write, bundle)
        written = self._writer.problem() is None
        self._was_written |= written
        return written

    def _bundle(self) -> bytes | None:
        if self._self_made is not None:
            return self._self_made.bundle
        if self._settings.tls_ca_file is None:
            return None
        try:
            self._from_file = b"".join(split_bundle(self._settings.tls_ca_file.read_bytes()))
        except (OSError, CertificateError) as error:
            log.error("authorities not read", reason=str(error))
            return None
        return self._from_file

    def _followers(self) -> list[Reflector[str]]:
        """Return what watches the configurations, whose change is a reason to look at once."""
        if not self._writes:
            return []
        return [
            self._follower(configuration_path(plural), name)
            for plural in PLURALS
            for name in self._settings.configurations
        ]

    def _follower(self, path: str, name: str) -> Reflector[str]:
        loop = asyncio.get_running_loop()

        def look_soon(_change: Change[str]) -> None:
            loop.call_soon_threadsafe(self._write_again.set)

        return Reflector(
            self._client,
            path,
            params={"fieldSelector": f"metadata.name={name}"},
            decode=lambda item: str(item["metadata"].get("resourceVersion", "")),
            on_change=look_soon,
        )


def _self_made(settings: WebhookSettings, client: Client) -> SelfMade | None:
    if settings.tls != "self-made":
        return None
    return SelfMade(
        client,
        namespace=settings.namespace,
        name=settings.tls_secret,
        hosts=settings.hosts,
        owners=service_owner(client, namespace=settings.namespace, name=settings.service_name),
    )
