"""The node agent of a node that serves kubelet's device plugins, with the monitor beside it.

At start: what was handed out before is restored first, because kubelet starts containers again by
answers that it remembers. At the end nothing is taken away: kubelet notices that the plugin is gone
and gives nothing new, and what runs goes on.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry

from cdi.durable import make_directory
from cdi.faults import FaultPoint
from cdi.regionstore import RegionStore
from cli.nodeagent.cardnode import CardNode, device_config
from cli.nodeagent.cardservice import CardService
from cli.nodeagent.mode import AUTO, Mode
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.modewatch import ModeWatch
from cli.nodeagent.nodepods import NodePods
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.sharing import SharesKept
from cli.nodeagent.users import pods_left
from dra import wiring
from dra.deviceedits import DeviceNumbers
from dra.loops import Loops
from dra.nodewatch import NodeWatch
from dra.regionreset import RegionResets
from gpu import names
from hami.deviceconfig import DeviceConfig
from hami.deviceconfigfile import Loaded
from hami.plugin.figures import OfferCollector
from kube.config import ClientConfig
from kube.configfile import FileFigures
from kube.errors import KubeError
from kube.events import EventRecorder, Regarding
from kube.probes import ProbeServer

if TYPE_CHECKING:
    from cli.nodeagent.monitoring import NodeMonitor

log = structlog.get_logger(__name__)

_STOP_S = 1.0


class CardAgent:
    """One node's process; `start` it, then `stop` it."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        *,
        file: ModeFile,
        device_numbers: DeviceNumbers,
        identity: ClientConfig | None,
    ) -> None:
        """Put the parts together; *identity* replaces the one that the settings point to."""
        self._settings = settings
        self._loops = Loops()
        self._mode_changed = threading.Event()
        self._troubles = dict[str, str | None]()
        self._client = wiring.client(settings, identity)
        self._events = EventRecorder(self._client, component=names.DRIVER, host=settings.node_name)
        shares = SharesKept(self._client, least_s=settings.scan_interval_s)
        self._node = NodeWatch(
            client=self._client,
            node_name=settings.node_name,
            on_change=self._mode_changed.set,
            on_connected=shares.reconnected,
        )
        loaded = device_config(settings.device_config)
        config = loaded.config
        store = RegionStore(settings.card_regions, str(settings.card_regions))
        self._resets = RegionResets(store)
        self._pods = NodePods(self._client, settings.node_name, self._resets.set)
        self._cards = CardNode(
            settings,
            client=self._client,
            config=config,
            regions=store,
            device_numbers=device_numbers,
            stopping=self._loops.stopping,
        )
        self._service = CardService(
            settings,
            client=self._client,
            events=self._events,
            config=config,
            cards=self._cards,
            regions=store,
            node=self._node.node,
            alive=self._pods.alive,
        )
        self._mode = ModeWatch(
            settings,
            Mode.DEVICE_PLUGIN,
            node=self._node.node,
            events=self._events,
            file=file,
            users=lambda: pods_left(self._client, settings.node_name),
            shares=shares,
        )
        self._observe(loaded)

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""
        settings, loops = self._settings, self._loops
        own = settings.plugin_directory
        for directory in (own, own / "containers", settings.card_regions):
            make_directory(directory, FaultPoint.PLUGIN_DIRECTORY_MADE, mode=0o750)
        self._cards.library.kept.sweep_temporary()
        self._service.containers.restore()
        self._probes.start()
        self._node.start()
        self._pods.start()
        self._cards.start(loops)
        self._service.start(loops)
        loops.run("region resets", lambda: self._resets.run(loops.stopping), wake=self._resets)
        loops.every(settings.scan_interval_s / 2, self._say)
        loops.every(settings.restore_interval_s, self._sweep)
        for file in self._files:
            loops.every(settings.scan_interval_s, file.look)
        if settings.mode == AUTO:
            loops.every(settings.scan_interval_s, self._mode.look, wake=self._mode_changed)
        if self._monitor is not None:
            self._monitor.start()
        log.info("plugin started", node=settings.node_name)

    def stop(self) -> None:
        """Stop serving, then everything else; what was handed out stays."""
        self._loops.stopping.set()
        self._service.stop()
        if self._monitor is not None:
            self._monitor.stop()
        self._loops.stop(_STOP_S)
        if self._mode.is_leaving:
            self._withdraw()
        _together(self._cards.stop, self._pods.stop, self._node.stop)
        self._resets.close()
        self._probes.stop()
        self._events.close()
        self._client.close()
        log.info("plugin stopped")

    def _withdraw(self) -> None:
        """Take back what the node says of its cards: nobody hands them out any more."""
        try:
            self._cards.announcer.withdraw()
        except KubeError as error:
            log.warning("node annotations not withdrawn", reason=str(error))

    def _observe(self, loaded: Loaded) -> None:
        settings, registry, config = self._settings, CollectorRegistry(), loaded.config
        current = self._cards.current
        self._files = loaded.files
        registry.register(FileFigures(lambda: (*loaded.states(), *current.files())))
        registry.register(OfferCollector(current, self._cards.announcer.problem))
        self._monitor = self._monitoring(config, registry) if settings.monitor else None
        self._probes = ProbeServer(
            settings.probe_address,
            settings.probe_port,
            {},
            ready_checks={
                "kubelet": self._service.problem,
                "gpus": self._cards.state.problem,
                "node": self._cards.announcer.problem,
            },
            registry=registry,
        )

    def _monitoring(self, config: DeviceConfig, registry: CollectorRegistry) -> "NodeMonitor":
        # An agent that is not to measure does without half a dozen modules.
        from cli.nodeagent.monitoring import Given, NodeMonitor  # noqa: PLC0415

        return NodeMonitor(
            self._settings,
            events=self._events,
            usage=self._cards.usage,
            registry=registry,
            pods=self._pods,
            given=Given(
                plugin_regions=self._settings.card_regions,
                plugin_resources=frozenset({config.nvidia.resource_count_name}),
            ),
        )

    def _sweep(self) -> None:
        """Remove what containers have left that are gone, and mend what the others need."""
        self._service.containers.restore()
        self._resets.set()
        live = self._pods.containers()
        if live is not None:
            self._service.containers.sweep(live, self._pods.deleted())
        self._service.sweep_libraries()

    def _say(self) -> None:
        """Say on the Node what an administrator has to mend."""
        node = self._node.node()
        if node is None:
            return
        uid = str(node["metadata"].get("uid", ""))
        about = Regarding(api_version="v1", kind="Node", name=self._settings.node_name, uid=uid)
        for refusal in self._cards.current.problems():
            self._events.event(about, "Warning", refusal.code, str(refusal))
        before, self._troubles = (
            self._troubles,
            {
                "GpusNotReadable": self._cards.state.problem(),
                "DevicePluginNotServed": self._service.problem(),
            },
        )
        for reason, problem in self._troubles.items():
            # What lasts: at a start, or when kubelet is started again, both are true for a moment.
            if problem is not None and before.get(reason) is not None:
                self._events.event(about, "Warning", reason, problem)


def _together(*stops: Callable[[], None]) -> None:
    """Call all of *stops*, each of which may wait a second for a server that says nothing."""
    threads = [threading.Thread(target=each) for each in stops]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
