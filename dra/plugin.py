"""Puts the parts of the plugin together and runs them in the right order.

At start: state, then the DRA socket, then the registration socket, so that kubelet finds a
plugin that answers; the GPUs are read beside that, because a driver may take minutes to come up.
At the end: registration first, which is how a plugin de-registers, then the calls in flight; the
slices stay, because kubelet removes those of a driver that does not come back.
"""

from collections.abc import Mapping
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from cdi.durable import make_directory
from cdi.faults import FaultPoint, reach
from cdi.nvidia import character_device
from dra.clusterside import ClusterSide
from dra.deviceedits import DeviceNumbers
from dra.health import HealthStreams
from dra.loops import Loops
from dra.metrics import Metrics
from dra.nodenotices import NodeNotices
from dra.nodeside import NodeSide
from dra.probing import SocketChecks
from dra.record import PreparedClaim
from dra.registration import RegistrationServicer
from dra.server import GRACE_S, dra_server, registration_server
from dra.service import DraService
from dra.settings import AgentSettings
from dra.sockets import SocketPaths, remove_stale, socket_paths
from dra.state import StateStore
from gpu import names
from gpu.nvml import Nvml
from kube.config import ClientConfig
from kube.draversions import VersionedClient
from kube.events import EventRecorder
from kube.probes import ProbeServer

log = structlog.get_logger(__name__)

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
        self._loops = Loops()
        self._metrics = Metrics()
        boot_id = (settings.proc_root / "sys/kernel/random/boot_id").read_text().strip()
        self._store = StateStore(settings.plugin_directory / "state", boot_id=boot_id)
        stopping = self._loops.stopping
        self._cluster = ClusterSide(
            settings, identity=identity, claims=self._store.claims, stopping=stopping
        )
        self._node = NodeSide(
            settings,
            cluster=self._cluster,
            store=self._store,
            boot_id=boot_id,
            device_numbers=device_numbers,
            stopping=stopping,
        )
        publication = self._cluster.publication
        self._metrics.show_grants(self._store.latest, publication.inventory)
        self._metrics.show_offer(publication.devices, publication.health, self._store.latest)
        self._serve()

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""
        self._node.open()
        registry = self._paths.registration.parent
        make_directory(registry, FaultPoint.PLUGIN_DIRECTORY_MADE, mode=0o750)
        remove_stale(self._settings.plugin_directory, "dra*.sock")
        remove_stale(registry, f"{names.DRIVER}-*reg.sock")
        self._start_servers()
        self._cluster.start(self._loops)
        self._node.start(self._loops)
        self._loops.every(_NODE_LOOK_S, self._node_notices().look)
        log.info("plugin started", node=self._settings.node_name)

    def stop(self) -> None:
        """Stop serving, then everything else; state, slices and specs stay as they are."""
        # Whoever replaces the driver waits for NVML's clients: its session ends beside all this.
        self._loops.stopping.set()
        self._registration_server.stop(grace=None).wait(GRACE_S)
        self._streams.stop()
        self._dra_server.stop(grace=GRACE_S).wait(2 * GRACE_S)
        self._loops.stop(GRACE_S)
        self._cluster.stop()
        self._node.close()
        self._probes.stop()
        self._cluster.close()
        self._store.close()
        log.info("plugin stopped")

    @property
    def client(self) -> VersionedClient:
        """The connection to the API server, for what runs beside the plugin."""
        return self._cluster.client

    @property
    def events(self) -> EventRecorder:
        """What says things on objects."""
        return self._cluster.events

    @property
    def registry(self) -> CollectorRegistry:
        """Where metrics are told."""
        return self._metrics.registry

    def claims(self) -> Mapping[str, PreparedClaim]:
        """Return the prepared claims by UID, as the newest finished change left them."""
        return self._store.claims()

    def region(self, claim_uid: str) -> Path:
        """Return where the region of a claim is; it need not be there."""
        return self._node.regions.path(claim_uid)

    def session(self) -> Nvml | None:
        """Return the newest session with the driver; it ends without a word."""
        return self._node.session

    @property
    def probe_port(self) -> int:
        """The port that probes and metrics are served on."""
        return self._probes.port

    def _serve(self) -> None:
        settings, publication = self._settings, self._cluster.publication
        self._paths: SocketPaths = socket_paths(
            registry=settings.registry_directory,
            plugin_directory=settings.plugin_directory,
            driver=names.DRIVER,
            pod_uid=settings.pod_uid,
        )
        self._registration = RegistrationServicer(
            str(self._paths.dra), registered=publication.look_again.set
        )
        self._streams = HealthStreams(pool=settings.node_name, devices=publication.health)
        self._cluster.tell_kubelet = self._streams.changed
        self._service = DraService(
            self._node.preparer,
            self._metrics,
            prepared=self._node.prepared,
            released=publication.claims_changed,
        )
        self._probes = ProbeServer(
            settings.probe_address,
            settings.probe_port,
            SocketChecks(self._paths).checks(),
            ready_checks={
                "kubelet": self._registration.problem,
                "gpus": self._node.state.problem,
                "slices": publication.problem,
                "state": self._store.rebuild_problem,
            },
            registry=self._metrics.registry,
        )

    def _start_servers(self) -> None:
        self._dra_server = dra_server(self._paths.dra, self._service, self._streams)
        self._dra_server.start()
        reach(FaultPoint.DRA_SOCKET_BOUND)
        self._registration_server = registration_server(
            self._paths.registration, self._registration
        )
        self._registration_server.start()
        reach(FaultPoint.REGISTRATION_SOCKET_BOUND)
        self._probes.start()

    def _node_notices(self) -> NodeNotices:
        return NodeNotices(
            events=self._cluster.events,
            node_name=self._settings.node_name,
            registration=self._registration,
            node=self._node.state,
            publication=self._cluster.publication,
            regions=self._node.regions,
            regions_problem=self._node.resets.problem,
            api_problem=self._cluster.client.dra_problem,
        )
