"""The node with a kubelet served by the device plugin instead of claims, for one scene.

The scene's pods go through the extender and the scheduler beside it, as a user's would, with real
kubelet and containerd at the end. When the scene is over nothing of the device plugin may be left,
and the node serves claims again.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from cdi.cardspec import CardSpecStore
from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import in_cluster_config
from kube.errors import ConflictError, ForbiddenError
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.driver import MANIFESTS, Driver, collection_of
from tests.cluster.scenes.expectations import (
    LIBRARY,
    MINORS,
    PRIVATE_REGION,
    REGION_BYTES,
    expect_nothing_limited,
    nodes_of,
)
from tests.cluster.scenes.extenders import LOCK, PHASE, REGISTER, SCHEDULER
from tests.cluster.scenes.manifests import Object, reporting
from tests.cluster.scenes.report import ContainerReport
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

RESOURCE: Final = "nvidia.com/gpu"
DRY_RUN: Final = {"dryRun": "All"}
KUBELET_S: Final = 90.0
"""For what kubelet does at its own pace: it says every few seconds what its node has."""
_MODE: Final = {"--mode": "device-plugin", "--monitor-interval-s": 1}
_RIGHTS: Final = MANIFESTS / "hami" / "node-agent" / "rbac-device-plugin.yaml"
_ALLOCATION: Final = "gpuslice_gpu_allocation_info{"
_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_CARD_SPEC: Final = CardSpecStore(Path()).path.name


class Cards:
    """The node while it serves the device plugin."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.driver: Driver = stage.driver
        self.client: Client = stage.client
        self.node = stage.node
        self._flags: Mapping[str, object] = _MODE

    def serve(self, flags: Mapping[str, object] | None = None) -> None:
        """End the agent, start one that serves the device plugin, and wait until kubelet has it."""
        self.start(_MODE | dict(flags or {}))
        self.eventually_offered()

    def start(self, flags: Mapping[str, object]) -> None:
        """End the agent, and start one with *flags*."""
        if self.driver.first.running():
            self.driver.first.terminate()
        self._flags = flags
        self.again()

    def again(self) -> None:
        """Start the agent, which has ended, as it was started before."""
        self.driver.first.live_on()
        self.driver.start_first(flags=self._flags)

    def eventually_offered(self) -> None:
        """Wait until kubelet lets pods have what the Node's annotation says."""
        eventually(self._is_offered, KUBELET_S)

    def _is_offered(self) -> bool:
        wanted = sum(int(each["count"]) for each in self.cards())
        return self.offered() == wanted > 0

    def forget(self) -> None:
        """Remove what an agent leaves on its Node."""
        gone = {"metadata": {"annotations": {REGISTER: None, LOCK: None}}}
        self.client.patch(paths.nodes(self.node), gone, content_type=MERGE_PATCH)

    def offered(self) -> int:
        """Return how many devices kubelet lets pods have."""
        status = self.of_node()["status"]
        return int(status["allocatable"].get(RESOURCE, 0))

    def cards(self) -> list[Object]:
        """Return what the Node's annotation says of each GPU."""
        return list(json.loads(self.annotations().get(REGISTER, "[]")))

    def card(self, kind: str) -> Object:
        """Return the GPU that has *kind* in its type."""
        (found,) = (each for each in self.cards() if kind in each["type"])
        return found

    def annotations(self) -> dict[str, str]:
        """Return the Node's annotations."""
        return dict(self.of_node()["metadata"].get("annotations") or {})

    def of_node(self) -> Object:
        """Return the Node."""
        return dict(json.loads(self.client.get(paths.nodes(self.node))))

    def phase(self, name: str) -> str | None:
        """Return what the annotations of the pod say of its devices."""
        found = self.stage.pod(name)["metadata"].get("annotations", {}).get(PHASE)
        return None if found is None else str(found)

    def given(self, name: str, place: int) -> str:
        """Return what was decided for a container of the pod, by its place, init ones first."""
        allocated = self.stage.pod(name)["metadata"]["annotations"][_ALLOCATED]
        return str(allocated).split(";")[place]

    def registrations(self) -> int:
        """Return how often agents have told kubelet of their devices so far."""
        return self.driver.log(self.node).count('"registered with kubelet"')

    def records(self) -> list[str]:
        """Return for which containers the agent keeps something: UID of the pod, and name."""
        folder = self.driver.cluster.outside(self.driver.first.host.plugin / "containers")
        return sorted(each.stem for each in folder.glob("*.json"))

    def regions(self) -> list[str]:
        """Return for which containers there is a region."""
        return sorted(each.name for each in self.driver.regions())

    def specs(self) -> list[Path]:
        """Return the CDI specs that name no GPU of the node as a whole."""
        return [each for each in self.driver.specs() if each.name != _CARD_SPEC]

    def series(self, *texts: str) -> list[str]:
        """Return the series of parts of GPUs in the agent's metrics that have all *texts*."""
        lines = self.driver.first.metrics().splitlines()
        own = [each for each in lines if each.startswith(("gpuslice_share_", _ALLOCATION))]
        return [each for each in own if all(text in each for text in texts)]

    def held(self, pod_name: str, container: str) -> int:
        """Return how many parts of GPUs a container holds by the agent's metrics."""
        labels = (f'pod="{pod_name}"', f'container="{container}"')
        return len([each for each in self.series(*labels) if each.startswith(_ALLOCATION)])

    def expect_nothing_left(self) -> None:
        """Wait until nothing is kept for a container, on the node and in metrics."""
        left: list[Any] = []

        def none() -> bool:
            left[:] = [
                self.records(),
                self.regions(),
                self.specs(),
                self.series(),
                [LOCK] if LOCK in self.annotations() else [],
            ]
            return not any(left)

        try:
            eventually(none, KUBELET_S)
        except AssertionError as error:
            message = f"left by the device plugin of {self.node}: {left}"
            raise AssertionError(message) from error

    def give_back(self) -> None:
        """Serve claims again, once nothing is left."""
        first = self.driver.first
        first.resume()
        first.live_on()
        if not first.running():
            self.again()
        self.stage.clear()
        try:
            self.expect_nothing_left()
        finally:
            self.driver.first.terminate()
            # A GPU that kubelet still has counts as given away by somebody else.
            eventually(lambda: self.offered() == 0, KUBELET_S)
            self.driver.start_first()
            self.forget()


@contextlib.contextmanager
def cards_of(stage: Stage, flags: Mapping[str, object] | None = None) -> Iterator[Cards]:
    """Serve the device plugin on the node with a kubelet for the block."""
    cards = Cards(stage)
    try:
        cards.serve(flags)
        yield cards
    finally:
        cards.give_back()


@contextlib.contextmanager
def rights(cluster: RealCluster, identity: Path) -> Iterator[None]:
    """Give agents what the chart has for nodes of the device plugin, for the block.

    *identity* is the folder of one agent's token.
    """
    manifests = list(yaml.safe_load_all(_RIGHTS.read_text()))
    with cluster.client() as client:
        for each in manifests:
            with contextlib.suppress(ConflictError):
                client.create(collection_of(each), each)
        config = in_cluster_config(identity, cluster.in_cluster_environment())
        agent = Client(config, user_agent="gpuslice-tests")
        # The API server knows of it a moment later, and an agent must not be refused anything.
        eventually(lambda: _may_write(agent, cluster.node_names[0]))
        agent.close()
    try:
        yield
    finally:
        with cluster.client() as client:
            for each in manifests:
                client.delete(f"{collection_of(each)}/{each['metadata']['name']}")


def _may_write(client: Client, node: str) -> bool:
    body = {"metadata": {"annotations": {"gpuslice.test/any": "any"}}}
    try:
        client.patch(paths.nodes(node), body, content_type=MERGE_PATCH, params=DRY_RUN)
    except ForbiddenError:
        return False
    return True


def pod(
    name: str,
    *containers: Mapping[str, str] | None,
    node: str,
    inits: Sequence[Mapping[str, str]] = (),
    **notes: str,
) -> Object:
    """Return a pod as HAMi's webhook leaves it: `c0`, `c1` … with these limits, `i0` … before.

    Limits are below `nvidia.com/`, and so are *notes*, with `_` for `-`.
    """
    spec: Object = {
        "schedulerName": SCHEDULER,
        "initContainers": [_container(f"i{n}", each) for n, each in enumerate(inits)],
        "containers": [_container(f"c{n}", each) for n, each in enumerate(containers)],
    }
    annotations = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in notes.items()}
    metadata = {"name": name, "annotations": annotations}
    found = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return reporting(found, node=node)


def _container(name: str, limits: Mapping[str, str] | None) -> Object:
    amounts = {f"nvidia.com/{key}": value for key, value in (limits or {}).items()}
    return {"name": name, "resources": {"limits": amounts}}


def expect_given(
    report: ContainerReport, limits: Mapping[str, tuple[str, str]], *, with_nodes: bool
) -> None:
    """Check a container with a part of each product of *limits*, and its device nodes or none."""
    in_order = sorted(limits, key=MINORS.__getitem__)
    assert report.limits() == tuple(limits[each] for each in in_order)
    assert report.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert report.env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == PRIVATE_REGION
    assert "CUDA_VISIBLE_DEVICES" not in report.env
    assert report.preload == LIBRARY
    assert report.region_bytes == REGION_BYTES
    assert "ro" in report.mounts[LIBRARY].options
    assert "rw" in report.mounts[PRIVATE_REGION].options
    assert report.devices == (nodes_of(limits) if with_nodes else {})


def expect_none(report: ContainerReport) -> None:
    """Check a container that asked for nothing."""
    expect_nothing_limited(report)
    assert not report.devices
