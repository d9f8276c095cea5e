"""G18 and G10: what publishing costs the API server, counted in the simulated one's journal.

The agent speaks to it with a kubeconfig, over HTTP; times are from the moment at which the agent
has read the GPUs, as it logs, until a list shows the slice.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench.claims import GPU_FILE, GPUS, NAMESPACE, NODE, Claim
from tests.bench.figures import Goal, median, show
from tests.bench.kubelet import Kubelet
from tests.bench.node import Node, start_agent
from tests.bench.processes import Process, running
from tests.fakes.api_server import ServerThread, serving

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_RUNS: Final = 5
_IDLE_S: Final = 30
_HOUR_S: Final = 3600
_SETTLED_S: Final = 1.5
_WATCH_S: Final = 290 * 1.25
"""How long a watch lasts on average, by what the agent asks for."""
WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")
_READS: Final = ("get", "list")


def test_slices(node: Node, kubelet_roots: Path) -> None:
    """Print size, requests and times of publishing, of a change and of an idle hour."""
    published_s, changed_s = [], []
    for run in range(_RUNS):
        with published(node, kubelet_roots / str(run)) as scene:
            published_s.append(scene.shown_s - scene.agent.wait_line(_read(GPUS))[0])
            if run == 0:
                _show_size(scene.slices())
                with _in_use(node, kubelet_roots / str(run), scene):
                    time.sleep(_SETTLED_S)
                    _show_idle(scene)
            time.sleep(_SETTLED_S)
            changed_s.append(_change(node, scene, quiet=run > 0))
    goal = Goal(goal=0.2, floor=1)
    show("G18", "time_to_publish_s", median(published_s), goal, note=f"{_RUNS} starts")
    show("G18", "time_to_publish_change_s", median(changed_s), goal, note=f"{_RUNS} changes")


class Scene:
    """An agent and the server to which it has published."""

    def __init__(self, server: ServerThread, agent: Process) -> None:
        self.server = server
        self.agent = agent
        self.shown_s = self.wait_devices(GPUS)

    def slices(self) -> list[dict[str, Any]]:
        """Return all slices as they are stored."""
        items, _ = self.server.run(self.server.server.api.list("resourceslices"))
        return items

    def wait_devices(self, count: int, timeout_s: float = 30) -> float:
        """Return when the slices have *count* devices."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = [device for item in self.slices() for device in item["spec"]["devices"]]
            if len(found) == count:
                return time.monotonic()
            time.sleep(0.002)
        raise TimeoutError(self.agent.text())

    def requests(self) -> Counter[tuple[str, str]]:
        """Count the agent's requests so far by verb and resource; open watches included."""
        found: Counter[tuple[str, str]] = Counter()
        for each in self.server.call(lambda: self.server.server.requests):
            resource = next((word for word in _RESOURCES if word in each.path), "other")
            found[each.verb, resource] += 1
        return found


_RESOURCES: Final = ("resourceslices", "events", "pods", "nodes", "version")


@contextmanager
def published(node: Node, kubelet_root: Path, *more: str) -> Iterator[Scene]:
    """Run an agent, with *more* flags, that has published to a server of its own."""
    node.gpu_file.write_text(GPU_FILE)
    kubeconfig = kubelet_root.with_suffix(".kubeconfig")
    with serving() as server:
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        server.run(server.server.api.create("nodes", made))
        server.run(server.server.api.create("namespaces", {"metadata": {"name": NAMESPACE}}))
        server.call(server.server.write_kubeconfig, kubeconfig, "agent")
        flags = ["--kubeconfig", str(kubeconfig), "--scan-interval-s", "0.2"]
        # What happens rarely happens while it is idle here, too.
        flags += ["--sweep-interval-s", "5", "--restore-interval-s", "5", *more]
        with running(start_agent(node, kubelet_root, flags=flags)) as agent:
            yield Scene(server, agent)


@contextmanager
def _in_use(node: Node, kubelet_root: Path, scene: Scene) -> Iterator[None]:
    """Let pods use shares, as on a node that is idle only for the API server."""
    kubelet = Kubelet(kubelet_root / "plugins_registry")
    claims = [stored(node, scene.server, number) for number in range(GPUS)]
    for claim in claims:
        kubelet.prepare(claim)
    yield
    for claim in claims:
        kubelet.unprepare(claim)
    kubelet.close()


def stored(node: Node, server: ServerThread, number: int) -> Claim:
    """Store a claim with its allocation and the pod that uses it."""
    api = server.server.api
    claim = Claim(number, limited=True)
    body = json.loads(claim.body(node.gpu_uuids))
    body["metadata"] = {"name": claim.name}
    status = body.pop("status")
    pod = server.run(api.create("pods", _pod(claim), NAMESPACE))
    stored = server.run(api.create("resourceclaims", body, NAMESPACE))
    status["reservedFor"][0] |= {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    server.run(api.update("resourceclaims", stored | {"status": status}, subresource="status"))
    return replace(claim, given_uid=stored["metadata"]["uid"])


def _pod(claim: Claim) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "example.com/app",
        "resources": {"claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{claim.name}-pod"},
        "spec": {
            "nodeName": NODE,
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim.name}],
        },
    }


def _read(gpus: int) -> Callable[[str], bool]:
    return lambda line: '"inventory read"' in line and f'"gpus": {gpus},' in line


def _show_size(slices: list[dict[str, Any]]) -> None:
    size = sum(len(json.dumps(item, separators=(",", ":")).encode()) for item in slices)
    show("G18", "slice_objects", len(slices), Goal(goal=1, floor=1))
    show("G18", "slice_bytes", size, Goal(goal=4096, floor=6144), note=f"{GPUS} GPUs, JSON")


def _show_idle(scene: Scene) -> None:
    before = scene.requests()
    time.sleep(_IDLE_S)
    spent = scene.requests() - before
    writes, reads = _count(spent, WRITES), _count(spent, _READS)
    none = Goal(goal=0, floor=0)
    show("G18", "idle_writes", writes, none, note=f"in {_IDLE_S} s")
    show("G18", "idle_reads", reads, none, note=f"in {_IDLE_S} s, without watches")
    show("G10", "idle_writes_per_hour", writes * _HOUR_S / _IDLE_S, Goal(goal=0, floor=0))
    show("G10", "idle_reads_per_hour", reads * _HOUR_S / _IDLE_S, Goal(goal=0, floor=120))
    # Slices, pods and the Node.
    watches = 3 * _HOUR_S / _WATCH_S
    show("G10", "idle_watches_per_hour", watches, note="renewals of three watches, computed")


def _change(node: Node, scene: Scene, *, quiet: bool) -> float:
    """Take a GPU away; return the seconds from its being missed until the slice lacks it."""
    before = scene.requests()
    node.gpu_file.write_text(GPU_FILE.replace(f"count: {GPUS}", f"count: {GPUS - 1}"))
    shown_s = scene.wait_devices(GPUS - 1)
    read_s, _ = scene.agent.wait_line(_read(GPUS - 1))
    time.sleep(_SETTLED_S)
    spent = scene.requests() - before
    if not quiet:
        show("G18", "writes_per_change", _count(spent, WRITES), Goal(goal=1, floor=1))
        show("G18", "reads_per_change", _count(spent, _READS))
    return shown_s - read_s


def _count(requests: Counter[tuple[str, str]], verbs: tuple[str, ...]) -> int:
    return sum(count for (verb, _), count in requests.items() if verb in verbs)
