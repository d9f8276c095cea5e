"""A small cluster that the extender serves over HTTP: users, nodes, a scheduler's questions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kube.client import MERGE_PATCH
from kube.paths import nodes, pods
from sim.apiserver.errors import StatusError
from tests.extender.recorded_served import Host, Served
from tests.extender.statemachine import REGISTER, container, gpu
from tests.fakes.api_server import serving
from tests.patience import eventually

Json = dict[str, Any]

LOCK: Final = "hami.io/mutex.lock"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
NODE: Final = "hami.io/vgpu-node"
PHASE: Final = "hami.io/bind-phase"
_NAMESPACE: Final = "default"


class Play:
    """What happens in the cluster, one thing after the other."""

    def __init__(self, host: Host, **options: Any) -> None:
        self._host, self._options = host, options
        self.extender = Served(host, node_lock=True, **options)
        self.client = self.extender.client

    def close(self) -> None:
        """End the extender."""
        self.extender.close()

    def restart(self) -> None:
        """End the extender, and start another."""
        self.extender.close()
        self.extender = Served(self._host, node_lock=True, **self._options)
        self.client = self.extender.client

    def clear(self) -> None:
        """Have everything gone."""
        api = self._host.server.api
        for item in json.loads(self.client.get(pods(_NAMESPACE)))["items"]:
            self._host.run(
                api.delete("pods", item["metadata"]["name"], _NAMESPACE, grace_period_s=0)
            )
        there = [item["metadata"]["name"] for item in json.loads(self.client.get(nodes()))["items"]]
        for name in there:
            self.client.delete(nodes(name))
        eventually(lambda: not any(map(self.knows, there)))

    # Nodes

    def add_node(self, name: str, *uuids: str, slots: int = 10, **gpu_facts: Any) -> None:
        """Create a node that registers GPUs, each with so many slots of its own."""
        devices = [gpu(uuid, index=index, **gpu_facts) for index, uuid in enumerate(uuids)]
        there = {"nvidia.com/gpu": str(slots * len(uuids)), "cpu": "64", "pods": "100"}
        item = {
            "metadata": {"name": name, "annotations": {REGISTER: json.dumps(devices)}},
            "status": {"capacity": there, "allocatable": there},
        }
        self.client.create(nodes(), item)
        eventually(lambda: self.knows(name) or not uuids)

    def knows(self, node: str) -> bool:
        """Tell whether the extender sees devices of a node."""
        return f'node="{node}"' in self.extender.metrics()

    def change_node(self, name: str, **annotations: str | None) -> None:
        """Write annotations of a node: `register` and `lock`."""
        names = {"register": REGISTER, "lock": LOCK}
        body = {"metadata": {"annotations": {names[key]: it for key, it in annotations.items()}}}
        self.client.patch(nodes(name), body, content_type=MERGE_PATCH)

    def register(self, name: str, uuids: Sequence[str], **gpu_facts: Any) -> None:
        """Have a node register other GPUs."""
        devices = [gpu(uuid, index=index, **gpu_facts) for index, uuid in enumerate(uuids)]
        self.change_node(name, register=json.dumps(devices))

    def offer(self, name: str, count: int) -> None:
        """Have kubelet say how many it can hand out."""
        body = {"status": {"allocatable": {"nvidia.com/gpu": str(count)}}}
        self.client.patch(f"{nodes(name)}/status", body, content_type=MERGE_PATCH)

    def drop_node(self, name: str) -> None:
        """Delete a node."""
        self.client.delete(nodes(name))

    def lock(self, node: str) -> str:
        """Return the lock of a node, empty where there is none."""
        metadata = json.loads(self.client.get(nodes(node)))["metadata"]
        return (metadata.get("annotations") or {}).get(LOCK) or ""

    # Pods

    def add_pod(
        self,
        name: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        **limits: int,
    ) -> Json:
        """Create a pod as any user may where no webhook is asked."""
        item = {
            "metadata": {
                "name": name,
                "annotations": dict(annotations or {}),
                "labels": dict(labels or {}),
            },
            "spec": {"containers": [container("main", **limits) | {"image": "i"}], **(spec or {})},
        }
        made: Json = json.loads(self.client.create(pods(_NAMESPACE), item))
        return made

    def pod(self, name: str) -> Json:
        """Return a pod."""
        found: Json = json.loads(self.client.get(pods(_NAMESPACE, name)))
        return found

    def annotations(self, name: str) -> dict[str, str]:
        """Return the annotations of a pod."""
        return self.pod(name)["metadata"].get("annotations") or {}

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change annotations of a pod as its user may."""
        body = {"metadata": {"annotations": dict(annotations)}}
        self.client.patch(pods(_NAMESPACE, name), body, content_type=MERGE_PATCH)

    def say(self, name: str, phase: str) -> None:
        """Have kubelet say what has become of a pod."""
        path = f"{pods(_NAMESPACE, name)}/status"
        self.client.patch(path, {"status": {"phase": phase}}, content_type=MERGE_PATCH)

    def drop_pod(self, name: str) -> None:
        """Delete a pod at once."""
        api = self._host.server.api
        try:
            self._host.run(api.delete("pods", name, _NAMESPACE, grace_period_s=0))
        except StatusError:
            return

    def hand_out(self, name: str) -> None:
        """Do what a device plugin does for a pod that starts, and have it run."""
        node = self.pod(name)["spec"]["nodeName"]
        assert self.lock(node).endswith(f",{_NAMESPACE},{name}")
        self.annotate(name, {TO_ALLOCATE: ";", PHASE: "success"})
        self.change_node(node, lock=None)
        self.say(name, "Running")

    # The scheduler

    def filter(self, name: str, *names: str) -> str | Json:
        """Return the node for a pod, or the whole answer where there is none."""
        body = {"Pod": self.pod(name), "NodeNames": list(names)}
        answer: Json = json.loads(self.extender.ask("/filter", json.dumps(body).encode()))
        chosen = answer.get("NodeNames")
        return chosen[0] if chosen else answer

    def bind(self, name: str, node: str) -> str:
        """Return the error of binding a pod, empty where there is none."""
        body = {
            "PodName": name,
            "PodNamespace": _NAMESPACE,
            "PodUID": self.pod(name)["metadata"]["uid"],
            "Node": node,
        }
        answer = json.loads(self.extender.ask("/bind", json.dumps(body).encode()))
        return str(answer["Error"])

    def schedule(self, name: str, *names: str) -> str:
        """Have a pod placed and bound, and return its node, or why it has none."""
        found = self.filter(name, *names)
        if isinstance(found, dict):
            return json.dumps(found)
        return self.bind(name, found) or found

    def fits(self, name: str, *names: str) -> bool:
        """Tell whether a pod has a place; what that reserves is given up at once."""
        found = self.filter(name, *names)
        self.filter(name, "no-such-node")
        return isinstance(found, str)


@contextmanager
def playing(**options: Any) -> Iterator[Play]:
    """Run a cluster."""
    with serving("1.34") as host:
        play = Play(host, **options)
        try:
            yield play
        finally:
            play.close()
