"""Reads the node again and again: GPUs, the driver's files, the limiting library.

A driver may be installed, updated or taken away while the plugin runs (a driver container comes
up after it), so not finding one is a state with a reason and not the end. The edits that make a
GPU usable are computed only when something they depend on has changed, which its health is not.

Between two looks the thread waits for XIDs, and looks at once when one counts. It never waits
long, and on its way out it ends the NVML session, so that a driver can be replaced as soon as the
agent is told to end (k8s-driver-manager waits for NVML's clients before it unloads the module).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from cdi.compatibility import Source
from cdi.errors import CdiError
from cdi.library import HookLibrary, LibraryStore
from cdi.libraryfit import misfit
from dra.deviceedits import DeviceEdits
from dra.healthwatch import HealthRules, HealthWatch
from dra.node import NodeState, NodeView
from dra.render import SpecRenderer
from gpu import driver
from gpu.errors import (
    DriverNotFoundError,
    DriverNotLoadedError,
    LibraryNotFoundError,
    NvmlError,
    StoppedError,
)
from gpu.health import code_of
from gpu.model import Ailment, GpuUuid, Inventory
from gpu.nvml import Nvml
from gpu.refusal import RefusedError

log = structlog.get_logger(__name__)

Locate = Callable[[], driver.DriverRoot]

_EVENT_WAIT_S = 0.4
_SHORTEST_INTERVAL_S = 1.0
"""XIDs that come in a burst cause one look, not one each."""
_MESSAGE_MAX = 200


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
        failed: Callable[[Ailment], None] = lambda _ailment: None,
        health: HealthRules | None = None,
        ask: Callable[[Nvml, Inventory], None] = lambda _session, _inventory: None,
    ) -> None:
        """Prepare; *changed* gets each new inventory, *failed* why there is none any more.

        Before *changed*, *ask* may ask the session for more; it should raise no `NvmlError`.
        """
        self._sysfs = sysfs
        self._locate = locate
        self._edits = edits
        self._source = library
        self._region_host_path = region_host_path
        self._node = node
        self._changed = changed
        self._ask = ask
        self._failed = failed
        self._watch = HealthWatch(health or HealthRules())
        self._stop: threading.Event | None = None
        self._asked = threading.Event()
        self._nvml: Nvml | None = None
        self._root: driver.DriverRoot | None = None
        self._shown: NodeView | None = None
        self._problem = ""
        self._adopted: dict[str, HookLibrary] = {}

    def read(self) -> None:
        """Look once; on a change make the view new, on failure say why."""
        try:
            inventory = self._inventory()
            library, problem = self._library(inventory.cuda_driver_version)
            view = self._changed_view(inventory, library, problem)
        except (DriverNotFoundError, NvmlError, RefusedError, CdiError, OSError) as error:
            if self._is_stopping():
                # Giving up a wait for the driver is no reason to call its GPUs unusable.
                raise StoppedError from error
            self._fail(error)
            return
        self._problem = ""
        if view is None:
            return
        assert self._nvml is not None  # noqa: S101  # it was just read
        self._ask(self._nvml, inventory)
        before, self._shown = self._shown, view
        self._node.set(view)
        for fault in inventory.faults:
            if before is None or fault not in before.inventory.faults:
                log.warning(
                    "gpu not readable", index=fault.index, uuid=fault.uuid, reason=fault.reason
                )
        log.info(
            "inventory read",
            gpus=len(inventory.gpus),
            faults=len(inventory.faults),
            ailments=len(inventory.ailments),
        )
        self._changed(inventory)

    def run(self, stop: threading.Event, *, interval_s: float) -> None:
        """Read until *stop* is set, then end the NVML session."""
        self._stop = stop
        while not stop.is_set():
            try:
                self._asked.clear()
                self.read()
                self._wait(stop, interval_s)
            except StoppedError:
                break
            except Exception:  # the top of the thread's loop
                log.exception("inventory failed")
                stop.wait(interval_s)
        self.close()

    def look(self) -> None:
        """Have `run` read once more, soon; may be called from any thread."""
        self._asked.set()

    def close(self) -> None:
        """End the NVML session, so that the driver's module can be unloaded."""
        session, self._nvml = self._nvml, None
        if session is None:
            return
        self._watch.end_session()
        try:
            session.close()
        except NvmlError as error:
            log.warning("nvml session not closed", reason=str(error))
            return
        log.info("nvml session closed")

    def _wait(self, stop: threading.Event, interval_s: float) -> None:
        """Wait until it is time to look again."""
        started_s = time.monotonic()
        due_s = started_s + interval_s
        while not stop.is_set() and (left_s := due_s - time.monotonic()) > 0:
            if self._asked.is_set():
                return
            if self._watch.wait(stop, min(left_s, _EVENT_WAIT_S)):
                due_s = min(due_s, started_s + _SHORTEST_INTERVAL_S)

    def _inventory(self) -> Inventory:
        if self._nvml is None:
            self._root = self._locate()
            self._nvml = Nvml(
                self._root.library_path, sysfs=self._sysfs, stopping=self._is_stopping
            ).open()
        reading = self._nvml.read()
        self._watch.follow(self._nvml)
        return self._watch.diagnose(reading)

    def _is_stopping(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _fail(self, error: Exception) -> None:
        before, problem = self._problem, str(error)
        self._problem = problem
        self._node.fail(problem)
        self._shown = None
        if _is_driver_gone(error):
            self._watch.forget()
        # The driver may come back elsewhere and as another version: begin from nothing.
        self.close()
        if problem != before:
            log.error("inventory not available", reason=problem)
            self._failed(_as_ailment(error))

    def _library(self, cuda_driver_version: str) -> tuple[HookLibrary | None, str]:
        if self._source.path is None:
            return None, "no HAMi-core library is configured"
        try:
            library = self._source.kept.adopt(self._source.path)
        except RefusedError as error:
            return None, str(error)
        if library.placeholder and not self._source.accept_placeholder:
            return None, f"{self._source.path} is a placeholder that enforces nothing"
        refusal = misfit(library, cuda_driver_version=cuda_driver_version)
        if refusal is not None:
            return None, str(refusal)
        if library.sha256 not in self._adopted and not library.placeholder:
            _say_unjudged(library)
        self._adopted[library.sha256] = library
        return library, ""

    def _changed_view(
        self, inventory: Inventory, library: HookLibrary | None, problem: str
    ) -> NodeView | None:
        """Return the view to show from now on, `None` if the one that is shown is still true."""
        shown = self._shown
        if shown is None:
            return self._view(inventory, library, problem)
        unchanged = replace(shown.inventory, ailments=inventory.ailments) == inventory
        if not unchanged or (library, problem) != (shown.library, shown.library_problem):
            return self._view(inventory, library, problem)
        if shown.inventory == inventory:
            return None
        return replace(shown, inventory=inventory)

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


def _say_unjudged(library: HookLibrary) -> None:
    known = library.compatibility
    if known.source is not Source.MANIFEST:
        log.warning(
            "library used without a manifest",
            sha256=library.sha256,
            release=known.version or None,
            assumed=known.source is Source.ASSUMED,
            remedy="put a manifest beside it, so that it is judged before it is used",
        )


def _is_driver_gone(error: Exception) -> bool:
    """Tell whether the kernel module was away, or is another one than this process knows."""
    kinds = (DriverNotFoundError, DriverNotLoadedError, LibraryNotFoundError)
    return isinstance(error, kinds) or _reason(error) == "LIB_RM_VERSION_MISMATCH"


def _as_ailment(error: Exception) -> Ailment:
    message = str(error).encode("ascii", "replace").decode()
    return Ailment(uuid=GpuUuid(""), code=code_of(_reason(error)), message=message[:_MESSAGE_MAX])


def _reason(error: Exception) -> str:
    if isinstance(error, NvmlError):
        return error.reason
    return "DRIVER_NOT_FOUND" if isinstance(error, DriverNotFoundError) else "DRIVER_NOT_USABLE"
