"""A cluster as the extender's routes see it, in memory, and fed by watches where a test wants."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from extender.calls import facts_of, pod_facts
from extender.gate import Gate
from extender.leading import AlwaysLeading
from extender.metrics import Metrics
from extender.model import NodeUsage, Placement
from extender.parts import (
    Answer,
    Chosen,
    Failed,
    NodeFacts,
    NotAsked,
    PodFacts,
    PodFigure,
    QuotaFigure,
    RefitAsk,
    Refitted,
    Reservation,
)
from extender.wire import Names, SentNode
from hami.containers import JsonObject
from hami.devices import PodDevice
from hami.vendors import Lock
from kube.client import Client
from kube.paths import nodes, pods
from kube.reflector import Change, Pace, Reflector

FAST = Pace(first_wait_s=0.01, max_wait_s=0.05, missing_wait_s=0.1)
DEVICE = PodDevice(uuid="GPU-0", type="NVIDIA", memory_mib=1000, cores=10)


def reservation(
    name: str = "p",
    node: str = "gpu1",
    *,
    uid: str = "",
    version: str = "",
    locks: frozenset[Lock] = frozenset({Lock.SHARED}),
) -> Reservation:
    """Return what a pod of the default namespace would get."""
    return Reservation(
        uid=uid or f"uid-{name}",
        namespace="default",
        name=name,
        placement=Placement(node=node, score=1.0, slots={"NVIDIA": ((DEVICE,),)}),
        locks=locks,
        annotations={
            "hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,1000,10:;",
            "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1000,10:;",
        },
        version=version,
    )


@dataclass
class MemoryState:
    """Holds what a test puts into it."""

    pods: dict[tuple[str, str], PodFacts] = field(default_factory=dict)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    confirmed: list[str] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)
    objections: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    figures: list[NodeUsage] = field(default_factory=list)
    quota_figures: list[QuotaFigure] = field(default_factory=list)
    pod_figures: list[PodFigure] = field(default_factory=list)
    listeners: list[Callable[[str], None]] = field(default_factory=list)
    drops: int = 0

    def not_synced(self) -> str | None:
        """Return what the test says."""
        return self.problem

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return a pod."""
        return self.pods.get((namespace, name))

    def node(self, name: str) -> NodeFacts | None:
        """Return a node."""
        found = self.nodes.get(name)
        return None if found is None else replace(found)

    def on_node(self, listener: Callable[[str], None]) -> None:
        """Tell *listener* of changes."""
        self.listeners.append(listener)

    def put_node(self, node: NodeFacts) -> None:
        """Take a node and tell of it."""
        self.nodes[node.name] = node
        for listener in self.listeners:
            listener(node.name)

    def put_pod(self, pod: PodFacts) -> None:
        """Take a pod."""
        self.pods[pod.namespace, pod.name] = pod

    def reserve(self, *reservations: Reservation) -> None:
        """Take reservations."""
        for each in reservations:
            self.reservations[each.uid] = each

    def reservation(self, uid: str) -> Reservation | None:
        """Return one."""
        return self.reservations.get(uid)

    def objection(self, uid: str) -> str | None:
        """Return what the test says."""
        return self.objections.get(uid)

    def hold(self, uid: str, seconds: float) -> None:
        """Note it."""
        self.held[uid] = seconds

    def written(self, uid: str) -> None:
        """Note it."""
        self.confirmed.append(uid)

    def drop(self, uid: str) -> None:
        """Forget one."""
        self.reservations.pop(uid, None)

    def drop_all(self) -> None:
        """Forget all."""
        self.reservations.clear()
        self.drops += 1

    def usage(self) -> Iterable[NodeUsage]:
        """Return what the test says."""
        return self.figures

    def quotas(self) -> Iterable[QuotaFigure]:
        """Return what the test says."""
        return self.quota_figures

    def holdings(self) -> Iterable[PodFigure]:
        """Return what the test says."""
        return self.pod_figures


@contextmanager
def following(state: MemoryState, client: Client) -> Iterator[MemoryState]:
    """Feed *state* with nodes and pods by watches, in the loop that runs."""
    loop = asyncio.get_running_loop()

    def changed(take: Callable[[Any], None], drop: Callable[[Any], None]) -> Any:
        def tell(change: Change[Any]) -> None:
            if change.new is not None:
                loop.call_soon_threadsafe(take, change.new)
            else:
                loop.call_soon_threadsafe(drop, change.old)

        return tell

    def drop_node(node: NodeFacts) -> None:
        state.nodes.pop(node.name, None)

    def drop_pod(pod: PodFacts) -> None:
        state.pods.pop((pod.namespace, pod.name), None)

    watches: list[Reflector[Any]] = [
        Reflector(
            client,
            nodes(),
            params={},
            decode=facts_of,
            on_change=changed(state.put_node, drop_node),
            pace=FAST,
        ),
        Reflector(
            client,
            pods(),
            params={},
            decode=pod_facts,
            on_change=changed(state.put_pod, drop_pod),
            pace=FAST,
        ),
    ]
    for each in watches:
        each.start()
    try:
        yield state
    finally:
        for each in watches:
            each.stop()


@dataclass
class ScriptedChooser:
    """Answers what a test has written down, and notes what it was asked."""

    answer: Answer = field(default_factory=NotAsked)
    dry: Answer = field(default_factory=NotAsked)
    points: Sequence[tuple[str, int]] | Failed = ()
    error: Exception | None = None
    asked: list[tuple[JsonObject, tuple[str, ...]]] = field(default_factory=list)

    def choose(self, pod: JsonObject, names: Names) -> Answer:
        """Answer."""
        self.asked.append((pod, names.listed()))
        if self.error is not None:
            raise self.error
        return self.answer

    def simulate(self, pod: JsonObject, nodes: Sequence[SentNode]) -> Answer:
        """Answer."""
        self.asked.append((pod, tuple(each.name for each in nodes)))
        return self.dry

    def scores(self, pod: JsonObject, names: Names) -> Sequence[tuple[str, int]] | Failed:
        """Answer."""
        self.asked.append((pod, names.listed()))
        return self.points


@dataclass
class ScriptedRefitter:
    """Refits as a test has written down."""

    answer: Refitted | str
    asked: list[RefitAsk] = field(default_factory=list)
    kept: int = 0
    undone: int = 0

    def refit(self, ask: RefitAsk, _pod: JsonObject) -> Refitted | str:
        """Answer."""
        self.asked.append(ask)
        return self.answer

    def keep(self, _ask: RefitAsk) -> None:
        """Count."""
        self.kept += 1

    def undo(self, _ask: RefitAsk) -> None:
        """Count."""
        self.undone += 1


@dataclass
class Switch:
    """Leads as long as a test wants."""

    reason: str | None = None
    listeners: list[Callable[[bool], None]] = field(default_factory=list)

    def leads(self) -> bool:
        """Tell."""
        return self.reason is None

    def problem(self) -> str | None:
        """Tell why not."""
        return self.reason

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Tell *listener* at once and of each change."""
        self.listeners.append(listener)
        listener(self.leads())

    def turn(self, reason: str | None) -> None:
        """Begin or end to lead."""
        self.reason = reason
        for each in self.listeners:
            each(reason is None)


async def nothing() -> None:
    """Be caught up."""


async def open_gate(
    state: MemoryState, metrics: Metrics, switch: Switch | AlwaysLeading | None = None
) -> Gate:
    """Return a gate that has caught up."""
    gate = Gate(switch or AlwaysLeading(), state, metrics, catch_up=nothing)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return gate


CHOSEN = Chosen(node="gpu1", score=3.2, words=("NVIDIA",))
