"""Simulated GPUs behind the real binding, and what the inventory reads from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu.model import Inventory
from gpu.nvml import Nvml
from sim import nvml


@contextmanager
def simulated(text: str) -> Iterator[Path]:
    """Let the binding see the GPUs that *text* describes; yields the file that says so."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "gpus.yaml"
        path.write_text(text, encoding="utf-8")
        nvml.install(path)
        try:
            yield path
        finally:
            nvml.uninstall()


def inventory(text: str) -> Inventory:
    """Return what the inventory reads on a node with these GPUs."""
    with simulated(text), Nvml() as session:
        return session.inventory()
