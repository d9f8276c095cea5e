"""What NVML may answer, true or not, up to the devices that are offered for it.

What each GPU's memory has to come out as is computed from the plan of answers alone.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from dra.devices import Offer, SharingPolicy, build_devices
from dra.validation import check_device
from gpu.errors import NvmlError
from gpu.model import Inventory
from gpu.nvml import Nvml
from sim import nvml as simulated
from tests.fuzz.mutation import SCALARS, Steps, at, paths, replaced, spoiled
from tests.fuzz.nvml_library import Library, as_int, as_list
from tests.fuzz.quantities import expected
from tests.fuzz.running import expect

_MIB: Final = 2**20
_ABSENT: Final = frozenset({3, 13})
_NO_V2: Final = _ABSENT | {25}
_CODES: Final = (*range(1, 31), 999, 12345)
_NOISE: Final = (b"\xff" * 96, b"\xc3(", b"GPU-\x80", "x" * 500, b"\x00GPU-a", b"GPU-a\x00b")


def _partition(gpu: int, slot: int, memory_mib: int, name: str) -> dict[str, Any]:
    attributes = {
        "multiprocessorCount": 14,
        "gpuInstanceSliceCount": 1,
        "computeInstanceSliceCount": 1,
        "memorySizeMB": memory_mib,
    }
    return {
        "handle": [],
        "nvmlDeviceGetUUID": [f"MIG-{gpu}-{slot}"],
        "nvmlDeviceGetName": [name],
        "nvmlDeviceGetAttributes_v2": [attributes],
        "nvmlDeviceGetGpuInstanceId": [7 + slot],
        "nvmlDeviceGetComputeInstanceId": [0],
    }


def _gpu(index: int, *partitions: dict[str, Any], memory_mib: int = 40960) -> dict[str, Any]:
    memory = {"total": memory_mib * _MIB, "free": 0, "used": 0}
    return {
        "nvmlDeviceGetHandleByIndex_v2": [],
        "nvmlDeviceGetUUID": [f"GPU-{index}"],
        "nvmlDeviceGetPciInfo_v3": [{"busId": f"00000000:{index + 1:02X}:00.0"}],
        "nvmlDeviceGetMemoryInfo_v2": [{**memory, "reserved": 600 * _MIB}],
        "nvmlDeviceGetMemoryInfo": [memory],
        "nvmlDeviceGetMinorNumber": [index],
        "nvmlDeviceGetName": ["NVIDIA A100-SXM4-40GB"],
        "nvmlDeviceGetBrand": [14],
        "nvmlDeviceGetArchitecture": [7],
        "nvmlDeviceGetCudaComputeCapability": [8, 0],
        "nvmlDeviceGetComputeMode": [0],
        "nvmlDeviceGetMigMode": [int(bool(partitions)), 0],
        "nvmlDeviceGetMaxMigDeviceCount": [7],
        "nvmlDeviceGetFieldValues": [{"nvmlReturn": 0, "valueType": 1, "value": 0}],
        "mig": list(partitions),
    }


def _plan(*gpus: dict[str, Any]) -> dict[str, Any]:
    system = {
        "nvmlInitWithFlags": [],
        "nvmlShutdown": [],
        "nvmlSystemGetDriverVersion": ["580.65.06"],
        "nvmlSystemGetCudaDriverVersion_v2": [13000],
        "nvmlSystemGetCudaDriverVersion": [13000],
        "nvmlDeviceGetCount_v2": [len(gpus)],
    }
    return {"system": system, "gpus": list(gpus), "missing": [], "other": 0}


_MEMORY: Final = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo")
_NAMED: Final = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
PLANS: Final = (
    _plan(_gpu(0)),
    _plan(_gpu(0), _gpu(1)),
    _plan(_gpu(0, _partition(0, 0, 4864, _NAMED), _partition(0, 1, 4864, "no name")), _gpu(1)),
    _plan(_gpu(0) | {"nvmlDeviceGetMemoryInfo_v2": {"code": 13}}),
    _plan(_gpu(0) | {key: {"code": 3} for key in _MEMORY}),
)


def read_inventory(plan: Mapping[str, Any]) -> Inventory:
    """Return the inventory that the real binding reads from a library with *plan*'s answers."""
    Library(plan).install()
    try:
        with Nvml(sysfs=Path("/nonexistent")) as session:
            return session.inventory()
    finally:
        simulated.uninstall()


def offer_of(inventory: Inventory, *, sharing_kept: bool) -> Offer:
    """Return what is offered for *inventory*."""
    return build_devices(inventory, sharing_kept=sharing_kept, policy=SharingPolicy())


def _said(answers: Mapping[str, Any], symbol: str, missing: Sequence[Any]) -> tuple[int, Any]:
    """Return the code and the first value that *answers* have for *symbol*."""
    answer = {"code": 13} if symbol in missing else answers.get(symbol)
    if isinstance(answer, dict):
        return as_int(answer.get("code", 0)) % 2**31, None
    values = as_list(answer)
    return 0, values[0] if values else None


def total_of(answers: Mapping[str, Any], missing: Sequence[Any]) -> int | None:
    """Return the MiB that the GPU's answers say, `None` for a GPU without memory of its own."""
    code, memory = _said(answers, "nvmlDeviceGetMemoryInfo_v2", missing)
    if code in _NO_V2:
        code, memory = _said(answers, "nvmlDeviceGetMemoryInfo", missing)
        if code in _ABSENT:
            return None
    total = as_int(memory.get("total", 0)) % 2**64 if isinstance(memory, dict) else 0
    return total // _MIB or None


def _is_plain(answers: Mapping[str, Any]) -> bool:
    """Tell whether the memory answers have the form that `total_of` reads."""
    for symbol in _MEMORY:
        answer = answers.get(symbol)
        if isinstance(answer, dict):
            continue
        values = as_list(answer)
        memory = values[0] if values else None
        if not isinstance(memory, dict) or "total" not in memory:
            return False
        if isinstance(memory["total"], str | bytes):
            return False
    return True


@dataclass(frozen=True, slots=True)
class NvmlAnswers:
    """Libraries that answer nearly as they should."""

    read: Callable[[Mapping[str, Any]], Inventory] = field(default=read_inventory)
    offer: Callable[..., Offer] = field(default=offer_of)
    name: str = "nvml-answers"
    weight: int = 4

    def make(self, rng: Random) -> dict[str, Any]:
        """Return a plan of answers."""
        plan = rng.choice(PLANS)
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            places = [
                path for path in paths(plan) if len(path) > 1 and path[0] in {"system", "gpus"}
            ]
            plan = rng.choice(_CHANGES)(rng, plan, rng.choice(places))
        if rng.random() < 0.2:
            plan = plan | {"other": rng.choice((1, 2**32 - 1, -1, 2**64 - 1, 0x6161616161616161))}
        if rng.random() < 0.1:
            symbols = [*plan["system"], *_gpu(0)]
            plan = plan | {"missing": rng.choices(symbols, k=rng.randint(1, 3))}
        return plan if isinstance(plan.get("system"), dict) else dict(PLANS[0])

    def check(self, sample: dict[str, Any]) -> bool:
        """Read an inventory and offer what is in it, or refuse with an error of NVML."""
        try:
            inventory = self.read(sample)
        except NvmlError as error:
            expect(error.reason, "an error without a reason")
            str(error).encode()
            return False
        library = Library(sample)
        count = len(inventory.gpus) + len(inventory.faults)
        expect(count == library.count(), f"{count} GPUs and not {library.count()}")
        for fault in inventory.faults:
            expect(fault.reason and fault.call, "a fault without a reason")
        _expect_memory(inventory, library, as_list(sample.get("missing")))
        for sharing_kept in (True, False):
            offer = self.offer(inventory, sharing_kept=sharing_kept)
            expect_offer(offer, inventory)
        expect(self.read(sample) == inventory, "another answer the second time")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _expect_memory(inventory: Inventory, library: Library, missing: Sequence[Any]) -> None:
    faulty = {fault.index for fault in inventory.faults}
    readable = [library.gpu(index) for index in range(library.count()) if index not in faulty]
    if all(map(_is_plain, readable)):
        wanted = Counter(total_of(answers, missing) for answers in readable)
        found = Counter(gpu.memory_mib for gpu in inventory.gpus)
        expect(found == wanted, f"other memory: {found} and not {wanted}")
    for gpu in inventory.gpus:
        expect(gpu.memory_mib is None or gpu.memory_mib > 0, "a GPU with no memory")
        expect(gpu.memory_reserved_mib >= 0, "less than nothing is reserved")
        for mig in gpu.mig_devices:
            expect(mig.memory_mib > 0, "a partition with no memory")


def expect_offer(offer: Offer, inventory: Inventory) -> None:
    """Hold the devices of *offer* against *inventory*: nothing twice, nothing of no size."""
    parts = sum(len(gpu.mig_devices) if gpu.mig_enabled else 1 for gpu in inventory.gpus)
    expect(len(offer.devices) + len(offer.withheld) == parts, "a device is missing or too much")
    uuids = {gpu.uuid: gpu.memory_mib for gpu in inventory.gpus if not gpu.mig_enabled}
    partitions = [mig for gpu in inventory.gpus for mig in gpu.mig_devices]
    sizes = Counter([*uuids.values(), *(mig.memory_mib for mig in partitions)])
    for device in offer.devices:
        check_device(device)
        for name, capacity in device["capacity"].items():
            value = expected(capacity["value"])
            expect(value is not None and value > 0, f"nothing is offered: {name}")
        memory = device["capacity"].get("memory")
        if memory is not None:
            mib = (expected(memory["value"]) or 0) / _MIB
            expect(mib in sizes, f"another size: {mib}")
    for withheld in offer.withheld:
        str(withheld.refusal).encode()


def _other(rng: Random, plan: Any, path: Steps) -> Any:
    return replaced(plan, path, rng.choice((*SCALARS, *_NOISE)))


def _failing(rng: Random, plan: Any, path: Steps) -> Any:
    symbol = next((index for index, step in enumerate(path) if str(step).startswith("nvml")), None)
    if symbol is None:
        return plan
    return replaced(plan, path[: symbol + 1], {"code": rng.choice(_CODES)})


def _sized(rng: Random, plan: Any, _path: Steps) -> Any:
    """Answer with an odd size, count or mode."""
    numbers = [path for path in paths(plan) if type(at(plan, path)) is int]
    odd = (0, 1, 2, _MIB - 1, _MIB, 2**32 - 1, 2**40, 2**63, 2**64 - 1, 7, 1000, 300)
    return replaced(plan, rng.choice(numbers), rng.choice(odd))


def _noisy(rng: Random, plan: Any, _path: Steps) -> Any:
    """Answer with bytes where a text is expected."""
    texts = [path for path in paths(plan) if type(at(plan, path)) is str]
    noise = rng.choice((*_NOISE, rng.randbytes(rng.choice((1, 16, 80, 200)))))
    return replaced(plan, rng.choice(texts), noise) if texts else plan


def _spoiled(rng: Random, plan: Any, path: Steps) -> Any:
    return replaced(plan, path, spoiled(rng, at(plan, path), most=1))


_CHANGES: Final[tuple[Callable[[Random, Any, Steps], Any], ...]] = (
    *(_other, _failing, _failing, _sized, _sized, _noisy, _spoiled),
)
