"""Cases of what HAMi's scheduler was seen to answer, and how to play them on an extender.

A file of `vectors/` has nodes, and scenarios whose steps come one after another on fresh nodes. A
step with a pod asks `/filter`, and binds where a node was chosen, since only then is anything
written. `differs` names what HAMi does otherwise, with its own result under `hami`, which nothing
is held to.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from tests.patience import eventually

Json = dict[str, Any]
Amounts = dict[str, tuple[int, int, int]]
"""By UUID: slots, MiB, cores."""

FOLDER: Final = Path(__file__).parent / "vectors"
ANY: Final = "..."
_DIFFERENCES: Final = "differences.yaml"
_KEYS: Final = {
    "NVIDIA": ("hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"),
    "MLU": ("hami.io/cambricon-mlu-devices-to-allocate", "hami.io/cambricon-mlu-devices-allocated"),
}
"""By common word: what a device plugin reads and empties, and what stays."""
_NODE_KEY: Final = "hami.io/vgpu-node"
_EVENTS: Final = ("finish", "initialised", "delete", "annotate", "bound")


class Driver(Protocol):
    """An extender with a cluster before it."""

    prefix: str
    """What names of nodes and namespaces begin with, so that scenarios do not meet."""
    patience_s: float
    """How long it may take to see what has changed; 0 where it is told at once."""

    def put_node(self, node: Json) -> None:
        """Make or replace a node."""

    def put_quota(self, quota: Json) -> None:
        """Make a ResourceQuota."""

    def put_pod(self, pod: Json) -> Json:
        """Make or replace a pod with its status, and return it as stored, with a UID."""

    def drop_pod(self, pod: Json) -> None:
        """Delete a pod."""

    def filter(self, body: bytes) -> bytes:
        """Return the answer to a question."""

    def bind(self, pod: Json, node: str) -> Json:
        """Bind and return the pod's metadata as written; `AssertionError` where that fails."""

    def used(self, node: str) -> Amounts:
        """Return what is taken of the devices of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One sequence of steps."""

    file: str
    name: str
    nodes: tuple[Json, ...]
    steps: tuple[Json, ...]
    quota: Mapping[str, str] = field(default_factory=dict)
    is_storable: bool = True
    """An API server takes its pods."""

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def scenarios() -> Iterator[Scenario]:
    """Yield all scenarios of all files."""
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name == _DIFFERENCES:
            continue
        said = yaml.safe_load(path.read_text())
        for each in said["scenarios"]:
            yield Scenario(
                file=path.stem,
                name=each["name"],
                nodes=tuple(said["nodes"]),
                steps=tuple(each["steps"]),
                quota=each.get("quota") or {},
                is_storable=each.get("storable", True),
            )


def differences() -> dict[str, str]:
    """Return what HAMi does otherwise, by the word that steps use."""
    found: dict[str, str] = yaml.safe_load((FOLDER / _DIFFERENCES).read_text())
    return found


class Play:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, driver: Driver) -> None:
        self._scenario, self._driver = scenario, driver
        self._pods: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}

    def run(self) -> None:
        """Play all steps; `AssertionError` at the first that is otherwise."""
        for said in self._scenario.nodes:
            self._put_node(_node(said))
        if self._scenario.quota:
            metadata = {"name": "gpus", "namespace": self._namespace}
            self._driver.put_quota({"metadata": metadata, "spec": {"hard": self._scenario.quota}})
        for number, step in enumerate(self._scenario.steps):
            try:
                self._play(step)
            except AssertionError as error:
                error.add_note(f"step {number} of {self._scenario}: {step}")
                raise

    @property
    def _namespace(self) -> str:
        return f"{self._driver.prefix}team"

    def _play(self, step: Json) -> None:
        if "used" in step:
            wanted = {uuid: tuple(amounts) for uuid, amounts in step["amounts"].items()}
            self._hold(lambda: _compared(self._used(step["used"]), wanted))
        elif "pod" in step:
            self._ask(step)
        else:
            (event,) = (event for event in _EVENTS if event in step)
            getattr(self, f"_{event}")(step)

    def _used(self, node: str) -> Amounts:
        return self._driver.used(self._driver.prefix + node)

    def _hold(self, check: "Check") -> None:
        """Let *check* pass within the driver's patience; it returns what is wrong."""
        if not self._driver.patience_s:
            found = check()
            assert not found, found
            return
        wrong: list[str] = []

        def right() -> bool:
            wrong[:] = [check()]
            return not wrong[0]

        try:
            eventually(right, self._driver.patience_s)
        except AssertionError as error:
            raise AssertionError(wrong[0]) from error

    def _ask(self, step: Json) -> None:
        pod = self._pod(step["pod"])
        names = step.get("names") or list(self._nodes)
        body = self._question(step, pod, names)

        def check() -> str:
            text = self._driver.filter(body).decode().replace(self._driver.prefix, "")
            return _judged(step, names, text)

        self._hold(check)
        if step.get("devices"):
            node = step.get("node") or json.loads(step["text"])["NodeNames"][0]
            self._bind(pod, node, step)
        elif step.get("node") and step.get("bind", True) and step.get("form") != "nodes":
            raise AssertionError("a case must say what is written")

    def _bind(self, pod: Json, node: str, step: Json) -> None:
        prefix = self._driver.prefix
        metadata = self._driver.bind(pod, prefix + node)
        labels = metadata.get("labels") or {}
        assert labels.get(_NODE_KEY) == prefix + node
        written = {
            key: text.replace(prefix, "") if prefix else text
            for key, text in metadata["annotations"].items()
        }
        wanted = {_NODE_KEY: node, **(step.get("annotations") or {})}
        for word, text in step["devices"].items():
            wanted |= dict.fromkeys(_KEYS[word], text)
        assert {key: written.get(key) for key in wanted} == wanted

    def _question(self, step: Json, pod: Json, names: list[str]) -> bytes:
        prefixed = [self._driver.prefix + name for name in names]
        if step.get("form") != "nodes":
            return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": prefixed}).encode()
        # Callers that are no Go programs write keys as they like.
        items = [self._nodes[name] for name in names]
        return json.dumps({"pod": pod, "nodes": {"items": items}, "nodenames": None}).encode()

    def _pod(self, said: Json) -> Json:
        known = self._pods.get(said["name"])
        if known is None:
            known = self._driver.put_pod(_pod(said, self._namespace))
            self._pods[said["name"]] = known
        return known

    def _put_node(self, node: Json) -> None:
        name = node["metadata"]["name"]
        metadata = {**node["metadata"], "name": self._driver.prefix + name}
        self._nodes[name] = {**node, "metadata": metadata}
        self._driver.put_node(self._nodes[name])

    def _change(self, name: str, status: Json) -> None:
        self._pods[name] = self._driver.put_pod({**self._pods[name], "status": status})

    def _finish(self, step: Json) -> None:
        self._change(step["finish"], {"phase": "Succeeded"})

    def _initialised(self, step: Json) -> None:
        containers = self._pods[step["initialised"]]["spec"]["initContainers"]
        ended = {
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
            "image": "none",
            "imageID": "none",
            "ready": True,
            "restartCount": 0,
        }
        statuses = [{"name": each["name"], **ended} for each in containers]
        status = {"phase": "Running", "initContainerStatuses": statuses}
        self._change(step["initialised"], status)

    def _delete(self, step: Json) -> None:
        self._driver.drop_pod(self._pods.pop(step["delete"]))

    def _annotate(self, step: Json) -> None:
        node = self._nodes[step["annotate"]]
        annotations = {**node["metadata"]["annotations"], **step["annotations"]}
        changed = {**node, "metadata": {**node["metadata"], "annotations": annotations}}
        self._nodes[step["annotate"]] = changed
        self._driver.put_node(changed)

    def _bound(self, step: Json) -> None:
        prefix = self._driver.prefix
        pod = _pod(step["bound"], self._namespace)
        pod["metadata"]["annotations"] = {**step["annotations"], _NODE_KEY: prefix + step["node"]}
        pod["spec"]["nodeName"] = prefix + step["node"]
        pod["status"] = {"phase": "Running"}
        self._pods[step["bound"]["name"]] = self._driver.put_pod(pod)


class Check(Protocol):
    """Returns what is wrong, empty when all is right."""

    def __call__(self) -> str:
        """Look."""


def _judged(step: Json, names: list[str], text: str) -> str:
    """Return what of the answer *text* is not as *step* says."""
    if "text" in step:
        return _compared(text, step["text"])
    answer = json.loads(text)
    refused = {**(answer["FailedNodes"] or {}), **(answer["FailedAndUnresolvableNodes"] or {})}
    if "error" in step:
        return "" if step["error"] in answer["Error"] else f"no such error: {text}"
    if answer["Error"]:
        return f"an error: {answer['Error']}"
    sent = step.get("form") == "nodes"
    items = (answer["Nodes"] or {}).get("items") or []
    found = [each["metadata"]["name"] for each in items] if sent else answer["NodeNames"] or []
    wanted = list(names) if step.get("passed") else [step["node"]] if "node" in step else []
    return _compared(found, wanted) or _refusals(refused, step.get("failed") or {})


def _refusals(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    told = {name: ANY if text and wanted.get(name) == ANY else text for name, text in found.items()}
    return _compared(told, dict(wanted))


def _compared(found: object, wanted: object) -> str:
    return "" if found == wanted else f"{found} instead of {wanted}"


def _node(said: Json) -> Json:
    """Return a node of a file in full."""
    registers = {
        key: json.dumps(devices, separators=(",", ":"))
        for key, devices in (said.get("register") or {}).items()
    }
    annotations = {**(said.get("annotations") or {}), **registers}
    allocatable = said.get("allocatable") or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": said["name"], "annotations": annotations},
        "status": {
            "capacity": {"cpu": "64", **allocatable, **(said.get("capacity") or {})},
            "allocatable": {"cpu": "64", **allocatable, **(said.get("capacity") or {})},
        },
    }


def _pod(said: Json, namespace: str) -> Json:
    """Return a pod of a file in full."""
    spec: Json = {
        "containers": [
            _container(f"c{index}", each) for index, each in enumerate(said["containers"])
        ],
        "schedulerName": "hami-scheduler",
    }
    if "init" in said:
        spec["initContainers"] = [
            _container(f"i{index}", each) for index, each in enumerate(said["init"])
        ]
    annotations = dict(said.get("annotations") or {})
    metadata = {"name": said["name"], "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(name: str, asked: Json) -> Json:
    sides = {"requests": asked["requests"]} if "requests" in asked else {"limits": asked}
    resources = {side: _amounts(amounts) for side, amounts in sides.items() if amounts}
    return {"name": name, "image": "none", "resources": resources}


def _amounts(said: Json) -> Json:
    return {key if "/" in key else f"nvidia.com/{key}": str(amount) for key, amount in said.items()}
