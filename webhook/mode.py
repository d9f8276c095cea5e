"""Whether requests become claims on this cluster or are prepared for HAMi's scheduler.

A version says little: consumable capacity is behind a feature gate, and a server that lacks it
drops the amounts of a claim without a word, so that a request for 3000 MiB would take a whole
GPU. So the server is asked what it would keep of a template, by a create that is never carried
out (`dryRun`). It is asked again, because control planes are upgraded and turned back, and as
long as it does not answer the last answer holds.
"""

import secrets
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Gauge

from gpu.names import CAPACITY_MEMORY, CLASS_SHARE
from kube.backoff import Backoff
from kube.client import Client
from kube.errors import KubeError, NotServedError
from kube.objects import JsonObject
from kube.paths import DRA_VERSION, resource_claim_templates
from kube.trial import would_keep

log = structlog.get_logger(__name__)

_GROUP_VERSION: Final = f"resource.k8s.io/{DRA_VERSION}"
_AMOUNT: Final = {"requests": {CAPACITY_MEMORY: "1Mi"}}
_JOIN_S: Final = 1.0


class Mode(StrEnum):
    """What becomes of requests for NVIDIA's GPUs."""

    DRA = "dra"
    HAMI = "hami"


class ModeProbe:
    """Knows the mode; runs in one thread where it has to be found out."""

    def __init__(  # noqa: PLR0913 - whom to ask, and whom to tell
        self,
        client: Client,
        *,
        namespace: str,
        setting: Literal["auto", "dra", "hami"],
        on_change: Callable[[Mode | None, Mode], None] | None = None,
        registry: CollectorRegistry | None = None,
        again_s: float = 600.0,
        first_retry_s: float = 0.5,
    ) -> None:
        """Prepare.

        *namespace* is our own, which no webhook guards. *on_change* is called in the probe's
        thread with the old and the new mode, also for the first.
        """
        self._client, self._namespace = client, namespace
        self._on_change = on_change
        self._again_s = again_s
        self._backoff = Backoff(first_retry_s, 30.0)
        self._mode = None if setting == "auto" else Mode(setting)
        self._problem = "the API server has not been asked yet what it keeps of a claim"
        self._wake, self._stopped = threading.Event(), False
        self._gauge = _gauge(registry) if registry is not None else None
        self._show()
        self._thread = (
            threading.Thread(target=self._run, name="mode", daemon=True)
            if setting == "auto"
            else None
        )

    def start(self) -> None:
        """Begin to ask, unless the mode is given."""
        if self._thread is not None:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def mode(self) -> Mode | None:
        """Return the mode, `None` as long as it is unknown."""
        return self._mode

    def problem(self) -> str | None:
        """Return why the mode is unknown; a check of readiness."""
        return self._problem if self._mode is None else None

    def ask_again(self) -> None:
        """Ask soon: the server at the other end may be another one."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            wait_s = self._again_s
            try:
                self._take(probe(self._client, self._namespace))
                self._backoff.reset()
            except KubeError as error:
                wait_s = self._failed(str(error))
            except Exception as error:
                log.exception("mode not found")
                wait_s = self._failed(type(error).__name__)
            if not self._stopped:
                self._wake.wait(wait_s)

    def _failed(self, why: str) -> float:
        """Keep what is known; return when to ask again."""
        self._problem = f"the API server did not say what it keeps of a claim: {why}"
        if self._backoff.failures == 0:
            log.warning("mode not found", error=why, kept=self._mode)
        return self._backoff.next_s()

    def _take(self, found: Mode) -> None:
        old = self._mode
        if found is old:
            return
        self._mode = found
        self._show()
        log.info("mode found", mode=found.value, before=old and old.value)
        if self._on_change is not None:
            self._on_change(old, found)

    def _show(self) -> None:
        if self._gauge is not None:
            for mode in Mode:
                self._gauge.labels(mode.value).set(mode is self._mode)


def probe(client: Client, namespace: str) -> Mode:
    """Ask the server; raises `KubeError` when it does not tell."""
    try:
        kept = would_keep(client, resource_claim_templates(namespace), _template(namespace))
    except NotServedError:
        return Mode.HAMI
    return Mode.DRA if _keeps_amounts(kept) else Mode.HAMI


def _template(namespace: str) -> JsonObject:
    request = {"deviceClassName": CLASS_SHARE, "capacity": _AMOUNT}
    return {
        "apiVersion": _GROUP_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"probe-{secrets.token_hex(8)}", "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}},
    }


def _keeps_amounts(template: Any) -> bool:
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    return bool(request["exactly"].get("capacity") == _AMOUNT)


def _gauge(registry: CollectorRegistry) -> Gauge:
    return Gauge(
        "gpuslice_webhook_mode",
        "1 for what requests become on this cluster, 0 for what they do not.",
        ["mode"],
        registry=registry,
    )
