"""Says on the Node what keeps its GPUs from being used, so that `kubectl describe node` shows it.

A pod that waits for a GPU tells nothing about a driver that was not found, a kubelet root that is
another one, or a GPU that cannot be read: whoever runs the node has to find these.
"""

from collections.abc import Callable, Iterator

from cdi.regionstore import RegionStore
from dra.node import NodeState
from dra.publication import Publication
from dra.registration import RegistrationServicer
from gpu.refusal import Refusal
from kube.draconversion import GROUP
from kube.events import EventRecorder, Regarding


class NodeNotices:
    """Looks at the parts of the agent; call `look` now and then."""

    def __init__(  # noqa: PLR0913 - one part for each thing that can be said
        self,
        *,
        events: EventRecorder,
        node_name: str,
        registration: RegistrationServicer,
        node: NodeState,
        publication: Publication,
        regions: RegionStore,
        regions_problem: Callable[[], Refusal | None],
        api_problem: Callable[[], str | None],
    ) -> None:
        self._events = events
        self._node_name = node_name
        self._registration = registration
        self._node = node
        self._publication = publication
        self._regions = regions
        self._regions_problem = regions_problem
        self._api_problem = api_problem

    def look(self) -> None:
        """Record an event for everything that is wrong; repeats are counted, not repeated."""
        uid = self._publication.node_uid()
        if uid is None:
            return
        regarding = Regarding(api_version="v1", kind="Node", name=self._node_name, uid=uid)
        for refusal in self.problems():
            self._events.event(regarding, "Warning", refusal.code, str(refusal))

    def problems(self) -> Iterator[Refusal]:
        """Yield what is wrong now."""
        overdue = self._registration.overdue()
        if overdue is not None:
            yield Refusal(code="NotRegistered", field="kubelet", value="dra", limit=overdue)
        unserved = self._api_problem()
        if unserved is not None:
            yield Refusal(code="ApiNotServed", field="server", value=GROUP, limit=unserved)
        not_reset = self._regions_problem()
        if not_reset is not None:
            yield not_reset
        problem = self._node.problem()
        if problem is not None:
            yield Refusal(code="GpusNotReadable", field="node", value="gpus", limit=problem)
            return
        yield from self._of_gpus()
        for noted in self._publication.noted():
            yield noted.refusal

    def _of_gpus(self) -> Iterator[Refusal]:
        view = self._node.current()
        for fault in view.inventory.faults:
            yield Refusal(
                code="GpuNotReadable",
                field="gpu",
                value=fault.uuid or fault.pci_bus_id or f"index {fault.index}",
                limit=f"{fault.call} failed with {fault.reason}",
                remedy="the other GPUs are offered; reset or replace this one",
            )
        if view.library is None:
            yield Refusal(
                code="LibraryMissing",
                field="hamiCoreLibrary",
                value="libvgpu.so",
                limit=view.library_problem,
                remedy="claims for shares are refused on this node until it is there",
            )
        if not self._regions.bounded:
            yield Refusal(
                code="RegionsUnbounded",
                field="regions",
                value="tmpfs",
                limit="the agent may not mount, so a container could fill the node's disk",
                remedy="give the agent CAP_SYS_ADMIN and a shared mount of its directory",
            )
