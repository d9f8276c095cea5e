"""The node agent of a node that serves kubelet's device plugins."""

from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from dra.deviceedits import DeviceNumbers
from kube.config import ClientConfig


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

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""

    def stop(self) -> None:
        """Stop serving."""
