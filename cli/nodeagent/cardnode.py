"""The node of a device plugin: its GPUs as they are, what it offers of them, what it says of them.

The GPUs are read as for claims, by the same thread that owns the session with the driver.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cdi.cardspec import CardEdits
from cdi.regionstore import RegionStore
from cli.nodeagent.settings import NodeAgentSettings
from dra import wiring
from dra.deviceedits import DeviceEdits, DeviceNumbers
from dra.inventory import InventoryReader, LibrarySource
from dra.loops import Loops
from dra.node import NodeState
from gpu.driver import DriverRoot
from gpu.instances import read_profiles
from gpu.links import read_links
from gpu.model import GpuUuid, Inventory
from gpu.nvml import Nvml
from gpu.usage import UsageReader
from hami.deviceconfig import DeviceConfig
from hami.deviceconfigfile import Loaded, load
from hami.plugin.announcement import RegisterFormat
from hami.plugin.announcing import Announcer, AnnouncerRules
from hami.plugin.configfile import ConfigFiles, NodeConfigKeeper
from hami.plugin.current import CurrentOffer
from hami.plugin.ownnode import OwnNode
from kube.client import Client

_LISTENS = Callable[[], None]
_SHOWN_S: Final = 10.0


def device_config(path: Path | None) -> Loaded:
    """Return what HAMi's file says, or what its chart renders; raises `DeviceConfigError`."""
    return Loaded(DeviceConfig()) if path is None else load(path)


class CardNode:
    """Follows the GPUs and the Node; `start` it, then `stop` it."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        *,
        client: Client,
        config: DeviceConfig,
        regions: RegionStore,
        device_numbers: DeviceNumbers,
        stopping: threading.Event,
    ) -> None:
        self._settings, self._stopping = settings, stopping
        self._listeners = list[_LISTENS]()
        self._session: Nvml | None = None
        self._profiled = frozenset[tuple[GpuUuid, bool]]()
        self._partitions = frozenset[str]()
        self._read = threading.Condition()
        self._edits: CardEdits | None = None
        self.node = OwnNode(client=client, node_name=settings.node_name)
        self.state = NodeState()
        self.usage = UsageReader(lambda: self._session)
        self.current = CurrentOffer(
            NodeConfigKeeper(
                ConfigFiles(
                    external=settings.external_node_config,
                    inline=settings.node_config,
                    base=config.nvidia,
                ),
                node_name=settings.node_name,
            ),
            self._changed,
        )
        self.announcer = Announcer(
            node=self.node,
            source=self.current,
            rules=AnnouncerRules(
                form=RegisterFormat(settings.register_format), topology=settings.topology_score
            ),
        )
        self.library: LibrarySource = wiring.library_source(
            settings, settings.plugin_directory / "libraries"
        )
        self._inventory = InventoryReader(
            sysfs=settings.sys_root,
            locate=lambda: wiring.find_driver(settings, stopping),
            edits=self._found_edits(wiring.device_edits(settings, device_numbers)),
            library=self.library,
            region_host_path=regions.host_path,
            node=self.state,
            changed=self._inventory_changed,
            failed=self.current.set_failure,
            health=wiring.health_rules(settings),
            ask=self._ask,
        )

    def listen(self, listener: _LISTENS) -> None:
        """Have *listener* called when the offer may be another one; before `start`."""
        self._listeners.append(listener)

    def edits(self) -> CardEdits | None:
        """Return what containers need for each GPU, `None` while that is not known."""
        return self._edits

    def session(self) -> Nvml | None:
        """Return the session with the driver, `None` before the first."""
        return self._session

    def shows(self, partitions: frozenset[str]) -> bool:
        """Read the GPUs again; tell whether the MIG devices *partitions* are there within 10 s."""
        with self._read:
            if not partitions <= self._partitions:
                self._inventory.look()
            return self._read.wait_for(lambda: partitions <= self._partitions, _SHOWN_S)

    def start(self, loops: Loops) -> None:
        """Begin to read the GPUs and to follow the Node."""
        self.node.listen(self._node_changed)
        self.node.start()
        loops.run(
            "inventory",
            lambda: self._inventory.run(loops.stopping, interval_s=self._settings.scan_interval_s),
        )
        loops.run("announcer", lambda: self.announcer.run(loops.stopping), wake=self.announcer)

    def stop(self) -> None:
        """Follow the Node no more; what it says stays."""
        self.node.stop()

    def _node_changed(self) -> None:
        copy = self.node.copy()
        if copy is not None:
            self.current.set_labels(copy.labels)
        self.announcer.set()

    def _inventory_changed(self, inventory: Inventory) -> None:
        self.current.set_inventory(inventory)
        with self._read:
            self._partitions = frozenset(
                mig.uuid for gpu in inventory.gpus for mig in gpu.mig_devices
            )
            self._read.notify_all()

    def _changed(self) -> None:
        self.announcer.set()
        for listener in self._listeners:
            listener()

    def _ask(self, session: Nvml, inventory: Inventory) -> None:
        self._session = session
        # An Ampere GPU tells its profiles only while MIG is on.
        profiled = frozenset((gpu.uuid, gpu.mig_enabled) for gpu in inventory.gpus)
        if profiled != self._profiled:
            found = read_profiles(session.call, session.handles())
            if len(found) == len(profiled):
                self._profiled = profiled
            self.current.set_profiles(found)
        if self._settings.topology_score:
            self.current.set_links(read_links(session.call, inventory.gpus, session.handles()))

    def _found_edits(
        self, find: Callable[[DriverRoot, Inventory], DeviceEdits]
    ) -> Callable[[DriverRoot, Inventory], DeviceEdits]:
        def found(root: DriverRoot, inventory: Inventory) -> DeviceEdits:
            edits = find(root, inventory)
            self._edits = edits
            return edits

        return found
