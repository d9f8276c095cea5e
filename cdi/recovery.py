"""What a claim's spec on disk tells of the claim, when nothing else is left that does.

A spec outlives the record it was made from where the record is damaged, and the claim's object
where a pod was deleted by force. What it gives a container is in it, so it can be read back.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, get_args

from cdi.edits import ContainerEdits
from cdi.enforcement import CorePolicy, DeviceLimit
from cdi.errors import SpecError
from cdi.library import CONTAINER_LIBRARY_PATH
from cdi.names import KIND
from cdi.spec import Spec
from gpu.refusal import RefusedError

# As they are written; a leading zero would be octal to the library that reads them.
_MEMORY: Final = re.compile(r"([1-9][0-9]{0,17})m")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_MEMORY_NAME: Final = "CUDA_DEVICE_MEMORY_LIMIT_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSpec:
    """A spec of ours, read back."""

    devices: tuple[str, ...]
    """Names of its devices behind the claim's UID: `<device>` or `<device>-<share ID>`."""
    library_sha256: str | None
    """Of the library that enforces *limits*."""
    limits: tuple[DeviceLimit, ...]
    """In order of PCI bus id; empty where nothing is limited."""
    priority: int | None
    core_policy: CorePolicy
    log_level: int | None


def recover(claim_uid: str, data: bytes) -> RecoveredSpec:
    """Read the spec of a claim; SpecError says why it does not tell about that claim."""
    spec = Spec.parse(data)
    if spec.kind != KIND:
        raise SpecError("kind", f"`{spec.kind}` is not ours")
    prefix = f"{claim_uid}-"
    for device in spec.devices:
        if not device.name.startswith(prefix):
            raise SpecError("devices", f"{device.name} is not of claim {claim_uid}")
    env = _environment(spec.container_edits.env)
    limits = tuple(_limits(env))
    return RecoveredSpec(
        devices=tuple(device.name.removeprefix(prefix) for device in spec.devices),
        library_sha256=_library(spec.container_edits, limited=bool(limits)),
        limits=limits,
        priority=_number(env, "CUDA_TASK_PRIORITY"),
        core_policy=_core_policy(env),
        log_level=_number(env, "LIBCUDA_LOG_LEVEL"),
    )


def _environment(env: Iterable[str]) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in env)
    return {name: value for name, _, value in pairs}


def _limits(env: dict[str, str]) -> Iterable[DeviceLimit]:
    index = 0
    while (text := env.get(f"{_MEMORY_NAME}{index}")) is not None:
        memory = _MEMORY.fullmatch(text)
        cores = _number(env, f"CUDA_DEVICE_SM_LIMIT_{index}")
        try:
            yield DeviceLimit(memory_mib=int(memory[1]) if memory else 0, cores_percent=cores or 0)
        except RefusedError as error:
            raise SpecError("containerEdits.env", str(error)) from error
        index += 1
    if index != sum(name.startswith(_MEMORY_NAME) for name in env):
        raise SpecError("containerEdits.env", "limits of memory are missing between others")


def _number(env: dict[str, str], name: str) -> int | None:
    text = env.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise SpecError("containerEdits.env", f"`{name}={text}` is no number")
    return int(text)


def _core_policy(env: dict[str, str]) -> CorePolicy:
    text = env.get("GPU_CORE_UTILIZATION_POLICY", "default").lower()
    for policy in get_args(CorePolicy):
        if text == policy:
            return policy  # type: ignore[no-any-return]  # `get_args` does not tell
    raise SpecError("containerEdits.env", f"`{text}` is no core policy")


def _library(edits: ContainerEdits, *, limited: bool) -> str | None:
    paths = (
        each.host_path for each in edits.mounts if each.container_path == CONTAINER_LIBRARY_PATH
    )
    path = next(paths, None)
    if limited and path is None:
        raise SpecError("containerEdits.mounts", "there are limits and nothing that enforces them")
    if path is not None and not limited:
        raise SpecError("containerEdits.env", "there is what enforces limits, and none of them")
    # Copies are kept under the hash of their content.
    return None if path is None else PurePosixPath(path).parent.name
