"""The node agent of a node that serves claims: the kubelet plugin, monitor, and mode."""

import threading
from typing import TYPE_CHECKING

from cli.nodeagent.leftbehind import clear_cards
from cli.nodeagent.mode import AUTO, Mode
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.modewatch import ModeWatch
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.sharing import SharesKept
from cli.nodeagent.users import named
from dra.deviceedits import DeviceNumbers
from dra.loops import Loops
from dra.nodewatch import NodeWatch
from dra.plugin import Plugin
from gpu.usage import UsageReader
from kube.config import ClientConfig

if TYPE_CHECKING:
    from cli.nodeagent.monitoring import NodeMonitor
    from cli.nodeagent.nodepods import NodePods

_STOP_S = 1.0


class ClaimAgent:
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
        self._file = file
        self._loops = Loops()
        self._plugin = Plugin(settings, device_numbers=device_numbers, identity=identity)
        self._pods: NodePods | None = None
        self._monitor: NodeMonitor | None = None
        self._changed = threading.Event()
        self._shares = SharesKept(self._plugin.client, least_s=settings.scan_interval_s)
        self._node = NodeWatch(
            client=self._plugin.client,
            node_name=settings.node_name,
            on_change=self._changed.set,
            on_connected=self._shares.reconnected,
        )

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""
        clear_cards(self._settings)
        self._plugin.start()
        if self._settings.monitor:
            self._pods, self._monitor = self._monitoring()
            self._pods.start()
            self._monitor.start()
        if self._settings.mode == AUTO:
            self._follow_mode()

    def stop(self) -> None:
        """Stop; state, slices and specs stay as they are."""
        self._loops.stop(_STOP_S)
        if self._monitor is not None:
            self._monitor.stop()
        if self._pods is not None:
            self._pods.stop()
        if self._settings.mode == AUTO:
            self._node.stop()
        self._plugin.stop()

    def _monitoring(self) -> "tuple[NodePods, NodeMonitor]":
        # An agent that is not to measure does without half a dozen modules.
        from cli.nodeagent.monitoring import Given, NodeMonitor  # noqa: PLC0415
        from cli.nodeagent.nodepods import NodePods  # noqa: PLC0415

        plugin = self._plugin
        pods = NodePods(plugin.client, self._settings.node_name)
        monitor = NodeMonitor(
            self._settings,
            events=plugin.events,
            usage=UsageReader(plugin.session),
            registry=plugin.registry,
            pods=pods,
            given=Given(claims=lambda: plugin.claims().values(), claim_region=plugin.region),
        )
        return pods, monitor

    def _follow_mode(self) -> None:
        watch = ModeWatch(
            self._settings,
            Mode.DRA,
            node=self._node.node,
            events=self._plugin.events,
            file=self._file,
            users=lambda: named(self._plugin.claims()),
            shares=self._shares,
        )
        self._node.start()
        self._loops.every(self._settings.scan_interval_s, watch.look, wake=self._changed)
