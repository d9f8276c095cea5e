"""Reads the node again and again: GPUs, the driver's files, the limiting library.

A driver may be installed, updated or taken away while the plugin runs (a driver container comes
up after it), so not finding one is a state with a reason and not the end. The edits that make a
GPU usable are computed only when something they depend on has changed.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from cdi.errors import CdiError
from cdi.library import HookLibrary, LibraryStore
from dra.deviceedits import DeviceEdits
from dra.node import NodeState, NodeView
from dra.render import SpecRenderer
from gpu import driver
from gpu.errors import DriverNotFoundError, NvmlError
from gpu.model import Inventory
from gpu.nvml import Nvml
from gpu.refusal import RefusedError

log = structlog.get_logger(__name__)

Locate = Callable[[], driver.DriverRoot]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySource:
    """Where HAMi-core comes from."""

    path: Path | None
    """Its `libvgpu.so`; `None` where none is configured."""
    kept: LibraryStore
    accept_placeholder: bool = False


class InventoryReader:
    """Owns the NVML session; publishes a `NodeView` after every change."""

    def __init__(  # noqa: PLR0913  # the one place where the parts of a view meet
        self,
        *,
        sysfs: Path,
        locate: Locate,
        edits: Callable[[driver.DriverRoot, Inventory], DeviceEdits],
        library: LibrarySource,
        region_host_path: Callable[[str], str],
        node: NodeState,
        changed: Callable[[Inventory], None],
    ) -> None:
        self._sysfs = sysfs
        self._locate = locate
        self._edits = edits
        self._source = library
        self._region_host_path = region_host_path
        self._node = node
        self._changed = changed
        self._nvml: Nvml | None = None
        self._root: driver.DriverRoot | None = None
        self._seen: tuple[Inventory, HookLibrary | None, str] | None = None
        self._problem = ""
        self._adopted: dict[str, HookLibrary] = {}

    def read(self) -> None:
        """Look once; on a change make the view new, on failure say why."""
        try:
            inventory = self._inventory()
            library, problem = self._library()
            if self._seen == (inventory, library, problem):
                return
            self._node.set(self._view(inventory, library, problem))
            self._seen = (inventory, library, problem)
        except (DriverNotFoundError, NvmlError, RefusedError, CdiError, OSError) as error:
            self._fail(str(error))
            return
        self._problem = ""
        for fault in inventory.faults:
            log.warning("gpu not readable", index=fault.index, uuid=fault.uuid, reason=fault.reason)
        log.info("inventory read", gpus=len(inventory.gpus), faults=len(inventory.faults))
        self._changed(inventory)

    def run(self, stop: threading.Event, *, interval_s: float) -> None:
        """Read until *stop* is set, then end the NVML session."""
        while True:
            try:
                self.read()
            except Exception:  # the top of the thread's loop
                log.exception("inventory failed")
            if stop.wait(interval_s):
                break
        self.close()

    def close(self) -> None:
        """End the NVML session, so that the driver's module can be unloaded."""
        session, self._nvml = self._nvml, None
        if session is None:
            return
        try:
            session.close()
        except NvmlError as error:
            log.warning("nvml session not closed", reason=str(error))

    def _inventory(self) -> Inventory:
        if self._nvml is None:
            self._root = self._locate()
            self._nvml = Nvml(self._root.library_path, sysfs=self._sysfs).open()
        return self._nvml.inventory()

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            log.error("inventory not available", reason=problem)
        self._problem = problem
        self._node.fail(problem)
        self._seen = None
        # The driver may come back elsewhere and as another version: begin from nothing.
        self.close()

    def _library(self) -> tuple[HookLibrary | None, str]:
        if self._source.path is None:
            return None, "no HAMi-core library is configured"
        try:
            library = self._source.kept.adopt(self._source.path)
        except RefusedError as error:
            return None, str(error)
        if library.placeholder and not self._source.accept_placeholder:
            return None, f"{self._source.path} is a placeholder that enforces nothing"
        self._adopted[library.sha256] = library
        return library, ""

    def _view(self, inventory: Inventory, library: HookLibrary | None, problem: str) -> NodeView:
        root = self._root
        assert root is not None  # noqa: S101  # found before the inventory was read
        edits = self._edits(root, inventory)
        return NodeView(
            inventory=inventory,
            renderer=SpecRenderer(
                common=edits.common,
                by_uuid=edits.by_uuid,
                library=self._kept_library,
                region_host_path=self._region_host_path,
            ),
            library=library,
            library_problem=problem,
        )

    def _kept_library(self, sha256: str) -> HookLibrary:
        """Return the copy that a record names, although the node may have a newer one."""
        if sha256 not in self._adopted:
            copy = self._source.kept.directory / sha256 / "libvgpu.so"
            self._adopted[sha256] = self._source.kept.adopt(copy, expected_sha256=sha256)
        return self._adopted[sha256]
