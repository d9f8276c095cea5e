"""What the agent does on the node: reads its GPUs, prepares claims on them, and clears up.

Everything here is beside kubelet's calls but the preparer, which answers them.
"""

import threading
from collections.abc import Mapping

import structlog

from cdi.durable import make_directory
from cdi.faults import FaultPoint
from cdi.regionstore import RegionStore
from cdi.store import SpecStore
from dra import wiring
from dra.clusterside import ClusterSide
from dra.deviceedits import DeviceNumbers
from dra.inventory import InventoryReader
from dra.loops import Loops
from dra.node import NodeState, NodeView
from dra.notices import Notices
from dra.pods import PodWatch
from dra.prepare import Preparer
from dra.rebuild import PACE_S, Rebuild
from dra.record import PreparedClaim
from dra.regionreset import RegionResets
from dra.settings import AgentSettings
from dra.state import StateStore
from dra.sweep import Sweep
from gpu.model import Inventory
from gpu.nvml import Nvml

log = structlog.get_logger(__name__)

_POD_LOOK_S = 60.0
_POD_SETTLE_S = 0.5


class NodeSide:
    """The node's devices and the claims on them."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        cluster: ClusterSide,
        store: StateStore,
        boot_id: str,
        device_numbers: DeviceNumbers,
        stopping: threading.Event,
    ) -> None:
        self._settings = settings
        self._rules, self._sharing = wiring.rules(settings), wiring.offer_rules(settings).sharing
        self._cluster = cluster
        self._store = store
        self._boot_id = boot_id
        self._directory = settings.plugin_directory
        self._restore_now, self._rebuild_now = threading.Event(), threading.Event()
        self._specs = SpecStore(settings.cdi_directory)
        regions = self._directory / "regions"
        self.regions = RegionStore(regions, str(regions))
        self.resets = RegionResets(self.regions)
        self.state = NodeState()
        self.session: Nvml | None = None
        self._library = wiring.library_source(settings, self._directory / "libraries")
        self._inventory = InventoryReader(
            sysfs=settings.sys_root,
            locate=lambda: wiring.find_driver(settings, stopping),
            edits=wiring.device_edits(settings, device_numbers),
            library=self._library,
            region_host_path=self.regions.host_path,
            node=self.state,
            changed=self._inventory_changed,
            failed=cluster.publication.set_failure,
            health=wiring.health_rules(settings),
            ask=self._keep_session,
        )
        self._notices = Notices(cluster.events, self._rules, cluster.pods_changed.set)
        self._watch = PodWatch(pods=cluster.pods, claims=store.claims, say=self._notices.say)
        self.preparer = Preparer(
            client=cluster.client,
            store=store,
            specs=self._specs,
            regions=self.regions,
            node=self.state,
            rules=self._rules,
            pool=settings.node_name,
            boot_id=boot_id,
            shares_per_gpu=self._shares_per_gpu,
            refuse_pods=self._watch.refuse,
        )
        self._sweep, self._rebuild = self._clearing(store)

    def open(self) -> None:
        """Read what was prepared before; raises what makes a start impossible."""
        for directory in (self._directory, self._directory / "regions"):
            make_directory(directory, FaultPoint.PLUGIN_DIRECTORY_MADE, mode=0o750)
        previous_boot = self._store.open()
        if previous_boot not in ("", self._boot_id):
            log.info("node rebooted since the state was written")
        self._specs.prepare()
        self._specs.sweep_temporary()
        self._library.kept.sweep_temporary()
        self._cluster.conditions.adopt()

    def start(self, loops: Loops) -> None:
        """Begin to read the GPUs and to look after the claims."""
        settings = self._settings
        loops.run(
            "inventory",
            lambda: self._inventory.run(loops.stopping, interval_s=settings.scan_interval_s),
        )
        loops.run("region resets", lambda: self.resets.run(loops.stopping), wake=self.resets)
        loops.every(settings.restore_interval_s, self._restore, wake=self._restore_now)
        loops.every(PACE_S, self._rebuild.run, wake=self._rebuild_now)
        loops.every(settings.sweep_interval_s, self._sweep_if_complete)
        loops.every(
            _POD_LOOK_S,
            self._pods_look,
            wake=self._cluster.pods_changed,
            settle_s=_POD_SETTLE_S,
        )

    def close(self) -> None:
        """Let go of what was watched; after the loops have ended."""
        self.resets.close()

    def prepared(self, claim: PreparedClaim) -> None:
        """Say what the user of *claim*, which was just prepared, should know."""
        self._notices.prepared(claim)
        self._cluster.claim_prepared()

    def _clearing(self, store: StateStore) -> tuple[Sweep, Rebuild]:
        """Return what finds claims that are gone, and those that a damaged state has lost."""
        cluster, settings = self._cluster, self._settings
        sweep = Sweep(
            client=cluster.client,
            claims=store.claims,
            pods=cluster.known_pods,
            release=lambda claim: self.preparer.unprepare(claim.uid),
            pool=settings.node_name,
        )
        rebuild = Rebuild(
            client=cluster.client,
            events=cluster.events,
            store=store,
            specs=self._specs,
            node=self.state,
            pods=cluster.known_pods,
            rules=self._rules,
            pool=settings.node_name,
            shares_per_gpu=self._shares_per_gpu,
            rebuilt=self._rebuilt,
        )
        return sweep, rebuild

    def _restore(self) -> None:
        if self.state.is_known():
            self.preparer.restore()
        self.resets.set()

    def _pods_look(self) -> None:
        self.resets.set()
        self._watch.look()

    def _sweep_if_complete(self) -> None:
        if self._store.rebuild_problem() is None:
            self._sweep.run()
            self._cluster.publication.claims_changed()

    def _rebuilt(self) -> None:
        self._cluster.conditions.adopt()
        self._cluster.publication.claims_changed()
        self._restore_now.set()

    def _keep_session(self, session: Nvml, _inventory: Inventory) -> None:
        self.session = session

    def _inventory_changed(self, inventory: Inventory) -> None:
        self._cluster.publication.set_inventory(inventory)
        self._restore_now.set()
        self._rebuild_now.set()

    def _shares_per_gpu(self, view: NodeView) -> Mapping[str, int]:
        shares_of = self._sharing.shares_of
        return {name: shares_of(device.gpu.uuid) for name, device in view.devices.items()}
