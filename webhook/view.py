"""What the webhook knows of the cluster without asking: a copy that watches keep up to date.

Reviews read it and never wait for the API server. It lags behind by some milliseconds, so whoever
counts must add what he has just admitted.

Translated pods have a label and are watched by it. Where pods take HAMi's path nothing selects
them on the server, so all are read there and those are kept that ask for a device. Clusters
without `resource.k8s.io/v1` have no slices, claims and templates; nothing else waits for these.
"""

import threading
from collections.abc import Callable, Collection
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from gpu.names import DRIVER
from kube import paths
from kube.client import Client
from kube.errors import KubeError
from kube.objects import JsonObject
from kube.reflector import Pace
from webhook import trimming
from webhook.claimspec import CLASSES
from webhook.facts import ClusterFacts
from webhook.following import PACE, Following
from webhook.offer import Offer
from webhook.requestannotation import LABEL, LABEL_VALUE
from webhook.slicefacts import OfferedSlice, read_slice
from webhook.trimming import Template

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Kind(StrEnum):
    """What is watched."""

    SLICES = "resourceslices"
    NAMESPACES = "namespaces"
    QUOTAS = "resourcequotas"
    CLAIMS = "resourceclaims"
    TEMPLATES = "resourceclaimtemplates"
    PODS = "pods"


_OF_DRA: Final = frozenset({Kind.SLICES, Kind.CLAIMS, Kind.TEMPLATES})

Listener = Callable[[Kind, str], None]
"""Takes what has changed and in which namespace, empty for "anywhere"; called in any thread."""


class ClusterView:
    """Follows the cluster from `start` to `stop`; all questions are answered at once."""

    def __init__(
        self,
        client: Client,
        *,
        resource_keys: Collection[str],
        claims_serve: bool = True,
        classes: Collection[str] = CLASSES,
        pace: Pace = PACE,
    ) -> None:
        """Prepare.

        *resource_keys* are the extended resources of pods on HAMi's path, *claims_serve* tells
        whether requests become claims (see `follow`), *classes* are the DeviceClasses of which
        claims and their templates are kept.
        """
        self._client, self._pace = client, pace
        self._keys = frozenset(resource_keys)
        self._listeners: list[Listener] = []
        self._reconnected: list[Callable[[], None]] = []
        self._offer = Offer(self._offered)
        self._slices = self._of(
            Kind.SLICES,
            paths.resource_slices(),
            read_slice,
            params={"fieldSelector": f"spec.driver={DRIVER}"},
            connected=self._ask_version,
        )
        self._namespaces = self._of(
            Kind.NAMESPACES, paths.namespaces(), trimming.labels_of, connected=self._connected
        )
        quotas = paths.resource("v1", "resourcequotas")
        self._quotas = self._of(Kind.QUOTAS, quotas, trimming.quota)
        claim = trimming.claims_of(frozenset(classes))
        self._claims = self._of(Kind.CLAIMS, paths.resource_claims(), claim)
        template = trimming.templates_of(frozenset(classes))
        self._templates = self._of(Kind.TEMPLATES, paths.resource_claim_templates(), template)
        self._lock = threading.Lock()
        self._claims_serve = claims_serve
        self._pods = self._following_pods(claims_serve=claims_serve)
        self._next_pods: Following[JsonObject] | None = None
        self._running = False

    def on_change(self, listener: Listener) -> None:
        """Have *listener* called after each change; it must return at once."""
        self._listeners.append(listener)

    def on_connected(self, listener: Callable[[], None]) -> None:
        """Have *listener* called when the server may have become another one."""
        self._reconnected.append(listener)

    def start(self) -> None:
        """Begin to read."""
        with self._lock:
            self._running = True
            for each in self._all():
                each.start()

    def stop(self) -> None:
        """End."""
        with self._lock:
            self._running = False
            following = [*self._all(), *([self._next_pods] if self._next_pods else [])]
        for each in following:
            each.stop()

    def follow(self, *, claims_serve: bool) -> None:
        """Change which pods are watched; the old ones stay until the new ones are known."""
        with self._lock:
            if claims_serve == self._claims_serve:
                return
            self._claims_serve = claims_serve
            given_up, self._next_pods = self._next_pods, None
            fresh = self._following_pods(claims_serve=claims_serve)
            old = None if self._running else self._pods
            if self._running:
                self._next_pods = fresh
                fresh.start()
            else:
                self._pods = fresh
        for each in (given_up, old):
            if each is not None:
                each.stop()

    def unsynced(self) -> frozenset[Kind]:
        """Return the kinds of which not all objects are known yet, or the server's version."""
        found = {kind for kind, each in self._by_kind().items() if not each.is_synced()}
        if not self._offer.is_version_known:
            found.add(Kind.SLICES)
        if self._next_pods is not None:
            found.add(Kind.PODS)
        return frozenset(found)

    def synced(self) -> bool:
        """Tell whether everything is known that the way of the cluster needs."""
        needless = frozenset() if self._claims_serve else _OF_DRA
        return not self.unsynced() - needless

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""
        return self._offer.facts()

    def memory_of(self, pool: str, device: str) -> int | None:
        """Return the MiB of one of our devices."""
        return self._offer.memory_of(pool, device)

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the labels of a namespace, `None` for one that is not known."""
        return self._namespaces.items.get("", name)

    def template_spec(self, namespace: str, name: str) -> JsonObject | None:
        """Return what the claims of a template are made of, trimmed if the name is not ours."""
        found = self._templates.items.get(namespace, name)
        return None if found is None else found.claim_spec

    def templates(self, namespace: str) -> tuple[Template, ...]:
        """Return the templates with names like ours."""
        found = self._templates.items.of(namespace)
        return tuple(each for each in found if each.is_named_like_ours)

    def quotas(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the ResourceQuotas."""
        return self._quotas.items.of(namespace)

    def namespaces_with_quotas(self) -> frozenset[str]:
        """Return the namespaces that have ResourceQuotas."""
        return self._quotas.items.namespaces()

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the claims for our devices, trimmed."""
        return self._claims.items.of(namespace)

    def claim(self, namespace: str, name: str) -> JsonObject | None:
        """Return one of these."""
        return self._claims.items.get(namespace, name)

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the pods that ask for devices or did so before they were translated, trimmed."""
        return self._pods.items.of(namespace)

    def namespaces_in_use(self) -> frozenset[str]:
        """Return the namespaces with such pods, or with such templates."""
        with_templates = filter(self.templates, self._templates.items.namespaces())
        return self._pods.items.namespaces().union(with_templates)

    def namespaces_with_work(self) -> frozenset[str]:
        """Return the namespaces with such pods, or with claims for our devices."""
        return self._pods.items.namespaces() | self._claims.items.namespaces()

    def _offered(self) -> tuple[OfferedSlice, ...]:
        return self._slices.items.of("")

    def _of(
        self,
        kind: Kind,
        path: str,
        decode: Callable[[JsonObject], T],
        **options: Any,
    ) -> Following[T]:
        told = partial(self._tell, kind)
        return Following(self._client, path, decode=decode, told=told, pace=self._pace, **options)

    def _following_pods(self, *, claims_serve: bool) -> Following[JsonObject]:
        selected = {"labelSelector": f"{LABEL}={LABEL_VALUE}"}
        return self._of(
            Kind.PODS,
            paths.pods(),
            trimming.pod if claims_serve else trimming.pods_asking(self._keys),
            params=selected if claims_serve else {},
            connected=partial(self._turn_to_next, claims_serve=claims_serve),
        )

    def _turn_to_next(self, *, claims_serve: bool) -> None:
        """Take the pods that were read meanwhile in the place of the others."""
        with self._lock:
            fresh = self._next_pods
            if fresh is None or claims_serve != self._claims_serve or not fresh.is_synced():
                return
            old, self._pods, self._next_pods = self._pods, fresh, None
        old.stop()
        self._tell(Kind.PODS, "")

    def _by_kind(self) -> dict[Kind, Following[Any]]:
        return {
            Kind.SLICES: self._slices,
            Kind.NAMESPACES: self._namespaces,
            Kind.QUOTAS: self._quotas,
            Kind.CLAIMS: self._claims,
            Kind.TEMPLATES: self._templates,
            Kind.PODS: self._pods,
        }

    def _all(self) -> tuple[Following[Any], ...]:
        return tuple(self._by_kind().values())

    def _ask_version(self) -> None:
        """Ask which release serves: the server behind a new connection may be another one."""
        try:
            self._offer.set_version(self._client.server_version())
        except (KubeError, ValueError, LookupError, TypeError) as error:
            log.warning("server version not read", error=str(error))
        self._tell(Kind.SLICES, "")

    def _connected(self) -> None:
        for listener in self._reconnected:
            listener()

    def _tell(self, kind: Kind, namespace: str) -> None:
        if kind is Kind.SLICES:
            self._offer.slices_changed()
        for listener in self._listeners:
            listener(kind, namespace)
