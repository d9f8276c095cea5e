"""Watches that feed a cluster, and what has to be done for it now and then.

Reflectors read in threads of their own and keep what they have read; everything else happens in
the loop. A kind is complete once its first list has been told and taken in full.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from extender.state import parsing
from extender.state.audit import Audit
from extender.state.cluster import Cluster
from extender.state.inbox import Inbox
from extender.state.reading import (
    WatchedNode,
    WatchedPod,
    WatchedQuota,
    pod_reader,
    read_node,
    read_quota,
)
from extender.state.standings import Standings
from hami.containers import JsonObject
from hami.deviceconfig import DeviceConfig
from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.errors import KubeError
from kube.reflector import Change, Pace, Parsing, Reflector

log = structlog.get_logger(__name__)

_TICK_S: Final = 1.0
_AUDIT_S: Final = 60.0
_ASK_S: Final = 15.0
_SETTLED_S: Final = 0.5
_LOOK_S: Final = 0.05
_LIMIT: Final = 500
"""Objects of one page: a server far away makes each page wait, and each holds some megabytes."""

T = TypeVar("T")


class Kind(StrEnum):
    """What is watched."""

    NODES = "nodes"
    PODS = "pods"
    QUOTAS = "resourcequotas"


class StateMetrics:
    """What is counted of the state's own work."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.wrong = Counter(
            "gpuslice_extender_state_differences_total",
            "Nodes and namespaces whose use was not what pods and promises say, and was replaced.",
            ["kind"],
            registry=registry,
        )
        self.orphans = Counter(
            "gpuslice_extender_orphans_total",
            "Pods that were booked and that no list showed any more.",
            registry=registry,
        )
        self.audits = Counter(
            "gpuslice_extender_audits_total", "Times that all use was reckoned.", registry=registry
        )
        self.promises = Gauge(
            "gpuslice_extender_reservations", "Devices promised to pods.", registry=registry
        )
        self.standings = Standings()
        registry.register(self.standings)


class Feed:
    """Reads nodes, pods and quotas into *cluster*; make it in the loop that decides."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        metrics: StateMetrics,
        *,
        node_selector: str = "",
        pace: Pace | None = None,
    ) -> None:
        self._cluster, self._client, self._metrics = cluster, client, metrics
        self._pace = pace
        self._inbox = Inbox(asyncio.get_running_loop())
        self._opened_s: dict[Kind, float] = {}
        self._suspects: frozenset[str] = frozenset()
        nodes = {"labelSelector": node_selector} if node_selector else {}
        self._nodes = self._of(
            Kind.NODES, paths.nodes(), read_node, self._node, nodes, parsing.NODES
        )
        counts = [each.count_name for each in cluster.backends]
        read = pod_reader(resource_names(cluster.config), counts)
        self._pods = self._of(Kind.PODS, paths.pods(), read, self._pod, {}, parsing.PODS)
        quotas = paths.resource("v1", "resourcequotas")
        self._quotas = self._of(Kind.QUOTAS, quotas, read_quota, self._quota, {}, None)

    def start(self) -> None:
        """Begin to read."""
        for each in (self._nodes, self._quotas, self._pods):
            each.start()

    def stop(self) -> None:
        """End soon."""
        for each in (self._pods, self._quotas, self._nodes):
            each.stop()

    def not_synced(self) -> str | None:
        """Return what has not been read yet, `None` when all is known."""
        missing = [kind.value for kind in Kind if kind not in self._opened_s]
        return f"{', '.join(missing)} not read yet" if missing else None

    async def catch_up(self) -> None:
        """Return once everything is taken in that was written before this call.

        An open watch tells within moments, so it has to stay open for one from now on. The request
        makes sure that the server can be reached at all.
        """
        await asyncio.to_thread(self._client.get, paths.pods(), {"limit": "1"})
        asked_s = time.monotonic()
        while (rest_s := self._unsettled_s(asked_s)) > 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(rest_s)
        taken = asyncio.Event()
        self._inbox.put(taken.set)
        await taken.wait()

    def _unsettled_s(self, asked_s: float) -> float:
        opened_s = self._opened_s.get(Kind.PODS)
        if opened_s is None:
            return _LOOK_S
        return max(asked_s, opened_s) + _SETTLED_S - time.monotonic()

    async def tick(self) -> None:
        """End promises and doubts whose time is up, for ever."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._cluster.tick()
            self._metrics.promises.set(sum(1 for _ in self._cluster.promises()))

    async def audit(self) -> None:
        """Reckon all use anew every minute, for ever."""
        while True:
            await asyncio.sleep(_AUDIT_S)
            if self.not_synced() is None:
                await self.audit_once()

    async def audit_once(self) -> None:
        """Reckon all use anew, and drop pods that twice were on no list."""
        audit = Audit(cluster=self._cluster)
        for _ in audit.run():
            await asyncio.sleep(0)
        self._metrics.audits.inc()
        for kind, found in (("node", audit.nodes), ("namespace", audit.namespaces)):
            self._metrics.wrong.labels(kind).inc(len(found))
        for _ in self._metrics.standings.look(tuple(self._cluster.places)):
            await asyncio.sleep(0)
        listed = await asyncio.to_thread(self._pods.items)
        self._drop_orphans(frozenset(pod.uid for pod in listed.values()))

    def _drop_orphans(self, listed: frozenset[str]) -> None:
        """Forget pods that were not *listed* the last time either."""
        known = {uid: holder.pod for uid, holder in self._cluster.holders() if holder.pod}
        missing = known.keys() - listed
        for uid in missing & self._suspects:
            log.error("pod that is gone was booked", pod=str(known[uid]), uid=uid)
            self._cluster.drop_pod(known[uid])
            self._metrics.orphans.inc()
        self._suspects = frozenset(missing - self._suspects)

    async def ask_for_life(self, leads: Callable[[], bool]) -> None:
        """Ask silent device plugins for a sign of life by their nodes' annotations, for ever."""
        while True:
            await asyncio.sleep(_ASK_S)
            for name, annotations in (
                tuple(self._cluster.nodes.questions().items()) if leads() else ()
            ):
                await self._ask(name, annotations)

    async def _ask(self, name: str, annotations: Mapping[str, str]) -> None:
        body: JsonObject = {"metadata": {"annotations": dict(annotations)}}
        patch = partial(self._client.patch, paths.nodes(name), body, content_type=MERGE_PATCH)
        try:
            await asyncio.to_thread(patch)
        except KubeError as error:
            log.warning("device plugin not asked for life", node=name, error=str(error))

    def _of(
        self,
        kind: Kind,
        path: str,
        decode: Callable[[JsonObject], T],
        take: Callable[[Change[T]], None],
        params: Mapping[str, str],
        how: Parsing | None,
    ) -> Reflector[T]:
        def changed(change: Change[T]) -> None:
            self._inbox.put(partial(take, change))

        def opened() -> None:
            self._inbox.put(partial(self._note_open, kind))

        return Reflector(
            self._client,
            path,
            params=params,
            decode=decode,
            on_change=changed,
            on_connected=opened,
            pace=self._pace,
            parsing=how,
            limit=_LIMIT,
            eager=True,
        )

    def _note_open(self, kind: Kind) -> None:
        self._opened_s[kind] = time.monotonic()

    def _node(self, change: Change[WatchedNode]) -> None:
        if change.new is None:
            self._cluster.drop_node(change.key.name)
        else:
            self._cluster.put_node(change.new)

    def _pod(self, change: Change[WatchedPod]) -> None:
        if change.new is not None:
            self._cluster.put_pod(change.new)
        elif change.old is not None:
            self._cluster.drop_pod(change.old)

    def _quota(self, change: Change[WatchedQuota]) -> None:
        if change.new is None:
            self._cluster.drop_quota(*change.key)
        else:
            self._cluster.put_quota(change.new)


def resource_names(config: DeviceConfig) -> frozenset[str]:
    """Return all names by which pods ask for devices."""
    return config.nvidia.keys.union(*(vendor.keys for vendor in config.vendors))
