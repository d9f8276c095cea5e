"""The amounts behind HAMi's tokens, in words; the tokens themselves stay as users know them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from extender.accounting import Use, Uses, quota_amounts
from extender.fitting.reasons import Reason
from extender.fitting.scoring import memory_of
from extender.model import DeviceUsage
from hami.requests import DeviceRequest

FITS_ALONE: Final = str(Reason.TOO_FEW_FITTING)
_CODES: Final = {
    str(Reason.NOT_REGISTERED): "NodeUnregistered",
    str(Reason.UNKNOWN_VENDOR): "DeviceTypeNotFound",
}
_CHOOSING: Final = {
    Reason.TYPE_MISMATCH: ("-gputype", "-type", "vgpu-mode"),
    Reason.UUID_MISMATCH: ("uuid",),
    Reason.MODE: ("vgpu-mode",),
}
"""How the annotations end by which a pod chooses."""


class Values(NamedTuple):
    """Two texts of a refusal."""

    value: str
    limit: str


def token_code(token: str) -> str:
    """Return the code of a token: HAMi's own, for the few that are sentences another."""
    return _CODES.get(token, str(token))


def asked_and_free(
    token: str, request: DeviceRequest, usage: DeviceUsage, annotations: Mapping[str, str]
) -> Values:
    """Return what is asked of a device and what there is of it."""
    device = usage.device
    memory_mib = memory_of(request, device.memory_mib)
    free_mib = device.memory_mib - usage.used_mib
    cores, used_cores = _cores(device.word, device.cores), _cores(device.word, usage.used_cores)
    free_cores = max(0, cores - used_cores)
    match token:
        case Reason.TOO_LITTLE_MEMORY:
            values = f"asked {memory_mib} MiB", f"free {free_mib} of {device.memory_mib} MiB"
        case Reason.TOO_FEW_CORES:
            values = f"asked {request.cores} cores", f"free {free_cores} of {cores} cores"
        case Reason.CORES_EXHAUSTED:
            values = "asked no cores of its own", f"free {free_cores} of {cores} cores"
        case Reason.SLOTS_EXHAUSTED:
            values = "asked a share", f"{usage.used_slots} of {device.count} shares are taken"
        case Reason.EXCLUSIVE:
            values = "asked to be alone", f"{usage.used_slots} shares are taken"
        case Reason.MIG_PLACEMENT:
            instances = f"{len(usage.mig)} instances"
            values = f"asked an instance of {memory_mib} MiB", f"no room beside {instances}"
        case Reason.TOO_FEW_FITTING:
            values = f"asked {request.count} together", "it fits by itself"
        case Reason.TYPE_MISMATCH | Reason.UUID_MISMATCH | Reason.MODE:
            values = _chosen(Reason(token), usage, annotations)
        case _:
            values = "", ""
    return Values(*values)


def amounts(use: Use, word: str) -> str:
    """Return what a pod has of one device of the vendor *word*."""
    parts = [f"{use.memory_mib} MiB"] if use.memory_mib else []
    parts += [f"{_cores(word, use.cores)} cores"] if use.cores else []
    return " ".join(parts) or ("1 share" if use.slots == 1 else f"{use.slots} shares")


def all_amounts(uses: Uses) -> str:
    """Return what a pod has of all devices."""
    said = []
    for word, by_uuid in uses.items():
        memory_mib, cores = quota_amounts(word, by_uuid)
        slots = sum(use.slots for use in by_uuid.values())
        said.append(amounts(Use(slots=slots, memory_mib=memory_mib, cores=cores), ""))
    return ", ".join(said)


def _cores(word: str, said: int) -> int:
    """Return a number of cores, which is a mask for some vendors."""
    return quota_amounts(word, {"": Use(cores=said)})[1]


def _chosen(token: Reason, usage: DeviceUsage, annotations: Mapping[str, str]) -> tuple[str, str]:
    device = usage.device
    is_what = "" if token is Reason.UUID_MISMATCH else f"is {device.type} {device.mode}".strip()
    endings = _CHOOSING[token]
    wanted = [f"{key}={text}" for key, text in annotations.items() if key.endswith(endings)]
    return is_what, f"the pod says {', '.join(wanted)}" if wanted else ""
