"""`gpuslice discover`: what this node's GPUs look like to the driver of this project.

For a person a table, for a program `--json` with the fields of `gpu.model`. It needs no cluster:
it answers whether the NVIDIA driver is found, and which GPUs can be read.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu import driver
from gpu.errors import DriverNotFoundError, GpuError, LibraryNotFoundError
from gpu.model import Gpu, GpuFault, Inventory
from gpu.nvml import Nvml

_HEADINGS = ("PCI bus id", "Minor", "Name", "Memory", "NUMA", "Mode", "UUID")


class SimulatedGpusError(Exception):
    """The file of simulated GPUs cannot be used."""


_Row = tuple[str, ...]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `discover` to the commands of `gpuslice`."""
    parser = subparsers.add_parser("discover", help="print the GPUs of this node")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument(
        "--driver-root",
        default=driver.AUTO,
        metavar="auto|PATH",
        help="where the NVIDIA driver is installed (default: search the known places)",
    )
    parser.add_argument(
        "--simulated", type=Path, metavar="FILE", help="read simulated GPUs from a YAML file"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the inventory; 1 if the driver or NVML cannot be used."""
    try:
        inventory = _simulated(args.simulated) if args.simulated else _real(args.driver_root)
    except DriverNotFoundError as error:
        sys.stderr.write(f"error: {error}\nhint: name the place with `--driver-root`\n")
        return 1
    except (GpuError, SimulatedGpusError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if args.json:
        sys.stdout.write(json.dumps(asdict(inventory), indent=2) + "\n")
    else:
        _print(inventory)
    return 0


def _real(driver_root: str) -> Inventory:
    try:
        library = driver.find(driver_root).library_path
    except DriverNotFoundError as not_found:
        if driver_root != driver.AUTO:
            raise
        return _by_name(not_found)
    with Nvml(library) as nvml:
        return nvml.inventory()


def _by_name(not_found: DriverNotFoundError) -> Inventory:
    """Let the loader look: on a workstation it may know a place that no node has."""
    try:
        with Nvml() as nvml:
            return nvml.inventory()
    except LibraryNotFoundError:
        raise not_found from None


def _simulated(path: Path) -> Inventory:
    # Only this option needs the simulation, which has dependencies of its own.
    try:
        from sim import driverroot, gpufile, nvml  # noqa: PLC0415
    except ImportError as error:
        message = f"the simulation is not installed: {error}; install `gpuslice[sim]`"
        raise SimulatedGpusError(message) from error
    try:
        file = gpufile.load(path)
        nvml.install(path)
        with TemporaryDirectory() as directory:
            host = driverroot.build(file, Path(directory))
            with Nvml(sysfs=host.sysfs) as session:
                return session.inventory()
    except gpufile.GpuFileError as error:
        raise SimulatedGpusError(str(error)) from error
    finally:
        nvml.uninstall()


def _print(inventory: Inventory) -> None:
    driver_line = f"driver {inventory.driver_version}, CUDA {inventory.cuda_driver_version}"
    rows = [row for gpu in inventory.gpus for row in _rows(gpu)]
    sys.stdout.write(driver_line + "\n")
    if not rows:
        sys.stdout.write("no usable GPU\n")
    elif sys.stdout.isatty():
        _print_table(rows)
    else:
        _print_plain(rows)
    for ailment in inventory.ailments:
        sys.stdout.write(f"GPU {ailment.uuid} gets no new work: {ailment.message}\n")
    for fault in inventory.faults:
        sys.stdout.write(_sentence(fault) + "\n")


def _rows(gpu: Gpu) -> Iterator[_Row]:
    memory = "the host's" if gpu.memory_mib is None else f"{gpu.memory_mib} MiB"
    numa = "-" if gpu.numa_node is None else str(gpu.numa_node)
    mode = "MIG" if gpu.mig_enabled else str(gpu.compute_mode)
    yield (gpu.pci_bus_id, str(gpu.minor), gpu.name, memory, numa, mode, gpu.uuid)
    for mig in gpu.mig_devices:
        yield ("", "", f"  MIG {mig.profile}", f"{mig.memory_mib} MiB", "", "", mig.uuid)


def _print_table(rows: list[_Row]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        # A name may hold brackets, which rich would take for its markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_plain(rows: list[_Row]) -> None:
    lines = [_HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _sentence(fault: GpuFault) -> str:
    known = fault.pci_bus_id or fault.uuid or f"index {fault.index}"
    return f"GPU {known} cannot be used: {fault.call} failed: {fault.reason}"
