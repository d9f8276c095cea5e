"""Edits that NVIDIA's own generator makes, for nodes that our scan does not understand.

`nvidia-ctk cdi generate` knows WSL, Tegra and whatever comes next. Its document is held against
the library's rules and then against ours: the host's MPS directory is dropped also where the
installed release does not know the switch for it, and its device nodes, which leave out the type
for the runtime to find, get one.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cdi.edits import ContainerEdits, DeviceNode, Mount
from cdi.errors import DelegateError, SpecError
from cdi.names import CLASS, VENDOR
from cdi.spec import Spec

_HOST_MPS = "/tmp/nvidia-mps"  # noqa: S108 - NVIDIA's name, to be kept out
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """How to run nvidia-ctk; *local_root* in its view is *host_root* in the runtime's."""

    command: Sequence[str] = ("nvidia-ctk",)
    local_root: str = "/"
    host_root: str = "/"
    timeout_s: float = _TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Edits for all devices, and those of each by NVML UUID."""

    common: ContainerEdits
    devices: Mapping[str, ContainerEdits]


def generate(generator: Generator, uuids: Iterable[str]) -> Generated:
    """Run the generator for *uuids*; DelegateError says what went wrong."""
    wanted = sorted(set(uuids))
    return adapted(generator, _run(generator, wanted), wanted)


def adapted(generator: Generator, document: bytes, uuids: Sequence[str]) -> Generated:
    """Return what *document*, written by the generator, says of *uuids*; DelegateError if unfit."""
    try:
        spec = Spec.parse(document)
    except SpecError as error:
        raise DelegateError("wrote no usable spec", str(error)) from error
    devices = {
        device.name: _adapted(generator, device.container_edits)
        for device in spec.devices
        if device.name in uuids
    }
    missing = [uuid for uuid in uuids if uuid not in devices]
    if missing:
        raise DelegateError("did not describe", ", ".join(missing))
    return Generated(
        common=_adapted(generator, spec.container_edits), devices=MappingProxyType(devices)
    )


def _run(generator: Generator, uuids: list[str]) -> bytes:
    arguments = [
        *generator.command,
        *("cdi", "generate", "--format", "json", "--vendor", VENDOR, "--class", CLASS),
        *("--driver-root", generator.local_root, "--device-name-strategy", "uuid"),
        *("--no-all-device", "--feature-flag", "disable-ipc-discoverer"),
        *(text for uuid in uuids for text in ("--device-id", uuid)),
    ]
    try:
        done = subprocess.run(  # noqa: S603 - the administrator's own command, no shell
            arguments, capture_output=True, check=False, timeout=generator.timeout_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DelegateError("did not run", str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise DelegateError("failed", f"{said[-1]} (exit status {done.returncode})")
    return done.stdout


def _adapted(generator: Generator, edits: ContainerEdits) -> ContainerEdits:
    return edits.model_copy(
        update={
            "device_nodes": tuple(_typed(generator, node) for node in edits.device_nodes),
            "mounts": tuple(
                _host_mount(generator, mount)
                for mount in edits.mounts
                if mount.container_path != _HOST_MPS
            ),
        }
    )


def _on_host(generator: Generator, path: str) -> str:
    inner = path.removeprefix(generator.local_root.rstrip("/"))
    return generator.host_root.rstrip("/") + inner if inner.startswith("/") else path


def _typed(generator: Generator, node: DeviceNode) -> DeviceNode:
    if not node.major:
        raise DelegateError("gave no numbers", node.path)
    host_path = _on_host(generator, node.host_path or node.path)
    return node.model_copy(
        update={
            "type": node.type or "c",
            "minor": node.minor or 0,  # the generator leaves zeroes out
            "permissions": node.permissions or "rw",
            "host_path": "" if host_path == node.path else host_path,
        }
    )


def _host_mount(generator: Generator, mount: Mount) -> Mount:
    return mount.model_copy(update={"host_path": _on_host(generator, mount.host_path)})
