"""A host with a simulated driver, and what reads its GPUs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cdi.hooks import NO_HOOKS
from cdi.library import LibraryStore, make_placeholder
from dra.deviceedits import Scan
from dra.inventory import InventoryReader, LibrarySource
from dra.node import NodeState
from gpu import driver
from gpu.model import Ailment, Inventory
from sim import driverroot, gpufile, nvml
from sim.driverroot import numbers_of

TWO_GPUS = "gpus: [{profile: l4, count: 2}]"


@dataclass(slots=True)
class Machine:
    """A host with a simulated driver, and what reads it."""

    root: Path
    accept_placeholder: bool = True
    seen: list[Inventory] = field(default_factory=list)
    failures: list[Ailment] = field(default_factory=list)
    state: NodeState = field(default_factory=NodeState)
    edits: int = 0
    asked: list[int] = field(default_factory=list)
    """How many GPUs each time when the session was asked for more."""
    reader: InventoryReader = field(init=False)

    def __post_init__(self) -> None:
        make_placeholder(self.library)
        self.reader = InventoryReader(
            sysfs=self.root / "sys",
            locate=lambda: driver.find("/run/nvidia/driver", host_root=self.root),
            edits=Scan(
                proc_root=self.root / "proc",
                sys_root=self.root / "sys",
                hooks=lambda _root: NO_HOOKS,
                device_numbers=numbers_of,
            ),
            library=LibrarySource(
                path=self.library,
                kept=LibraryStore(self.root / "libraries", "/host/libraries"),
                accept_placeholder=self.accept_placeholder,
            ),
            region_host_path=lambda uid: f"/host/regions/{uid}",
            node=self.state,
            changed=self.seen.append,
            failed=self.failures.append,
            ask=lambda session, _inventory: self.asked.append(len(session.handles())),
        )

    @property
    def library(self) -> Path:
        """The library that the administrator provides."""
        return self.root / "libvgpu.so"

    def has(self, text: str) -> None:
        """Give the machine the GPUs that *text* describes."""
        path = self.root / "gpus.yaml"
        path.write_text(text)
        self.edits += 1
        os.utime(path, ns=(self.edits, self.edits))
        driverroot.build(gpufile.load(path), self.root)
        if self.edits == 1:
            nvml.install(path)

    def ailments(self) -> list[tuple[str, str]]:
        """Return what was said last of what ails which device."""
        return [(each.uuid, each.code) for each in self.seen[-1].ailments]

    @contextmanager
    def reading(self, interval_s: float = 3600.0) -> Iterator[threading.Event]:
        """Run the reader in its thread; give what stops it, and stop it at the end."""
        stop = threading.Event()
        thread = threading.Thread(
            target=self.reader.run, args=(stop,), kwargs={"interval_s": interval_s}
        )
        thread.start()
        try:
            yield stop
        finally:
            stop.set()
            thread.join()


def one_gpu(more: str = "", node: str = "") -> str:
    """Return a node with one GPU that has a name."""
    return f"{{{node} gpus: [{{profile: l4, uuid: GPU-a, {more}}}]}}"


@contextmanager
def a_machine(root: Path) -> Iterator[Machine]:
    """Lend a machine without a driver yet, and give the binding back afterwards."""
    machine = Machine(root)
    try:
        yield machine
    finally:
        machine.reader.close()
        nvml.uninstall()
