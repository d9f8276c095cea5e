"""Our own CDI files, spoiled, where they are all that tells what a claim holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from cdi.errors import SpecError
from cdi.library import CONTAINER_LIBRARY_PATH
from cdi.recovery import RecoveredSpec, recover
from cdi.spec import Spec
from dra.recovered import NOBODY, from_spec
from gpu.refusal import RefusedError
from tests.dra.builders import BOOT_ID, NODE, a_held, a_limited_record, a_record
from tests.fuzz import node
from tests.fuzz.mutation import spoiled_bytes, spoiled_text
from tests.fuzz.running import expect

_UID: Final = a_record(1).uid
_RECORDS: Final = (
    a_limited_record(1),
    a_record(1, a_held(node.SHARED[1], share_id=None, dedicated=True, memory_mib=16_000)),
    a_record(1, a_held(node.PARTITIONED.mig_devices[0])),
)
_MEMORY: Final = "CUDA_DEVICE_MEMORY_LIMIT_"
_CORES: Final = "CUDA_DEVICE_SM_LIMIT_"


def _specs() -> tuple[bytes, ...]:
    return tuple(node.VIEW.renderer.render(record) for record in _RECORDS)


@dataclass(frozen=True, slots=True)
class RecoveredSpecs:
    """Specs near those that were written for claims."""

    read: Callable[[str, bytes], RecoveredSpec] = field(default=recover)
    name: str = "recovered-specs"
    weight: int = 6
    _specs: tuple[bytes, ...] = field(default_factory=_specs)

    def make(self, rng: Random) -> bytes:
        """Return a file."""
        spec, donor = rng.choice(self._specs), rng.choice(self._specs)
        if rng.random() < 0.5:
            return spoiled_bytes(rng, spec, donor=donor, most=2)
        document: Any = Spec.parse(spec).model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        )
        return spoiled_text(rng, document)

    def check(self, sample: bytes) -> bool:
        """Count what the variables say, or all of the device, or refuse the file."""
        try:
            found = self.read(_UID, sample)
        except SpecError as error:
            str(error).encode()
            return False
        spec = Spec.parse(sample).container_edits
        env = {name: value for name, _, value in (text.partition("=") for text in spec.env)}
        _expect_limits(found, env)
        enforced = any(mount.container_path == CONTAINER_LIBRARY_PATH for mount in spec.mounts)
        expect(enforced == bool(found.limits), "a limit without its library, or the reverse")
        expect(self.read(_UID, sample) == found, "another answer the second time")
        claim = (_UID, NOBODY, "claim")
        record = from_spec(claim, found, node.VIEW.devices, pool=NODE, boot_id=BOOT_ID)
        if record is None:
            return False
        for device in record.devices:
            there = node.VIEW.devices.get(device.device)
            whole = ((there.mig or there.gpu).memory_mib or 0) if there else 0
            expect(device.memory_mib or not whole or _is_second(device, record.devices), "nothing")
        try:
            node.VIEW.renderer.render(record)
        except RefusedError:
            return False
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _is_second(device: Any, devices: tuple[Any, ...]) -> bool:
    """Tell whether an earlier share of the GPU counts for this one."""
    return next(each for each in devices if each.parent_uuid == device.parent_uuid) is not device


def _expect_limits(found: RecoveredSpec, env: dict[str, str]) -> None:
    said = {name: value for name, value in env.items() if name.startswith(_MEMORY)}
    wanted = {f"{_MEMORY}{index}" for index in range(len(found.limits))}
    expect(said.keys() == wanted, f"other limits: {sorted(said)}")
    for index, limit in enumerate(found.limits):
        expect(f"{limit.memory_mib}m" == said[f"{_MEMORY}{index}"], "another limit of memory")
        expect(f"{limit.cores_percent}" == env.get(f"{_CORES}{index}"), "another limit of cores")
        expect(limit.memory_mib > 0 and 0 < limit.cores_percent <= 100, "a limit of nothing")
