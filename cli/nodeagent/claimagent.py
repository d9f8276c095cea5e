"""The node agent of a node that serves claims: the kubelet plugin, and what watches its mode."""

from cli.nodeagent.choice import ModeWatch
from cli.nodeagent.mode import AUTO, Mode
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.users import named
from dra.deviceedits import DeviceNumbers
from dra.loops import Loops
from dra.plugin import Plugin
from kube.config import ClientConfig

_MODE_LOOK_S = 30.0


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
        self._watch: ModeWatch | None = None

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""
        self._plugin.start()
        if self._settings.mode == AUTO:
            self._watch = self._follow_mode()

    def stop(self) -> None:
        """Stop; state, slices and specs stay as they are."""
        self._loops.stop(1.0)
        if self._watch is not None:
            self._watch.stop()
        self._plugin.stop()

    def _follow_mode(self) -> ModeWatch:
        watch = ModeWatch(
            self._settings,
            Mode.DRA,
            client=self._plugin.client,
            events=self._plugin.events,
            file=self._file,
            users=lambda: named(self._plugin.claims()),
        )
        watch.start()
        self._loops.every(_MODE_LOOK_S, watch.look, wake=watch.changed)
        return watch
