"""Let extenders narrow, score and bind, in kube-scheduler's order and with its rules.

An extender is asked only about pods that ask for what it manages, and only about nodes that all
before it have left. It may name no other node. One that can be ignored counts for nothing while it
fails; a failure of any other one ends the attempt. Scores are advice: an extender that fails to
give some is passed over (kubernetes: pkg/scheduler/{extender,schedule_one}.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from kube.objects import JsonObject
from sim.scheduler.extender_calls import ExtenderError, ask
from sim.scheduler.extender_calls import field as field_of
from sim.scheduler.extender_policy import ExtenderPolicy

log = structlog.get_logger(__name__)

_SCALE: Final = 10
"""An extender's highest score is 10, a plugin's 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The nodes that all extenders have left, and what they said of the others."""

    nodes: tuple[str, ...]
    refusals: Mapping[str, str] = field(default_factory=dict)
    unresolvable: frozenset[str] = frozenset()
    """Refused for reasons that no preemption would end."""


class Extenders:
    """The extenders of one scheduler, in the order of its configuration."""

    def __init__(self, policies: Sequence[ExtenderPolicy]) -> None:
        self._policies = tuple(policies)

    async def narrow(self, pod: JsonObject, nodes: Mapping[str, JsonObject]) -> Narrowed:
        """Ask which of *nodes*, by name, can run *pod*; raises `ExtenderError`."""
        left = dict(nodes)
        refusals: dict[str, str] = {}
        unresolvable: set[str] = set()
        for policy in self._interested(pod):
            if not left:
                break
            if not policy.filter_verb:
                continue
            try:
                answer = await ask(policy, policy.filter_verb, _question(policy, pod, left))
                kept = _kept(policy, answer, left)
                failed = _messages(answer, "FailedNodes")
                for_good = _messages(answer, "FailedAndUnresolvableNodes")
            except ExtenderError as error:
                if not policy.ignorable:
                    raise
                log.info("extender skipped", url=policy.url_prefix, error=str(error))
                continue
            unresolvable.update(for_good)
            refusals.update({**failed, **for_good})
            left = {name: left[name] for name in kept}
        return Narrowed(nodes=tuple(left), refusals=refusals, unresolvable=frozenset(unresolvable))

    async def scores(self, pod: JsonObject, nodes: Mapping[str, JsonObject]) -> dict[str, int]:
        """Return the sum of what the extenders think of each of *nodes*, on a plugin's scale."""
        total = dict.fromkeys(nodes, 0)
        for policy in self._interested(pod):
            if not policy.prioritize_verb:
                continue
            try:
                answer = await ask(policy, policy.prioritize_verb, _question(policy, pod, nodes))
                given = _scores(answer)
            except ExtenderError as error:
                log.info("extender gave no scores", url=policy.url_prefix, error=str(error))
                continue
            for name, score in given:
                if name in total:
                    total[name] += score * policy.weight * _SCALE
        return total

    def binds(self, pod: JsonObject) -> bool:
        """Tell whether an extender binds *pod*, and not the scheduler."""
        return any(policy.bind_verb for policy in self._interested(pod))

    async def bind(self, pod: JsonObject, node: str) -> bool:
        """Let the extender bind *pod*; False if it failed and can be ignored.

        Raises `ExtenderError`.
        """
        metadata = pod["metadata"]
        said = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        for policy in self._interested(pod):
            if not policy.bind_verb:
                continue
            try:
                _raise_told(await ask(policy, policy.bind_verb, said))
            except ExtenderError as error:
                if not policy.ignorable:
                    raise
                log.info("extender skipped in bind", url=policy.url_prefix, error=str(error))
                continue
            return True
        return False

    def _interested(self, pod: JsonObject) -> Iterable[ExtenderPolicy]:
        return (policy for policy in self._policies if policy.is_interested(pod))


def _question(
    policy: ExtenderPolicy, pod: JsonObject, nodes: Mapping[str, JsonObject]
) -> JsonObject:
    if policy.node_cache_capable:
        return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
    items = {"metadata": {}, "items": list(nodes.values())}
    return {"Pod": pod, "Nodes": items, "NodeNames": None}


def _kept(policy: ExtenderPolicy, answer: Any, asked: Mapping[str, JsonObject]) -> list[str]:
    """Return the names in *answer*; neither names nor nodes is no node."""
    _raise_told(answer)
    names = field_of(answer, "NodeNames") if policy.node_cache_capable else None
    if names is None:
        nodes = field_of(answer, "Nodes")
        items = (field_of(nodes, "items") or ()) if nodes is not None else ()
        names = [(item.get("metadata") or {}).get("name") for item in items]
    for name in names:
        if name not in asked:
            message = (
                f'extender "{policy.url_prefix}" claims a filtered node "{name}"'
                " which is not found in the input node list"
            )
            raise ExtenderError(message)
    return list(names)


def _raise_told(answer: Any) -> None:
    told = field_of(answer, "Error")
    if told:
        raise ExtenderError(str(told))


def _messages(answer: Any, name: str) -> dict[str, str]:
    said = field_of(answer, name) or {}
    if not isinstance(said, dict):
        message = f"an extender's {name} are no map"
        raise ExtenderError(message)
    return {node: str(text) for node, text in said.items()}


def _scores(answer: Any) -> list[tuple[str, int]]:
    if not isinstance(answer, list):
        message = "an extender's scores are no list"
        raise ExtenderError(message)
    given = [(field_of(each, "Host"), field_of(each, "Score") or 0) for each in answer]
    if not all(isinstance(host, str) and isinstance(score, int) for host, score in given):
        message = "an extender's scores are no numbers"
        raise ExtenderError(message)
    return given
