"""Rounds with the scheduler extender: HAMi's pods wait, its scheduler starts, the extender binds.

The extender runs on from round to round; the scheduler beside it gives the lead back at the end of
each. Requests are counted by the API server's audit log, in which the extender differs from the
scheduler, whose account it shares, by its user agent.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from kube import paths
from kube.objects import JsonObject
from tests.cluster.bench import bulk, device_plugins
from tests.cluster.bench.control_plane import UNLIMITED_CONNECTION
from tests.cluster.bench.fleet import GPUS
from tests.cluster.bench.fleet_cluster import FleetCluster
from tests.cluster.bench.rounds import NAMESPACE, watched_bindings
from tests.cluster.images import PAUSE
from tests.cluster.scenes.agents import NAMESPACE as EXTENDER_NAMESPACE
from tests.cluster.scenes.audit import events_of, lines_of
from tests.cluster.scenes.extenders import (
    ACCOUNT,
    LOCK,
    SCHEDULER,
    Extenders,
    a_gpu,
    register,
    running_extender,
)
from tests.patience import eventually

EXTENDER: Final = "extender"
_SERVERS: Final = (EXTENDER, SCHEDULER, "kube-apiserver", "etcd")
_USER: Final = f"system:serviceaccount:{EXTENDER_NAMESPACE}:{ACCOUNT}"
_AGENT: Final = "gpuslice-extender"
_ASKED: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8k", "nvidia.com/gpucores": "10"}
_BINDING: Final = "create pods/binding"
_MEMORY_MIB: Final = 81559
_SHARES: Final = 10
_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderRound:
    """What came of one round."""

    pods: int
    took_s: float
    """From the extender's first request to the answer to its last binding."""
    cpu_s: Mapping[str, float]
    """Of each program from when the extender decides to the last binding."""
    requests: Counter[str]
    """The extender's, but for lists and watches."""
    failed: int
    """Bindings that the extender was asked for and has not done."""
    nodes: int
    """How many nodes have pods."""

    @property
    def per_s(self) -> float:
        """Return pods bound per second."""
        return self.pods / self.took_s

    @property
    def requests_per_pod(self) -> float:
        """Return how many requests the extender has made for each pod."""
        return self.requests.total() / self.pods

    @property
    def per_cpu_s(self) -> float:
        """Return pods bound per second of CPU, of all programs together."""
        return self.pods / sum(self.cpu_s.values())

    def cpu_ms(self, program: str) -> float:
        """Return the milliseconds of a program for each pod."""
        return self.cpu_s[program] / self.pods * 1000


def legacy_pod(name: str, policy: str) -> JsonObject:
    """Return a pod for a tenth of a GPU, as HAMi's webhook leaves it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"hami.io/node-scheduler-policy": policy}},
        "spec": {
            "schedulerName": SCHEDULER,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # So that a pod on a node without a kubelet is gone when it is deleted.
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "app", "image": PAUSE, "resources": {"limits": _ASKED}}],
        },
    }


def failed_bindings(metrics: str) -> int:
    """Return how many bindings ended otherwise than bound, by the text of *metrics*."""
    return int(
        sum(
            sample.value
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == "gpuslice_extender_requests_total"
            and sample.labels["path"] == "/bind"
            and sample.labels["result"] != "bound"
        )
    )


@dataclass(slots=True, kw_only=True)
class ExtenderFleet:
    """A fleet whose nodes are registered, an extender, and device plugins if there are locks."""

    fleet: FleetCluster
    extenders: Extenders
    locks: bool

    @property
    def rss_mb(self) -> float:
        """Return the extender's resident memory."""
        pid = self.extenders.processes[EXTENDER].pid
        status = Path(f"/proc/{pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def play(self, count: int, policy: str) -> ExtenderRound:
        """Bind *count* pods that wait already, and clear them away."""
        client, log = self.fleet.client, self.fleet.cluster.state.audit_log
        pods = [legacy_pod(f"pod-{number:04}", policy) for number in range(count)]
        bulk.create_all(client, paths.pods(NAMESPACE), pods)
        failed, lines = failed_bindings(self.extenders.metrics()), lines_of(log)
        with watched_bindings(client) as bindings:
            self.extenders.start_scheduler()
            eventually(self.extenders.ready, _TIMEOUT_S)
            before_s = self._cpu_s()
            bindings.wait(count, _TIMEOUT_S)
            after_s = self._cpu_s()
        eventually(self._unlocked)
        events = _events(log, lines)
        played = ExtenderRound(
            pods=count,
            took_s=took_s(events),
            cpu_s={name: after_s[name] - before_s[name] for name in after_s},
            requests=Counter(_kind(each) for each in events),
            failed=failed_bindings(self.extenders.metrics()) - failed,
            nodes=len({each["spec"]["nodeName"] for each in self._pods()}),
        )
        self.extenders.end(SCHEDULER)
        self.fleet.clear()
        return played

    def _pods(self) -> list[JsonObject]:
        items: list[JsonObject] = json.loads(self.fleet.client.get(paths.pods(NAMESPACE)))["items"]
        return items

    def _cpu_s(self) -> dict[str, float]:
        programs = (*_SERVERS, device_plugins.NAME) if self.locks else _SERVERS
        return {name: self.fleet.control_plane.cpu_s(name) for name in programs}

    def _unlocked(self) -> bool:
        """Tell whether no node is locked any more."""
        return LOCK.encode() not in self.fleet.client.get(paths.nodes())


@contextlib.contextmanager
def extender_fleet(
    fleet: FleetCluster, nodes: int, *, locks: bool, limits: bool = False
) -> Iterator[ExtenderFleet]:
    """Have *nodes* with eight GPUs of ten shares each and an extender that knows them."""
    fleet.grow(nodes)
    bulk.for_each(fleet.uids, lambda node: register(fleet.client, node, _gpus(node)))
    cluster = fleet.cluster
    flags = () if locks else ("--no-node-lock",)
    connection = None if limits else UNLIMITED_CONNECTION
    with contextlib.ExitStack() as stack:
        extenders = stack.enter_context(
            running_extender(cluster, flags=flags, connection=connection)
        )
        extenders.end(SCHEDULER)
        if locks:
            module = "tests.cluster.bench.device_plugins"
            extenders.start_module(device_plugins.NAME, module, str(cluster.kubeconfig))
        yield ExtenderFleet(fleet=fleet, extenders=extenders, locks=locks)


def _gpus(node: str) -> list[JsonObject]:
    return [
        a_gpu(f"GPU-{node}-{index}", index, memory_mib=_MEMORY_MIB, count=_SHARES)
        for index in range(GPUS)
    ]


def took_s(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds from the first of *events* to the end of the last binding among them.

    Many pods are written before the first is bound, so the first binding would be late to begin at.
    """
    began = min(_time(each["requestReceivedTimestamp"]) for each in events)
    bindings = (each for each in events if _kind(each) == _BINDING)
    return (max(_time(each["stageTimestamp"]) for each in bindings) - began).total_seconds()


def _events(log: Path, since: int) -> list[dict[str, Any]]:
    return [
        each
        for each in events_of(log, since=since, user=_USER)
        if each["userAgent"].startswith(_AGENT) and each["verb"] not in ("list", "watch")
    ]


def _kind(event: Mapping[str, Any]) -> str:
    reference = event["objectRef"]
    subresource = reference.get("subresource", "")
    return f"{event['verb']} {reference['resource']}/{subresource}".rstrip("/")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
