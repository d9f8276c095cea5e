"""What a webhook program is made of, besides serving: who decides, and what runs beside it."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kube.client import Client
from kube.config import ClientConfig
from kube.probes import Check
from webhook.metrics import Metrics
from webhook.server import Handler
from webhook.settings import WebhookSettings


class StartError(Exception):
    """The program cannot start; the text is for whoever set it up."""


class Background(Protocol):
    """Something with threads of its own: a reflector, an elector, a view of the cluster."""

    def start(self) -> None:
        """Begin, without waiting for anything."""

    def stop(self) -> None:
        """End soon."""


Service = Callable[[], Coroutine[Any, Any, None]]
"""Runs in the program's loop until it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the program has and its parts may use."""

    settings: WebhookSettings
    identity: ClientConfig
    """For clients with other timeouts than *client*."""
    client: Client
    metrics: Metrics
    port: int
    """On which reviews are served."""
    authorities: Callable[[], bytes | None]
    """Returns what certificates of the other replicas are checked by, PEM, once it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What decides, and what it needs."""

    mutate: Handler
    validate: Handler
    background: tuple[Background, ...] = ()
    """Started in this order before anything is served, stopped in the other after the last."""
    services: tuple[Service, ...] = ()
    ready_checks: Mapping[str, Check] = field(default_factory=dict)
    """Such as: the first list of everything has been read."""
    live_checks: Mapping[str, Check] = field(default_factory=dict)


MakeParts = Callable[[Surroundings], Parts]
"""Called in the program's loop before it serves; raises `StartError`."""
