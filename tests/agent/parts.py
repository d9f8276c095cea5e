"""The parts of the agent that prepare claims, in this process: quicker to restart than a process.

They are put together as the plugin does it, on the same files and against the same API server.
Only the sockets are left out, and the loops, whose work a test calls for by itself.
"""

from dataclasses import dataclass

from cdi.hooks import NO_HOOKS
from cdi.library import LibraryStore
from cdi.regionstore import RegionStore
from cdi.store import SpecStore
from dra.deviceedits import Scan
from dra.inventory import InventoryReader, LibrarySource
from dra.metrics import GrantCollector
from dra.node import NodeState
from dra.options import Privileges
from dra.plan import Rules
from dra.prepare import Preparer
from dra.state import StateStore
from dra.sweep import Sweep
from gpu import driver
from gpu.model import Inventory
from gpu.refusal import RefusedError
from kube.client import Client
from sim import driverroot
from tests.agent.control_plane import Claim
from tests.agent.host import NODE, Host

SHARES_PER_GPU = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found on the node: it does not change with a restart."""

    state: NodeState
    inventory: list[Inventory]


def look(host: Host) -> Seen:
    """Read the GPUs of *host* once."""
    state, found = NodeState(), list[Inventory]()
    libraries = host.plugin / "libraries"
    reader = InventoryReader(
        sysfs=host.files / "sys",
        locate=lambda: driver.find(host_root=host.files),
        edits=Scan(
            proc_root=host.files / "proc",
            sys_root=host.files / "sys",
            hooks=lambda _root: NO_HOOKS,
            device_numbers=driverroot.numbers_of,
        ),
        library=LibrarySource(
            path=host.library,
            kept=LibraryStore(libraries, str(libraries)),
            accept_placeholder=True,
        ),
        region_host_path=RegionStore(host.regions, str(host.regions)).host_path,
        node=state,
        changed=found.append,
    )
    reader.read()
    return Seen(state, found)


class Parts:
    """One life of the agent."""

    def __init__(self, host: Host, client: Client, seen: Seen) -> None:
        host.regions.mkdir(parents=True, exist_ok=True)
        self.store = StateStore(host.state, boot_id=host.boot_id())
        self.store.open()
        self.specs = SpecStore(host.cdi)
        self.specs.prepare()
        self.specs.sweep_temporary()
        self.seen = seen
        self.metrics = GrantCollector(self.store.claims, lambda: seen.inventory[0])
        self.preparer = Preparer(
            client=client,
            store=self.store,
            specs=self.specs,
            regions=RegionStore(host.regions, str(host.regions)),
            node=seen.state,
            rules=Rules(privileges=Privileges(), minimum_memory_mib=512),
            pool=NODE,
            boot_id=host.boot_id(),
            shares_per_gpu=lambda view: dict.fromkeys(view.devices, SHARES_PER_GPU),
            refuse_pods=lambda _allocation: None,
        )
        self.sweep = Sweep(
            client=client,
            claims=self.store.claims,
            pods=list,
            release=lambda claim: self.preparer.unprepare(claim.uid),
            pool=NODE,
            grace_s=0.0,
        )

    def prepare(self, claim: Claim) -> str:
        """Prepare *claim* and return the refusal's code, empty for none."""
        try:
            self.preparer.prepare(claim.message(), wanted=lambda: True)
        except RefusedError as error:
            return error.refusal.code
        return ""

    def unprepare(self, claim: Claim) -> str:
        """Unprepare *claim* and return the refusal's code, empty for none."""
        try:
            self.preparer.unprepare(claim.uid)
        except RefusedError as error:
            return error.refusal.code
        return ""

    def granted(self) -> dict[str, tuple[int, int, int]]:
        """Return what the metrics say is granted of each device: MiB, percent, shares."""
        sums: dict[str, dict[str, int]] = {}
        for family in self.metrics.collect():
            if family.name.startswith("gpuslice_granted_"):
                for sample in family.samples:
                    of_device = sums.setdefault(sample.labels["uuid"], {})
                    of_device[family.name] = of_device.get(family.name, 0) + int(sample.value)
        names = [f"gpuslice_granted_{name}" for name in ("memory_mib", "cores_percent", "shares")]
        return {
            uuid: (each[names[0]], each[names[1]], each[names[2]]) for uuid, each in sums.items()
        }
