"""Which node a pod goes to: the best of those that fit, by HAMi's score of nodes.

For NVIDIA GPUs alone, thousands of nodes are sifted at once and few are looked at exactly
(`extender.choosing_columns`); the answer is the same as if all had been. For other vendors, whose
rules know more than amounts, all nodes that have their devices are looked at.

What a pod has itself is taken away while it is decided about, and an older promise to it is gone
whatever comes of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import structlog

from extender.arrays import Columns
from extender.choosing_columns import Candidates, best_first
from extender.choosing_looks import Looks
from extender.choosing_question import Question, question_of
from extender.choosing_reasons import MOST_DEVICES, Said, Texts, Told, codes_of, of_node, said
from extender.fitting import ENDLESS, QuotaRoom, fit_node
from extender.fitting.nodefit import node_policy
from extender.fitting.reasons import Reason
from extender.model import Ask, Misfit, Placement, Policies
from extender.parts import Answer, Chosen, Failed, NotAsked, Unfit
from extender.state import registry
from extender.state.bounds import Room
from extender.state.cluster import Cluster
from extender.state.places import NOT_REGISTERED, Place, fresh_usage
from extender.state.reading import WatchedNode
from extender.wire import Names, SentNode
from hami import preference_reading, resources
from hami.containers import JsonObject
from hami.requests import Absent, Invalid

log = structlog.get_logger(__name__)

_SCORE_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Best:
    """The node that takes the pod."""

    placement: Placement
    fitting: int = 0


class NodeChooser:
    """Decides on what a cluster knows, in the loop that feeds it."""

    def __init__(self, cluster: Cluster, policies: Policies) -> None:
        """Follow *cluster* from now on; the *policies* hold for pods that name none."""
        self._cluster, self._policies = cluster, policies
        self._config = cluster.config
        self.columns = Columns()
        self._changed: dict[str, None] = dict.fromkeys(place.name for place in cluster.places)
        self._texts = Texts()
        cluster.on_place(self._note)

    def choose(self, pod: JsonObject, names: Names) -> Answer:
        """Choose among *names* and reserve; an older reservation of the pod is gone in any case."""
        ask = self.read(pod)
        if not isinstance(ask, Ask):
            return ask
        cluster = self._cluster
        cluster.begin(ask.uid)
        lifted = cluster.lift(ask.uid)
        try:
            found = self.decide(ask, names)
            if isinstance(found, Best):
                cluster.reserve(ask, found.placement)
                return _chosen(found)
        finally:
            cluster.put_back(ask.uid, lifted)
        return _unfit(found)

    def simulate(self, pod: JsonObject, nodes: Sequence[SentNode]) -> Answer:
        """Choose among empty *nodes* as they were sent, and change nothing."""
        ask = self.read(pod)
        if not isinstance(ask, Ask):
            return ask
        places = {node.name: self._empty_place(node) for node in nodes}
        found, told = self._scan(ask, places.items())
        if found is None:
            return _unfit(told)
        return _chosen(found, told.texts())

    def scores(self, pod: JsonObject, names: Names) -> Sequence[tuple[str, int]] | Failed:
        """Return 0 to 10 for each name in its order, 10 the best; 0 where it does not fit."""
        ask = self.read(pod)
        if isinstance(ask, Failed):
            return ask
        listed = names.listed()
        if not isinstance(ask, Ask):
            return [(name, 0) for name in listed]
        lifted = self._cluster.lift(ask.uid)
        try:
            room = self._room(ask)
            found = {name: self._look(ask, self._cluster.places.get(name), room) for name in listed}
        finally:
            self._cluster.put_back(ask.uid, lifted)
        rated = {name: each.score for name, each in found.items() if isinstance(each, Placement)}
        low, high = min(rated.values(), default=0.0), max(rated.values(), default=0.0)
        return [(name, _rank(rated[name], low, high) if name in rated else 0) for name in listed]

    def read(self, pod: JsonObject) -> Ask | NotAsked | Failed:
        """Return what *pod* asks."""
        valid = resources.read(pod, self._config)
        if isinstance(valid, Absent):
            return NotAsked()
        if isinstance(valid, Invalid):
            return Failed("; ".join(map(str, valid.reasons)))
        metadata = pod.get("metadata") or {}
        texts = preference_reading.annotations_of(pod).items()
        return Ask(
            namespace=metadata.get("namespace") or "default",
            name=metadata.get("name") or "",
            uid=metadata.get("uid") or "",
            valid=valid,
            annotations={key: value for key, value in texts if isinstance(value, str)},
            version=str(metadata.get("resourceVersion") or ""),
        )

    def decide(self, ask: Ask, names: Names) -> Best | Told:
        """Return the best node, or why there is none; changes nothing."""
        self.refresh()
        question = question_of(ask, self._policies)
        if question is None or self.columns.rows.width > MOST_DEVICES:
            return self.scan(ask, names)
        return self._sift(ask, names, question)

    def scan(self, ask: Ask, names: Names) -> Best | Told:
        """Return the same by looking at every node exactly."""
        self.refresh()
        places = self._cluster.places
        listed = dict.fromkeys(names.listed())
        ranked = sorted(listed, key=self._tie_rank)
        found, told = self._scan(ask, ((name, places.get(name)) for name in ranked))
        return told if found is None else found

    def refresh(self) -> None:
        """Bring the columns up to date."""
        places = self._cluster.places
        for name in self._changed:
            place = places.get(name)
            self.columns.put(name, None if place is None else place.usage)
        self._changed.clear()

    def _note(self, place: Place) -> None:
        self._changed[place.name] = None

    def _tie_rank(self, name: str) -> int:
        column = self.columns.column(name)
        return len(self.columns) if column is None else column

    def _sift(self, ask: Ask, names: Names, question: Question) -> Best | Told:
        room = self._cluster.room(ask.namespace)
        candidates = Candidates(self.columns, question, room)
        mask = candidates.mask()
        if candidates.is_over_quota:
            mask[:] = False
        spreads = node_policy(ask, self._policies) == "spread"
        looks = Looks(partial(self._fit, ask, _or_endless(room)), self.columns, question)
        for column in best_first(candidates, mask, names, spreads=spreads):
            if (placement := looks.look(column)) is not None:
                return Best(placement)
        if not candidates.is_over_quota:
            doubtful = best_first(candidates, candidates.doubtful(mask), names, spreads=spreads)
            for column in islice(doubtful, _MOST_DOUBTS):
                if (placement := looks.look(column)) is not None:
                    log.error("node that fits was sifted out", node=placement.node)
                    return Best(placement)
        return self._told(names.listed(), candidates, looks.refused)

    def _fit(self, ask: Ask, room: QuotaRoom, column: int) -> Placement | Misfit:
        return fit_node(self.columns.usage(column), ask, self._config, self._policies, room)

    def _told(
        self, names: Sequence[str], candidates: Candidates, exact: Mapping[int, Said]
    ) -> Told:
        """Return why each of *names* does not take the pod."""
        codes, by_column = np.unique(codes_of(candidates), return_inverse=True)
        told = [self._texts.of(code) for code in codes.tolist()]
        closed = (~candidates.rows.is_open).nonzero()[0].tolist()
        alone = {column: self._closed(column) for column in closed} | dict(exact)
        if candidates.is_over_quota:
            by_column[candidates.mask()] = len(told)
            told.append(_OVER_QUOTA)
        for column, each in alone.items():
            by_column[column] = len(told)
            told.append(each)
        columns = self.columns.columns(names)
        which = np.append(by_column, -1)[columns]
        for position in (which < 0).nonzero()[0].tolist():
            which[position] = len(told)
            told.append(self._without_gpus(names[position]))
        return Told(names, which.tolist(), told)

    def _closed(self, column: int) -> Said:
        usage = self.columns.usages[column]
        return of_node(usage.blocked if usage and usage.blocked else NOT_REGISTERED)

    def _without_gpus(self, name: str) -> Said:
        place = self._cluster.places.get(name)
        refusal = NOT_REGISTERED if place is None else place.refusal()
        return of_node(refusal or Reason.TOO_FEW_DEVICES)

    def _scan(
        self, ask: Ask, places: Iterable[tuple[str, Place | None]]
    ) -> tuple[Best | None, Told]:
        """Look at *places* exactly; of equal ones the first is the best."""
        room = self._room(ask)
        best: Placement | None = None
        fitting, names, told = 0, list[str](), list[Said]()
        for name, place in places:
            found = self._look(ask, place, room)
            if isinstance(found, Said):
                names.append(name)
                told.append(found)
                continue
            fitting += 1
            if best is None or found.score > best.score:
                best = found
        refused = Told(names, range(len(told)), told)
        return None if best is None else Best(best, fitting), refused

    def _look(self, ask: Ask, place: Place | None, room: QuotaRoom) -> Placement | Said:
        refusal = NOT_REGISTERED if place is None else place.refusal()
        if refusal is not None or place is None or place.usage is None:
            return of_node(refusal or NOT_REGISTERED)
        found = fit_node(place.usage, ask, self._config, self._policies, room)
        return found if isinstance(found, Placement) else said(found)

    def _room(self, ask: Ask) -> QuotaRoom:
        return _or_endless(self._cluster.room(ask.namespace))

    def _empty_place(self, sent: SentNode) -> Place:
        node = WatchedNode(
            name=sent.name,
            uid="",
            resource_version="",
            annotations=sent.annotations,
            labels=sent.labels,
            capacity=sent.capacity,
            allocatable=sent.allocatable,
        )
        devices = registry.devices_of(node, self._cluster.backends)
        usage = fresh_usage(node, devices)
        return Place(name=sent.name, node=node, devices=devices, usage=usage)


_MOST_DOUBTS: Final = 200
"""Nodes that are looked at for the sake of a text; others get one by what GPUs have alone."""
_OVER_QUOTA: Final = of_node(Reason.QUOTA)


def _or_endless(room: Room) -> QuotaRoom:
    return ENDLESS if room.is_endless else room


def _chosen(best: Best, failed: Mapping[str, str] | None = None) -> Chosen:
    placement = best.placement
    return Chosen(
        node=placement.node,
        score=placement.score,
        fitting=best.fitting,
        words=tuple(placement.slots),
        failed=failed or {},
    )


def _unfit(told: Told) -> Unfit:
    return Unfit(failed=told.texts(), reasons=told.tokens())


def _rank(score: float, low: float, high: float) -> int:
    """Return 1 to 10 between the worst and the best score there is."""
    if high <= low:
        return _SCORE_MAX
    return 1 + round((_SCORE_MAX - 1) * (score - low) / (high - low))
