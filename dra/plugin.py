"""Puts the parts of the plugin together and runs them in the right order.

At start: state, then the DRA socket, then the registration socket, so that kubelet finds a
plugin that answers; the GPUs are read beside that, because a driver may take minutes to come up.
At the end: registration first, which is how a plugin de-registers, then the calls in flight; the
slices stay, because kubelet removes those of a driver that does not come back.
"""

import threading
from collections.abc import Mapping

import structlog

from cdi.nvidia import character_device
from cdi.store import SpecStore
from dra import wiring
from dra.deviceedits import DeviceNumbers
from dra.health import HealthStreams
from dra.inventory import InventoryReader
from dra.loops import Loops
from dra.metrics import Metrics
from dra.node import NodeState, NodeView
from dra.nodenotices import NodeNotices
from dra.notices import Notices
from dra.pods import PodUse, PodWatch, read_pod
from dra.prepare import Preparer
from dra.probing import SocketChecks
from dra.publication import Publication
from dra.publisher import Publisher
from dra.regions import RegionStore
from dra.registration import RegistrationServicer
from dra.server import GRACE_S, dra_server, registration_server
from dra.service import DraService
from dra.settings import AgentSettings
from dra.sharing import SharingProbe
from dra.situation import SituationSource
from dra.sockets import SocketPaths, remove_stale, socket_paths
from dra.state import StateStore
from dra.sweep import Sweep
from gpu import names
from gpu.model import Inventory
from kube import paths
from kube.config import ClientConfig, load_config
from kube.draversions import VersionedClient
from kube.events import EventRecorder
from kube.probes import ProbeServer
from kube.reflector import Reflector

log = structlog.get_logger(__name__)

_POD_LOOK_S = 60.0
_POD_SETTLE_S = 0.5
_NODE_LOOK_S = 15.0


class Plugin:
    """One node's plugin process: `start` it, then `stop` it."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        device_numbers: DeviceNumbers = character_device,
        identity: ClientConfig | None = None,
    ) -> None:
        """Put the parts together; *identity* replaces the one that the settings point to."""
        self._settings = settings
        self._device_numbers = device_numbers
        self._identity = identity
        self._loops = Loops()
        self._restore_now = threading.Event()
        self._pods_changed = threading.Event()
        self._directory = settings.plugin_directory
        self._metrics = Metrics()
        self._connect()
        self._remember()
        self._look()
        self._serve()

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""
        for directory in (self._directory, self._directory / "regions"):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._paths.registration.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        previous_boot = self._store.open()
        if previous_boot not in ("", self._boot_id):
            log.info("node rebooted since the state was written")
        self._specs.prepare()
        self._specs.sweep_temporary()
        remove_stale(self._directory, "dra*.sock")
        remove_stale(self._paths.registration.parent, f"{names.DRIVER}-*reg.sock")
        self._start_servers()
        self._start_loops()
        log.info("plugin started", node=self._settings.node_name)

    def stop(self) -> None:
        """Stop serving, then everything else; state, slices and specs stay as they are."""
        # Whoever replaces the driver waits for NVML's clients: its session ends beside all this.
        self._loops.stopping.set()
        self._registration_server.stop(grace=None).wait(GRACE_S)
        self._streams.stop()
        self._dra_server.stop(grace=GRACE_S).wait(2 * GRACE_S)
        self._loops.stop(GRACE_S)
        self._pods.stop()
        self._probes.stop()
        self._events.close()
        self._store.close()
        self._client.close()
        log.info("plugin stopped")

    @property
    def probe_port(self) -> int:
        """The port that probes and metrics are served on."""
        return self._probes.port

    def _connect(self) -> None:
        settings = self._settings
        kubeconfig = str(settings.kubeconfig) if settings.kubeconfig else None
        identity = self._identity or load_config(kubeconfig)
        self._client = VersionedClient(
            identity,
            user_agent="gpuslice-node-agent",
            api_version=settings.resource_api_version,
        )
        self._events = EventRecorder(self._client, component=names.DRIVER, host=settings.node_name)
        self._pods: Reflector[PodUse] = Reflector(
            self._client,
            paths.pods(),
            params={"fieldSelector": f"spec.nodeName={settings.node_name}"},
            decode=read_pod,
            on_change=lambda _change: self._pods_changed.set(),
        )

    def _remember(self) -> None:
        settings = self._settings
        boot_id = settings.proc_root / "sys/kernel/random/boot_id"
        self._boot_id = boot_id.read_text().strip()
        self._store = StateStore(self._directory / "state", boot_id=self._boot_id)
        self._publication = Publication(
            client=self._client,
            node_name=settings.node_name,
            situation=SituationSource(claims=self._store.claims),
            publisher=self._publisher,
        )
        self._specs = SpecStore(settings.cdi_directory)
        regions = self._directory / "regions"
        self._regions = RegionStore(regions, str(regions))
        self._metrics.show_grants(self._store.claims, self._publication.inventory)

    def _look(self) -> None:
        settings = self._settings
        self._node = NodeState()
        self._inventory = InventoryReader(
            sysfs=settings.sys_root,
            locate=lambda: wiring.find_driver(settings, self._loops.stopping),
            edits=wiring.device_edits(settings, self._device_numbers),
            library=wiring.library_source(settings, self._directory / "libraries"),
            region_host_path=self._regions.host_path,
            node=self._node,
            changed=self._inventory_changed,
            failed=self._publication.set_failure,
            health=wiring.health_rules(settings),
        )
        rules = wiring.rules(settings)
        self._notices = Notices(self._events, rules, self._pods_changed.set)
        self._watch = PodWatch(
            pods=lambda: self._pods.items().values(),
            claims=self._store.claims,
            say=self._notices.say,
        )
        self._preparer = Preparer(
            client=self._client,
            store=self._store,
            specs=self._specs,
            regions=self._regions,
            node=self._node,
            rules=rules,
            pool=settings.node_name,
            boot_id=self._boot_id,
            shares_per_gpu=self._shares_per_gpu,
            refuse_pods=self._watch.refuse,
        )
        self._sweep = Sweep(
            client=self._client,
            claims=self._store.claims,
            pods=lambda: self._pods.items().values() if self._pods.wait_synced(0) else None,
            release=lambda claim: self._preparer.unprepare(claim.uid),
            pool=settings.node_name,
        )

    def _serve(self) -> None:
        settings = self._settings
        self._paths: SocketPaths = socket_paths(
            registry=settings.registry_directory,
            plugin_directory=self._directory,
            driver=names.DRIVER,
            pod_uid=settings.pod_uid,
        )
        self._registration = RegistrationServicer(
            str(self._paths.dra), registered=self._publication.look_again.set
        )
        self._streams = HealthStreams(pool=settings.node_name, devices=self._publication.health)
        self._service = DraService(
            self._preparer,
            self._metrics,
            prepared=self._notices.prepared,
            released=self._released,
        )
        self._probes = ProbeServer(
            settings.probe_address,
            settings.probe_port,
            SocketChecks(self._paths).checks(),
            ready_checks={
                "kubelet": self._registration.problem,
                "gpus": self._node.problem,
                "slices": self._publication.problem,
            },
            registry=self._metrics.registry,
        )

    def _start_servers(self) -> None:
        self._dra_server = dra_server(self._paths.dra, self._service, self._streams)
        self._dra_server.start()
        self._registration_server = registration_server(
            self._paths.registration, self._registration
        )
        self._registration_server.start()
        self._probes.start()

    def _start_loops(self) -> None:
        settings, loops = self._settings, self._loops
        self._pods.start()
        publication = self._publication
        loops.run(
            "publication", lambda: publication.run(loops.stopping), wake=publication.look_again
        )
        loops.run(
            "inventory",
            lambda: self._inventory.run(loops.stopping, interval_s=settings.scan_interval_s),
        )
        loops.every(settings.restore_interval_s, self._restore, wake=self._restore_now)
        loops.every(settings.sweep_interval_s, self._sweep.run)
        loops.every(_POD_LOOK_S, self._watch.look, wake=self._pods_changed, settle_s=_POD_SETTLE_S)
        loops.every(_NODE_LOOK_S, self._node_notices().look)

    def _node_notices(self) -> NodeNotices:
        return NodeNotices(
            events=self._events,
            node_name=self._settings.node_name,
            registration=self._registration,
            node=self._node,
            publication=self._publication,
            regions=self._regions,
            api_problem=self._client.dra_problem,
        )

    def _restore(self) -> None:
        if self._node.is_known():
            self._preparer.restore()

    def _inventory_changed(self, inventory: Inventory) -> None:
        self._publication.set_inventory(inventory)
        self._restore_now.set()

    def _released(self) -> None:
        self._publication.claims_changed()

    def _health_changed(self) -> None:
        self._streams.changed()

    def _publisher(self, node_uid: str, situation: SituationSource) -> Publisher:
        return Publisher(
            client=self._client,
            node_name=self._settings.node_name,
            node_uid=node_uid,
            probe=SharingProbe(self._client, node_name=self._settings.node_name, node_uid=node_uid),
            rules=wiring.offer_rules(self._settings),
            events=self._events,
            situation=situation,
            health_changed=self._health_changed,
        )

    def _shares_per_gpu(self, view: NodeView) -> Mapping[str, int]:
        sharing = wiring.offer_rules(self._settings).sharing
        return {name: sharing.shares_of(device.gpu.uuid) for name, device in view.devices.items()}
