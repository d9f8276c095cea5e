"""The two capability nodes that open a MIG device: its GPU instance's and its compute instance's.

The kernel module says minor and mode in `/proc/driver/nvidia/capabilities`, and the major in
`/proc/devices`. The nodes themselves may not exist on the host until nvidia-modprobe has run, so
nothing is asked of them: the runtime makes them from the numbers.
"""

import re
from pathlib import Path

from cdi.edits import DeviceNode
from cdi.rooted import below
from cdi.tree import DriverTree
from gpu.model import Gpu, MigDevice
from gpu.refusal import Refusal, RefusedError

_DEFAULT_MODE = 0o444
_MAJOR = re.compile(r"^ *([0-9]{1,9}) nvidia-caps$", re.MULTILINE)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _missing(value: Path, what: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code="MigCapabilityMissing",
            field="procRoot",
            value=str(value),
            limit=what,
            remedy="check that MIG is on and that the device still exists",
        )
    )


def _major(proc_root: Path) -> int:
    path = proc_root / "devices"
    characters = (_read(path) or "").partition("Block devices:")[0]
    match = _MAJOR.search(characters)
    if match is None:
        raise _missing(path, "has no character device nvidia-caps")
    return int(match[1])


def _number(text: str, key: str) -> int | None:
    match = re.search(rf"^{key}: *([0-9]{{1,9}})\s*$", text, re.MULTILINE)
    return int(match[1]) if match else None


def _minor_and_mode(proc_root: Path, *, gpu_minor: int, instance: str) -> tuple[int, int]:
    """Return the numbers of *instance*, such as `gi1` or `gi1/ci0`."""
    path = proc_root / f"driver/nvidia/capabilities/gpu{gpu_minor}/mig/{instance}/access"
    told = _read(path)
    if told is not None:
        minor = _number(told, "DeviceFileMinor")
        if minor is None:
            raise _missing(path, "says no DeviceFileMinor")
        return minor, _number(told, "DeviceFileMode") or _DEFAULT_MODE
    listed = _read(proc_root / "driver/nvidia-caps/mig-minors") or ""
    match = re.search(rf"^gpu{gpu_minor}/{instance}/access ([0-9]{{1,9}})$", listed, re.MULTILINE)
    if match is None:
        raise _missing(path, "is missing, and mig-minors does not list it")
    return int(match[1]), _DEFAULT_MODE


def capability_nodes(tree: DriverTree, gpu: Gpu, mig: MigDevice) -> tuple[DeviceNode, ...]:
    """Return the nodes that *mig* needs besides its parent's."""
    major = _major(tree.proc_root)
    gpu_instance = f"gi{mig.gpu_instance_id}"
    nodes = []
    for instance in (gpu_instance, f"{gpu_instance}/ci{mig.compute_instance_id}"):
        minor, mode = _minor_and_mode(tree.proc_root, gpu_minor=gpu.minor, instance=instance)
        path = f"/dev/nvidia-caps/nvidia-cap{minor}"
        host_path = below(tree.host_dev_root, path)
        nodes.append(
            DeviceNode(
                path=path,
                host_path="" if host_path == path else host_path,
                type="c",
                major=major,
                minor=minor,
                file_mode=mode,
                permissions="rw",
            )
        )
    return tuple(nodes)
