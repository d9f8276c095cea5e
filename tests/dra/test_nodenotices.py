"""What the agent says on its Node."""

from dataclasses import replace
from pathlib import Path

from cdi.regionstore import RegionStore
from dra.node import NodeState
from dra.nodenotices import NodeNotices
from dra.publication import Publication
from dra.publisher import Publisher
from dra.registration import RegistrationServicer
from dra.situation import SituationSource
from gpu.model import GpuFault
from gpu.refusal import Refusal
from kube.client import Client
from kube.config import ClientConfig
from kube.events import EventRecorder
from tests.dra.builders import a_gpu, a_view

FAULT = GpuFault(
    index=2,
    uuid=None,
    pci_bus_id=None,
    reason="GPU_IS_LOST",
    call="nvmlDeviceGetMemoryInfo",
)


def codes(
    node: NodeState,
    *,
    may_mount: bool = True,
    not_reset: Refusal | None = None,
    api_problem: str | None = None,
) -> dict[str, str]:
    """Return code and sentence of everything that is said; no API server answers."""

    def never(_node_uid: str, _situation: SituationSource) -> Publisher:
        raise AssertionError("no node was read")

    client = Client(ClientConfig(host="http://127.0.0.1:1"), user_agent="test")
    events = EventRecorder(client, component="test", host="node-a")
    notices = NodeNotices(
        events=events,
        node_name="node-a",
        registration=RegistrationServicer("/dra.sock"),
        node=node,
        publication=Publication(
            client=client, node_name="node-a", situation=SituationSource(), publisher=never
        ),
        regions=RegionStore(Path("/unused"), "/unused", may_mount=may_mount),
        regions_problem=lambda: not_reset,
        api_problem=lambda: api_problem,
    )
    try:
        return {refusal.code: str(refusal) for refusal in notices.problems()}
    finally:
        events.close()
        client.close()


def test_a_healthy_node_says_nothing() -> None:
    """GPUs that were read, a library and mounts leave nothing to say."""
    node = NodeState()
    node.set(a_view(a_gpu()))
    assert codes(node) == {}


def test_an_api_that_is_not_served_is_said() -> None:
    """Where the server has nothing of DRA, the Node says it, and what else is wrong."""
    node = NodeState()
    node.fail("no driver")
    said = codes(node, api_problem="resource.k8s.io is not served by this API server")
    assert "resource.k8s.io is not served by this API server" in said["ApiNotServed"]
    assert "GpusNotReadable" in said


def test_regions_that_are_not_reset_are_said() -> None:
    """Ghosts of killed processes stay in them, whether GPUs were read or not."""
    problem = Refusal(code="RegionsNotReset", field="regions", value="/r", limit="no leases")
    assert "no leases" in codes(NodeState(), not_reset=problem)["RegionsNotReset"]


def test_a_driver_that_is_not_found_is_said_with_its_reason() -> None:
    """The reason names the paths tried, as the inventory gave it."""
    node = NodeState()
    node.fail("no driver in /run/nvidia/driver, /")
    assert "no driver in /run/nvidia/driver, /" in codes(node)["GpusNotReadable"]


def test_one_unreadable_gpu_is_named_beside_the_others() -> None:
    """A fault says which GPU, which call and which error."""
    node = NodeState()
    view = a_view(a_gpu())
    node.set(replace(view, inventory=replace(view.inventory, faults=(FAULT,))))
    said = codes(node)
    assert set(said) == {"GpuNotReadable"}
    assert "index 2" in said["GpuNotReadable"]
    assert "nvmlDeviceGetMemoryInfo failed with GPU_IS_LOST" in said["GpuNotReadable"]


def test_a_missing_library_and_unbounded_regions_are_said() -> None:
    """Both concern every share of the node."""
    node = NodeState()
    node.set(a_view(a_gpu(), library=None))
    assert set(codes(node, may_mount=False)) == {"LibraryMissing", "RegionsUnbounded"}
