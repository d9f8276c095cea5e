"""What an extender program is made of besides HTTP: who chooses, what is known, what runs beside.

Everything here is called in the program's loop, and what is synchronous answers at once: a
decision is never made of two states.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from extender.metrics import Metrics
from extender.model import NodeUsage, Placement
from extender.settings import ExtenderSettings
from extender.wire import Names, SentNode
from hami.containers import JsonObject
from hami.devices import PodDevice
from hami.vendors import Lock
from kube.client import Client
from kube.config import ClientConfig


class StartError(Exception):
    """The program cannot start; the text is for whoever set it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One node, for which the pod holds a reservation unless the question was a dry one."""

    node: str
    score: float
    fitting: int = 0
    """How many nodes were known to fit; 0 where nobody counted."""
    words: tuple[str, ...] = ()
    """The vendors whose devices are in it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Dry only: why others do not fit, by node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """No node takes the pod: texts by node, once in exactly one of the two."""

    failed: Mapping[str, str]
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    """Where no eviction would help, such as a node without devices of the kind."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many nodes gave which of HAMi's tokens."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The pod asks for nothing that is managed here: whoever asks gets back what was sent."""


@dataclass(frozen=True, slots=True)
class Failed:
    """No decision, such as for annotations that cannot be read; the pod is tried again later."""

    reason: str


Answer = Chosen | Unfit | NotAsked | Failed


class Chooser(Protocol):
    """Decides where a pod goes."""

    def choose(self, pod: JsonObject, names: Names) -> Answer:
        """Choose among *names* and reserve; an older reservation of the pod is gone in any case."""

    def simulate(self, pod: JsonObject, nodes: Sequence[SentNode]) -> Answer:
        """Choose among empty *nodes* as they were sent, and change nothing."""

    def scores(self, pod: JsonObject, names: Names) -> Sequence[tuple[str, int]] | Failed:
        """Return 0 to 10 for each name in its order, 10 the best; 0 where it does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a pod will get on the node that was chosen for it."""

    uid: str
    namespace: str
    name: str
    placement: Placement
    locks: frozenset[Lock] = frozenset()
    """Which locks of the node a binding must hold, by the vendors whose devices are in it."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """All keys of all vendors with the devices; not `vgpu-node`, times and phase."""
    version: str = ""
    """The resource version of the pod that was asked about; empty where nobody knows it."""
    foreign: frozenset[str] = frozenset()
    """Annotations of that pod that only schedulers write and that are none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What a binding must know of a pod."""

    namespace: str
    name: str
    uid: str
    node: str
    """Empty until it is bound."""
    phase: str = ""
    bind_phase: str = ""
    """`allocating`, `success`, `failed` or nothing, as its annotation says."""
    is_terminating: bool = False
    group: str = ""
    """Its pod group: the label `scheduling.x-k8s.io/pod-group` or `spec.schedulingGroup`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a lock must know of a node; of an absent annotation the value is empty."""

    name: str
    resource_version: str
    locks: Mapping[Lock, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFigure:
    """One amount that a namespace's quota bounds."""

    namespace: str
    name: str
    """The key without `limits.` or `requests.`."""
    used: int
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigure:
    """What one pod holds of one device, init containers collapsed."""

    namespace: str
    name: str
    node: str
    device: PodDevice


class State(Protocol):
    """What is known of the cluster, reservations included."""

    def not_synced(self) -> str | None:
        """Return what has not been read yet, `None` when decisions are sound."""

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return a pod that asks for devices, as the watch last showed it."""

    def node(self, name: str) -> NodeFacts | None:
        """Return a node, as the watch last showed it."""

    def on_node(self, listener: Callable[[str], None]) -> None:
        """Have *listener* called with a node's name after each change of it, also its deletion."""

    def reservation(self, uid: str) -> Reservation | None:
        """Return a live reservation."""

    def objection(self, uid: str) -> str | None:
        """Return why what is reserved for a pod cannot be given to it any more."""

    def hold(self, uid: str, seconds: float) -> None:
        """Keep a reservation for *seconds* from now at least."""

    def written(self, uid: str) -> None:
        """Take note that a pod is bound: its reservation stays until the watch shows the same."""

    def drop(self, uid: str) -> None:
        """Forget a reservation, if there is one."""

    def drop_all(self) -> None:
        """Forget all reservations whose pods are not bound."""

    def usage(self) -> Iterable[NodeUsage]:
        """Return the nodes by which decisions are made; not to be kept or changed."""

    def quotas(self) -> Iterable[QuotaFigure]:
        """Return what quotas count and allow; decisions are made while it is gone through."""

    def holdings(self) -> Iterable[PodFigure]:
        """Return what each pod holds; decisions are made while it is gone through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefitAsk:
    """A device plugin's wish: other devices for one container of a bound pod."""

    uid: str
    namespace: str
    name: str
    node: str
    container_index: int
    """Init containers come first."""
    container_name: str
    word: str
    allowed: frozenset[str]
    """The UUIDs that kubelet lets it choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refitted:
    """The new devices, booked in memory beside the old ones until `keep` or `undo`."""

    devices: tuple[PodDevice, ...]
    """Of that container."""
    annotations: Mapping[str, str]
    """What changes in the pod."""


class Refitter(Protocol):
    """Moves devices of bound pods."""

    def refit(self, ask: RefitAsk, pod: JsonObject) -> Refitted | str:
        """Choose and book for *pod*, as the API server just had it, or say why not."""

    def keep(self, ask: RefitAsk) -> None:
        """Take note that the annotations are written."""

    def undo(self, ask: RefitAsk) -> None:
        """Take the booking back."""


class Background(Protocol):
    """Something with threads of its own, such as a reflector."""

    def start(self) -> None:
        """Begin, without waiting for anything."""

    def stop(self) -> None:
        """End soon."""


Service = Callable[[], Coroutine[Any, Any, None]]
"""Runs in the program's loop until it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the program has and its parts may use."""

    settings: ExtenderSettings
    identity: ClientConfig
    """For clients with other timeouts than *client*."""
    client: Client
    metrics: Metrics
    leads: Callable[[], bool]


async def _at_once() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What decides, and what it needs."""

    chooser: Chooser
    state: State
    refitter: Refitter | None = None
    background: tuple[Background, ...] = ()
    """Started in this order before anything is served, stopped in the other after the last."""
    services: tuple[Service, ...] = ()
    catch_up: Callable[[], Awaitable[None]] = _at_once
    """Returns once the state holds everything that was written before the call: a new leader must
    not decide without what the old one bound at last."""


MakeParts = Callable[[Surroundings], Parts]
"""Called in the program's loop before it serves; raises `StartError`."""
