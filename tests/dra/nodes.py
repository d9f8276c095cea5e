"""A node on which claims are prepared: real files, real HTTP, no GPUs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdi.regionstore import RegionStore
from cdi.store import SpecStore
from dra.allocation import Allocation
from dra.node import NodeState
from dra.options import Privileges
from dra.plan import Rules
from dra.pods import PodUse
from dra.prepare import Preparer
from dra.rebuild import Rebuild
from dra.record import PreparedClaim
from dra.state import StateStore
from gpu.model import Gpu
from gpu.refusal import RefusedError
from kube.events import EventRecorder
from tests.dra.builders import BOOT_ID, NODE, UID, a_claim, a_gpu, a_result, a_view
from tests.fakes.claim_server import ClaimServer

UID_2 = UID[:-1] + "2"


@dataclass(slots=True, kw_only=True)
class Reference:
    """What kubelet says of a claim."""

    namespace: str = "team-a"
    name: str = "claim"
    uid: str = UID


def a_pod_use(uid: str = "pod-uid") -> PodUse:
    """Return a pod of the node, by default the one that claims are reserved for."""
    return PodUse(uid=uid, namespace="team-a", name="pod", containers=())


def _always() -> bool:
    return True


def _nobody(_allocation: Allocation) -> None:
    """Refuse no pod."""


@dataclass(slots=True)
class Node:
    """One plugin process on *directory*; make a second one on the same for an update."""

    directory: Path
    server: ClaimServer
    gpus: tuple[Gpu, ...] = (a_gpu(0), a_gpu(1))
    boot_id: str = BOOT_ID
    refuse_pods: Callable[[Allocation], None] = _nobody
    state: NodeState = field(init=False, default_factory=NodeState)
    store: StateStore = field(init=False)
    specs: SpecStore = field(init=False)
    regions: RegionStore = field(init=False)
    preparer: Preparer = field(init=False)
    events: EventRecorder = field(init=False)
    rebuild: Rebuild = field(init=False)
    pods: tuple[PodUse, ...] | None = (a_pod_use(),)
    """Those that the API server has told of, `None` before it has."""

    def __post_init__(self) -> None:
        self.store = StateStore(self.directory / "state", boot_id=self.boot_id, lock_wait_s=5.0)
        self.store.open()
        self.specs = SpecStore(self.directory / "cdi")
        self.specs.prepare()
        regions = self.directory / "regions"
        self.regions = RegionStore(regions, str(regions), may_mount=False)
        self.show(*self.gpus)
        self.preparer = Preparer(
            client=self.server.client,
            store=self.store,
            specs=self.specs,
            regions=self.regions,
            node=self.state,
            rules=Rules(privileges=Privileges(), minimum_memory_mib=512),
            pool=NODE,
            boot_id=self.boot_id,
            shares_per_gpu=lambda view: dict.fromkeys(view.devices, 10),
            refuse_pods=self.refuse_pods,
        )
        self.events = EventRecorder(self.server.client, component="gpuslice.io", host=NODE)
        self.rebuild = Rebuild(
            client=self.server.client,
            events=self.events,
            store=self.store,
            specs=self.specs,
            node=self.state,
            pods=lambda: self.pods,
            rules=Rules(privileges=Privileges(), minimum_memory_mib=512),
            pool=NODE,
            shares_per_gpu=lambda view: dict.fromkeys(view.devices, 10),
            rebuilt=self.preparer.restore,
        )

    def show(self, *gpus: Gpu) -> None:
        """Have the inventory find *gpus* from now on."""
        self.state.set(a_view(*gpus))

    def prepare(self, uid: str = UID, name: str = "claim") -> PreparedClaim:
        """Prepare a claim as kubelet would."""
        return self.preparer.prepare(Reference(uid=uid, name=name), wanted=_always)

    def refusal(self, uid: str = UID, name: str = "claim") -> str:
        """Return why a claim is not prepared, empty when it is."""
        try:
            self.prepare(uid, name)
        except RefusedError as error:
            return str(error)
        return ""

    def spec(self, uid: str = UID) -> Any:
        """Return the CDI spec of a claim, `None` when there is none."""
        content = self.specs.read(uid)
        return None if content is None else json.loads(content)

    def traces(self) -> dict[str, set[str]]:
        """Return which claims have left what on the node."""
        return {
            "state": set(self.store.current()),
            "specs": self.specs.claim_uids(),
            "regions": self.regions.owners(),
        }

    def close(self) -> None:
        """End the process, leaving everything as it is."""
        self.events.close()
        self.store.close()


def traces_of(*uids: str) -> dict[str, set[str]]:
    """Return what exactly the claims *uids*, all limited, leave on a node."""
    return {"state": set(uids), "specs": set(uids), "regions": set(uids)}


def put_second(server: ClaimServer, memory: str | None, gpu: int = 0) -> None:
    """Add a claim of another pod to *server*."""
    result = a_result(a_gpu(gpu), memory)
    server.put(a_claim(result, name="second", uid=UID_2))
