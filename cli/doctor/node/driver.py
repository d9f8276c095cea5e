"""Checks of the NVIDIA driver: found as the agent finds it, its nodes, and NVML.

NVML runs in another process: a library that does not fit may end it, or never return.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from cli.doctor.model import Check, Verdict, counted, failed, listed, ok, skipped, unknown, warning
from cli.doctor.node.view import Node
from gpu import driver
from gpu.errors import DriverNotFoundError

NVML_COMMAND: Final = (sys.executable, "-m", "cli.main", "discover", "--json", "--driver-root")
_NVML_S: Final = 60.0
_NEEDED: Final = ("nvidiactl", "nvidia-uvm")
_NO_GPU: Final = "no NVIDIA GPU is on the PCI buses of this node"


def driver_root(node: Node) -> Verdict:
    """Search the driver as the node agent does."""
    try:
        found = driver.find(node.driver_root, host_root=node.host_root)
    except DriverNotFoundError as error:
        if node.has_nvidia_gpus() is False:
            return skipped(_NO_GPU)
        return failed(str(error), "install the driver, or name its place with --driver-root")
    said = f"{found.library_path.name} below {found.host_path}"
    return ok(f"{said}, device nodes below {found.host_dev_path}")


def device_nodes(node: Node) -> Verdict:
    """Look for the device nodes without which no CUDA program starts."""
    try:
        found = driver.find(node.driver_root, host_root=node.host_root)
    except DriverNotFoundError:
        return skipped("without a driver there are none")
    dev = found.local_dev_path / "dev"
    missing = [f"/dev/{name}" for name in _NEEDED if not (dev / name).exists()]
    gpus = _gpus(dev)
    if not gpus:
        missing.append("/dev/nvidia<number>")
    if missing:
        remedy = "load the modules: `nvidia-modprobe -u -c=0`, or start nvidia-persistenced"
        return failed(f"missing: {', '.join(missing)}", remedy)
    return ok(f"/dev/nvidiactl, /dev/nvidia-uvm and {counted(len(gpus), 'GPU')}")


def _gpus(dev: Path) -> list[str]:
    try:
        names = [each.name for each in dev.glob("nvidia[0-9]*")]
    except OSError:
        return []
    return [name for name in names if name.removeprefix("nvidia").isdecimal()]


def nvml(node: Node) -> Verdict:
    """Have another process list the GPUs."""
    try:
        found = driver.find(node.driver_root, host_root=node.host_root)
    except DriverNotFoundError:
        return skipped("without a driver there is no NVML")
    command = (*(node.nvml_command or NVML_COMMAND), str(found.local_path))
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_NVML_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        remedy = "look at the kernel's log for XIDs; the node may need a reboot"
        return failed(f"NVML did not answer within {int(_NVML_S)} s", remedy)
    except OSError as error:
        return unknown(f"NVML was not asked: {error}")
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip().splitlines() or ["without a word"]
        text = said[0].removeprefix("error: ")
        remedy = (
            "run `nvidia-smi` on the node; driver library and kernel module must be of one release"
        )
        if ran.returncode < 0:
            text = f"it was ended by signal {-ran.returncode}"
        return failed(f"NVML cannot be used: {text}", remedy)
    return _listed(ran.stdout)


def _listed(output: bytes) -> Verdict:
    try:
        found: dict[str, Any] = json.loads(output)
        gpus, faults, ailments = found["gpus"], found["faults"], found["ailments"]
        names = [str(gpu["name"]) for gpu in gpus]
        version = found["driver_version"]
    except (ValueError, LookupError, TypeError) as error:
        return unknown(f"what was said of the GPUs cannot be read: {error}")
    troubles = [str(each["message"]) for each in (*ailments, *faults)]
    said = f"driver {version}: {counted(len(gpus), 'GPU')}"
    if troubles:
        return warning(said, "look at `nvidia-smi` and the kernel's log", *troubles)
    if not gpus:
        return failed(f"{said}", "look at `lspci` and the kernel's log")
    return ok(f"{said} ({listed(names)})")


CHECKS: Final = (
    Check(id="driver-root", run=driver_root),
    Check(id="device-nodes", run=device_nodes),
    Check(id="nvml", run=nvml),
)
