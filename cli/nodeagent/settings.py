"""Everything an administrator can set of the node agent, whichever way its node is served."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from dra.settings import AgentSettings
from hami.plugin.settings import DevicePluginSettings


class NodeAgentSettings(AgentSettings, DevicePluginSettings):
    """The node agent."""

    mode: Literal["dra", "device-plugin", "auto"] = Field(
        "dra",
        description="how this node gives its GPUs away: claims, the device plugin, or as the "
        "Node's label gpuslice.io/node-mode says, and without it as the API server allows",
    )

    @property
    def card_regions(self) -> Path:
        """Where the regions of the device plugin's containers are."""
        if self.hami_layout:
            return Path(self.hook_path) / "vgpu" / "containers"
        return self.plugin_directory / "regions"
