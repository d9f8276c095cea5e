"""Play cases one after the other and take down what the scheduler answers.

Each is played twice on the same slices, with a new pod and new claims, and more often where there
is a choice of nodes. When the answers differ it is played again, with more patience: if later ones
agree, the first had come before the scheduler knew all; else the scheduler's own order is random,
and the answer is any of them.
"""

import json
import time
from typing import Final

from kube.client import Client
from tests.cluster.vectors.answers import Answer, placed, refused
from tests.cluster.vectors.stage import PATIENCE_S, RejectedError, Stage
from tests.sim.scheduler.vector import Json, Vector

SETTLE_S: Final = 0.15
_SLOW_S: Final = 1.0
_POLL_S: Final = 0.02
_WAITING_S: Final = 1.0
"""How long a pod may have devices and no node before its binding is said to wait."""
_TWICE: Final = 2
_TRIES_OF_NODES: Final = 8
"""Equal nodes are drawn by lot, which must show."""
_TRIES: Final = 8
_TRIES_OF_TAINTS: Final = 3
_TAINTED: Final = "untolerated taint"
_BINDING_S: Final = 6.0
"""A scheduler looks every 5 s whether a pod that waits for its binding is gone."""


class Player:
    """Plays on one cluster."""

    def __init__(self, client: Client, minor: str) -> None:
        self._stage = Stage(client, minor)
        self._release = client.server_version()
        self._stage.prepare()
        self._stage.clear()

    def play(self, vector: Vector) -> Answer:
        """Return the answer to *vector* with the release that gave it.

        A controller that has seen no sign of life of a new node may taint it for as long as the
        case lasts; that says nothing of devices, and the case is set again.
        """
        answer = self._play_once(vector)
        for _ in range(_TRIES_OF_TAINTS):
            if _TAINTED not in str(answer.get("message", "")) or _has_taints(vector):
                break
            answer = self._play_once(vector)
        return {"version": self._release, **answer}

    def _play_once(self, vector: Vector) -> Answer:
        try:
            return self._play(vector)
        except RejectedError as error:
            return error.answer
        finally:
            self._stage.clear()

    def _play(self, vector: Vector) -> Answer:
        self._stage.furnish(vector)
        tries = _TWICE if len(vector.nodes) == 1 else _TRIES_OF_NODES
        answers = [self._once(vector, SETTLE_S) for _ in range(tries)]
        if all(same(answers[0], each) for each in answers):
            return answers[0]
        later = [self._once(vector, _SLOW_S) for _ in range(_TRIES)]
        different: list[Answer] = []
        for answer in later:
            if not any(same(answer, known) for known in different):
                different.append(answer)
        different.sort(key=json.dumps)
        return different[0] if len(different) == 1 else {"any_of": different}

    def _once(self, vector: Vector, settle_s: float) -> Answer:
        time.sleep(settle_s)
        self._stage.enter(vector)
        try:
            return self._answer(vector)
        finally:
            self._stage.leave(vector)
            if vector.waits_for_binding:
                time.sleep(_BINDING_S)

    def _answer(self, vector: Vector) -> Answer:
        deadline_s = time.monotonic() + PATIENCE_S
        has_devices_s: float | None = None
        while time.monotonic() < deadline_s:
            pod = self._stage.pod(vector)
            condition = _scheduled(pod)
            if condition.get("status") == "False":
                return refused(condition)
            node = pod["spec"].get("nodeName")
            allocations = self._stage.allocations(vector)
            found = [each for each in allocations if each is not None]
            if len(found) == len(allocations):
                has_devices_s = has_devices_s or time.monotonic()
                if node or time.monotonic() - has_devices_s > _WAITING_S:
                    extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
                    return placed(node, found, extended.get("requestMappings", ()))
            time.sleep(_POLL_S)
        message = f"{vector.name}: the scheduler says nothing"
        raise AssertionError(message)


def _has_taints(vector: Vector) -> bool:
    """Tell whether the case itself taints nodes."""
    return any((node.get("spec") or {}).get("taints") for node in vector.nodes)


def same(one: Answer, other: Answer) -> bool:
    """Tell whether two answers are the same, words apart."""
    return _without_words(one) == _without_words(other)


def _without_words(answer: Answer) -> Json:
    return {key: value for key, value in answer.items() if key not in {"message", "version"}}


def _scheduled(pod: Json) -> Json:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((it for it in conditions if it["type"] == "PodScheduled"), {})
