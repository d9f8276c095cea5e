"""The node as prepare sees it: its devices, the files of its driver, the limiting library.

Reading NVML and walking a driver root is slow and happens beside the calls; a call takes the
newest finished view. Before the first look has ended, a call waits a little, because kubelet may
call as soon as the plugin is registered; a look that failed is said at once.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdi.library import HookLibrary
from dra.grants import NodeDevice, devices_by_name
from dra.render import SpecRenderer
from gpu.model import Inventory
from gpu.refusal import Refusal, RefusedError

WAIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One consistent picture; replaced as a whole, never changed."""

    inventory: Inventory
    renderer: SpecRenderer
    library: HookLibrary | None
    library_problem: str = ""
    """Why there is no library, when there is none."""
    devices: Mapping[str, NodeDevice] = field(init=False)
    """By published name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", devices_by_name(self.inventory))

    def require_library(self) -> HookLibrary:
        """Return the library; refuse a share that nothing would limit."""
        if self.library is not None:
            return self.library
        raise RefusedError(
            Refusal(
                code="LibraryMissing",
                field="node",
                value="libvgpu.so",
                limit=f"shares cannot be limited on this node: {self.library_problem}",
                remedy="install HAMi-core there and point the driver to it",
            )
        )


class NodeState:
    """The newest view, set by the inventory and read by calls."""

    def __init__(self) -> None:
        self._looked = threading.Event()
        self._view: NodeView | None = None
        self._problem = "the GPUs have not been read yet"

    def set(self, view: NodeView) -> None:
        """Make *view* the one that calls see."""
        self._view = view
        self._problem = ""
        self._looked.set()

    def fail(self, problem: str) -> None:
        """Say why there is no view, or none that is still true; an earlier one stays."""
        self._problem = problem
        self._looked.set()

    def problem(self) -> str | None:
        """Return what kept the last look from succeeding, `None` when nothing did."""
        return self._problem or None

    def is_known(self) -> bool:
        """Tell whether there is a view, be it an old one."""
        return self._view is not None

    def current(self, *, wait_s: float = WAIT_S) -> NodeView:
        """Return the newest view, waiting for the first look; raise `RefusedError` without one."""
        self._looked.wait(wait_s)
        if self._view is None:
            raise RefusedError(
                Refusal(
                    code="NodeNotReady",
                    field="node",
                    value="inventory",
                    limit=self._problem,
                    remedy="kubelet tries again",
                )
            )
        return self._view
