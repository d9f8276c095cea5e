"""Plays a scenario on a program over HTTP, and a device plugin that gives locks back."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from kube.client import MERGE_PATCH, Client
from kube.paths import namespaces, nodes, pods, resource
from tests.extender.backends.cases import Json, Scenario, Step
from tests.patience import eventually

NODE: Final = "hami.io/vgpu-node"
PREFIX: Final = "@"
"""What the names of nodes begin with, in annotations of cases."""
_PATTERNS: Final = {"#s": r"\d{10}", "#ns": r"\d{19}"}
"""What stands for times in seconds and in nanoseconds."""
_ALWAYS: Final = {
    "hami.io/vgpu-time": "#s",
    "hami.io/bind-time": "#s",
    "hami.io/bind-phase": "allocating",
}
_LOCKS: Final = {
    "hami.io/mutex.lock": r"\d{4}-\d\d-\d\dT[0-9:]{8}Z,{namespace},{pod}",
    "cambricon.com/dsmlu.lock": r"\d{4}-\d\d-\d\dT[0-9:]{8}(?:Z|[+-]\d\d:\d\d)",
}


class Program(Protocol):
    """A program that answers."""

    def ask(self, path: str, body: bytes) -> bytes:
        """Return the answer to a question."""


class Play:
    """One scenario on an API server; names begin with *prefix*, so that none meets another."""

    def __init__(self, scenario: Scenario, client: Client, prefix: str) -> None:
        self._scenario, self._client, self._prefix = scenario, client, prefix
        self._namespace = f"{prefix}team"
        self._names = [prefix + node["metadata"]["name"] for node in scenario.nodes]
        self._number = 0

    def set(self) -> None:
        """Make the nodes and the quota."""
        self._client.create(namespaces(), {"metadata": {"name": self._namespace}})
        for node, name in zip(self._scenario.nodes, self._names, strict=True):
            metadata = {**node["metadata"], "name": name}
            self._client.create(nodes(), {**node, "metadata": metadata})
        if self._scenario.quota:
            quota = {"metadata": {"name": "quota"}, "spec": {"hard": dict(self._scenario.quota)}}
            path = resource("v1", "resourcequotas", namespace=self._namespace)
            self._client.create(path, quota)

    def run(self, steps: Sequence[Step], program: Program) -> None:
        """Play *steps*; `AssertionError` at the first that is otherwise."""
        for step in steps:
            try:
                self._play(step, program)
            except AssertionError as error:
                error.add_note(f"{self._scenario}: {step}")
                raise

    def _play(self, step: Step, program: Program) -> None:
        pod = self._pod(step)
        question = {"Pod": pod, "Nodes": None, "NodeNames": self._names}
        body = json.dumps(question).encode()
        wrong = [""]

        def as_told() -> bool:
            """Let the answer be as told once the watches have told of all."""
            wrong[0] = self._judged(step, json.loads(program.ask("/filter", body)))
            return not wrong[0]

        try:
            eventually(as_told)
        except AssertionError as error:
            raise AssertionError(wrong[0]) from error
        if step.gets is not None:
            self._bind(step, pod, program)

    def _judged(self, step: Step, answer: Json) -> str:
        """Return what is wrong with *answer*."""
        if step.error or answer["Error"]:
            is_right = bool(step.error) and step.error in answer["Error"]
            return "" if is_right else f"the error is {answer['Error']!r}"
        chosen = [name.removeprefix(self._prefix) for name in answer["NodeNames"] or ()]
        failed = {**(answer["FailedNodes"] or {}), **(answer["FailedAndUnresolvableNodes"] or {})}
        told = {name.removeprefix(self._prefix): text for name, text in failed.items()}
        wanted = [] if step.gets is None else [step.on]
        if chosen != wanted or told != dict(step.refused):
            return f"chosen {chosen}, refused {told}"
        return ""

    def _bind(self, step: Step, pod: Json, program: Program) -> None:
        metadata = pod["metadata"]
        name, node = metadata["name"], self._prefix + step.on
        said = {
            "PodName": name,
            "PodNamespace": self._namespace,
            "PodUID": metadata["uid"],
            "Node": node,
        }
        body = json.dumps(said).encode()
        answers = [""]

        def known() -> bool:
            """Let the program know the pod."""
            answers[0] = json.loads(program.ask("/bind", body))["Error"]
            return "not found" not in answers[0]

        eventually(known)
        assert not answers[0]
        bound = json.loads(self._client.get(pods(self._namespace, name)))
        assert bound["spec"]["nodeName"] == node
        assert bound["metadata"]["labels"][NODE] == node
        self._compare(step, bound["metadata"]["annotations"])
        self._hand_out(node, name)

    def _compare(self, step: Step, annotations: Mapping[str, str]) -> None:
        """Hold all annotations to what is told, so that none is too many."""
        written = {
            key: text.replace(self._prefix, "")
            for key, text in annotations.items()
            if key not in step.notes
        }
        wanted = {
            NODE: step.on,
            **_ALWAYS,
            **dict.fromkeys(self._scenario.keys, step.gets or ""),
            **step.also,
        }
        for key, pattern in wanted.items():
            if pattern in _PATTERNS and re.fullmatch(_PATTERNS[pattern], written.get(key, "")):
                written[key] = pattern
        assert written == wanted

    def _hand_out(self, node: str, pod: str) -> None:
        """Give the lock back as a device plugin does; there must be the vendor's and no other."""
        annotations = json.loads(self._client.get(nodes(node)))["metadata"].get("annotations", {})
        held = {key: annotations[key] for key in _LOCKS if key in annotations}
        lock = self._scenario.lock
        assert list(held) == ([lock] if lock else [])
        if lock:
            pattern = _LOCKS[lock].replace("{namespace}", self._namespace).replace("{pod}", pod)
            assert re.fullmatch(pattern, held[lock]), held
            patch = {"metadata": {"annotations": {lock: None}}}
            self._client.patch(nodes(node), patch, content_type=MERGE_PATCH)

    def _pod(self, step: Step) -> Json:
        self._number += 1
        spec: Json = {"containers": _containers("c", step.containers)}
        if step.init:
            spec["initContainers"] = _containers("i", step.init)
        # Devices that follow from capacity have the node's name in theirs.
        notes = {key: text.replace(PREFIX, self._prefix) for key, text in step.notes.items()}
        metadata = {"name": f"p{self._number}", "annotations": notes}
        pod = {"metadata": metadata, "spec": {**spec, "schedulerName": "hami-scheduler"}}
        made: Json = json.loads(self._client.create(pods(self._namespace), pod))
        return made


def _containers(letter: str, asked: Sequence[Mapping[str, Any]]) -> list[Json]:
    return [
        {"name": f"{letter}{index}", "image": "none", "resources": {"limits": dict(amounts)}}
        for index, amounts in enumerate(asked)
    ]
