"""G10 and G17 for the device plugin, and what the monitor adds to a node that serves claims.

A hundred pods are placed as HAMi's scheduler does it, or have a claim each, and stay. Then nothing
happens for a minute: what the agent still asks the API server is scaled to an hour. Watches are
counted as they are open; each is renewed about ten times in an hour.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.bench.claims import GPU_FILE, GPUS, NAMESPACE, NODE
from tests.bench.figures import Goal, median, show
from tests.bench.kubelet import Kubelet as ClaimKubelet
from tests.bench.node import Node, start_agent
from tests.bench.processes import Process, running
from tests.bench.test_slices import WRITES, stored
from tests.fakes.api_server import serving
from tests.hami.plugin import placed
from tests.hami.plugin.kubelet import Kubelet as CardKubelet

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

_RUNS: Final = 5
_PODS: Final = 100
_IDLE_S: Final = 60
_SETTLED_S: Final = 8.0
"""What is said at most once in five seconds is said by then."""
_SCHEDULER_S: Final = 15
_HOUR_S: Final = 3600
_MODES: Final = {
    "device_plugin": ("--mode", "device-plugin"),
    "device_plugin_no_monitor": ("--mode", "device-plugin", "--no-monitor"),
    "device_plugin_colon": ("--mode", "device-plugin", "--register-format", "colon"),
    "dra": (),
    "dra_no_monitor": ("--no-monitor",),
}


class Scene:
    """An agent, its kubelet, and the server that it speaks to."""

    def __init__(self, node: Node, root: Path, cluster: placed.Cluster, agent: Process) -> None:
        self.server, self.agent = cluster.server, agent
        self._cluster = cluster
        self._node, self._root = node, root

    def serve_cards(self, stack: ExitStack) -> tuple[CardKubelet, float]:
        """Be a kubelet for the device plugin; return it, and when the plugin had registered."""
        kubelet = stack.enter_context(CardKubelet(self._root / "device-plugins"))
        kubelet.wait_registered()
        registered_s = time.monotonic()
        kubelet.wait_lists(1)
        return kubelet, registered_s

    def settled_rss_mb(self) -> float:
        """Return the agent's resident memory a moment later."""
        time.sleep(2)
        return self.agent.rss_mb()

    def fill_cards(self, kubelet: CardKubelet) -> None:
        """Have a hundred pods get a part of a GPU each."""
        for number in range(_PODS):
            uuid = self._node.gpu_uuids[number % GPUS]
            self._cluster.pod(f"pod-{number}", f"{uuid},NVIDIA,300,3:;")
            taken = kubelet.used
            free = (each for each in kubelet.healthy() if each not in taken)
            kubelet.allocate([next(each for each in free if each.startswith(uuid))])

    def fill_claims(self) -> None:
        """Prepare a hundred claims."""
        kubelet = ClaimKubelet(self._root / "plugins_registry")
        for number in range(_PODS):
            kubelet.prepare(stored(self._node, self.server, number))
        kubelet.close()

    def ask_for_life(self) -> None:
        """Ask as the schedulers of HAMi up to v2.7 do, every 15 seconds."""
        asked = f"Requesting_{time.strftime('%Y.%m.%d %H:%M:%S', time.gmtime())}"
        changes = {"hami.io/node-handshake": asked}
        self._cluster.annotate("nodes", placed.NODE, changes, namespace="")

    def requests(self) -> list[str]:
        """Return the verbs of the agent's requests so far."""
        records = self.server.call(lambda: self.server.server.requests)
        return [each.verb for each in records if each.user == "agent"]


@contextmanager
def scene(node: Node, root: Path, *flags: str) -> Iterator[Scene]:
    """Run an agent with *flags* and a server of its own."""
    node.gpu_file.write_text(GPU_FILE)
    kubeconfig = root.with_suffix(".kubeconfig")
    with serving() as server:
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        server.run(server.server.api.create("nodes", made))
        cluster = placed.Cluster(server)
        server.run(server.server.api.create("namespaces", {"metadata": {"name": NAMESPACE}}))
        server.call(server.server.write_kubeconfig, kubeconfig, "agent")
        config = root.with_suffix(".json")
        config.write_text('{"nodeconfig": [{"name": "*", "devicesplitcount": 20}]}')
        every = ["--kubeconfig", str(kubeconfig), *flags]
        if "device-plugin" in flags:
            every += ["--node-name", placed.NODE, "--node-config", str(config)]
        with running(start_agent(node, root, flags=every)) as agent:
            yield Scene(node, root, cluster, agent)


def test_start(node: Node, kubelet_roots: Path) -> None:
    """Print the time from the process' start until kubelet has registered the device plugin."""
    registered_s, cpu_s = [], []
    for run in range(_RUNS):
        with ExitStack() as stack:
            root = kubelet_roots / f"{run}"
            made = stack.enter_context(scene(node, root, *_MODES["device_plugin"]))
            _, at_s = made.serve_cards(stack)
            cpu_s.append(made.agent.cpu_s())
            registered_s.append(at_s - made.agent.started_s)
    goal = Goal(goal=0.4, floor=1)
    show("G17", "device_plugin_start_to_registered_s", median(registered_s), goal)
    show("G17", "device_plugin_start_to_registered_cpu_s", median(cpu_s))


def test_memory_and_idle(node: Node, kubelet_roots: Path) -> None:
    """Print resident memory at the start and with a hundred pods, and requests of an idle hour."""
    with ExitStack() as stack:
        scenes = dict[str, Scene]()
        for number, (name, flags) in enumerate(_MODES.items()):
            made = stack.enter_context(scene(node, kubelet_roots / f"m{number}", *flags))
            scenes[name] = made
            if name.startswith("device_plugin"):
                kubelet, _ = made.serve_cards(stack)
                rss_mb = made.settled_rss_mb()
                made.fill_cards(kubelet)
            else:
                made.agent.wait_line(lambda line: '"inventory read"' in line)
                rss_mb = made.settled_rss_mb()
                made.fill_claims()
            show("G17", f"{name}_rss_mb", rss_mb, Goal(goal=45, floor=60), note="started")
            note = f"with {_PODS} pods; {made.agent.threads()} threads"
            show("G17", f"{name}_rss_mb_in_use", made.agent.rss_mb(), note=note)
        time.sleep(_SETTLED_S)
        before = {name: made.requests() for name, made in scenes.items()}
        for _ in range(_IDLE_S // _SCHEDULER_S):
            scenes["device_plugin_colon"].ask_for_life()
            time.sleep(_SCHEDULER_S)
        for name, made in scenes.items():
            spent = made.requests()[len(before[name]) :]
            _show_idle(name, spent, watches=before[name].count("watch"))


def _show_idle(name: str, spent: list[str], *, watches: int) -> None:
    scaled = _HOUR_S / _IDLE_S
    writes = sum(verb in WRITES for verb in spent)
    reads = sum(verb in {"get", "list"} for verb in spent)
    wanted = "signs of life that a scheduler asks for" if name.endswith("colon") else ""
    show("G10", f"{name}_idle_writes_per_hour", writes * scaled, Goal(goal=0, floor=0), note=wanted)
    show("G10", f"{name}_idle_reads_per_hour", reads * scaled, Goal(goal=0, floor=120))
    show("G10", f"{name}_watches", watches, note="opened so far")
