"""ResourceQuotas: a bound that is misread gives away what an administrator meant to keep."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from hami.deviceconfig import DeviceConfig
from hami.quota import QuotaNames, quota_names
from kube.objects import JsonObject
from tests.fuzz.asked import MIB, number
from tests.fuzz.mutation import replaced, spoiled
from tests.fuzz.review_seeds import AMOUNTS
from tests.fuzz.running import expect
from webhook.quotas import QuotaReading, read_quota

_NAMES: Final = quota_names(DeviceConfig().nvidia, DeviceConfig().vendors)
_FACTORS: Final = {
    **{name: 0 for each in _NAMES for name in (each.cores, each.count) if name},
    **{each.memory: each.memory_factor for each in _NAMES if each.memory},
}
_METADATA: Final = {"name": "gpu-quota", "namespace": "team-red", "uid": "uid-1"}
_VALID: Final[tuple[JsonObject, ...]] = (
    {
        "metadata": _METADATA,
        "spec": {
            "hard": {
                "limits.nvidia.com/gpumem": "4096",
                "limits.nvidia.com/gpucores": "50",
                "limits.nvidia.com/gpu": "4",
                "pods": "1k",
            }
        },
    },
    {
        "metadata": _METADATA,
        "spec": {
            "hard": {"requests.nvidia.com/gpumem": "16Gi", "limits.nvidia.com/gpumemory": "6k"},
            "scopes": ["NotTerminating"],
        },
    },
    {
        "metadata": _METADATA,
        "spec": {"hard": {"limits.hygon.com/dcumem": "8k", "limits.cambricon.com/vmlu": "2"}},
        "status": {"used": {"pods": "3"}},
    },
)

Read = Callable[[JsonObject], QuotaReading]


def read_object(quota: JsonObject) -> QuotaReading:
    """Read *quota* with the names of HAMi's chart."""
    names: tuple[QuotaNames, ...] = _NAMES
    return read_quota(quota, names)


@dataclass(frozen=True, slots=True)
class GpuQuotas:
    """Objects near valid ResourceQuotas."""

    read: Read = field(default=read_object)
    name: str = "gpu-quotas"
    weight: int = 8

    def make(self, rng: Random) -> Any:
        """Return an object."""
        quota = rng.choice(_VALID)
        if rng.random() < 0.6:
            hard = quota["spec"]["hard"]
            key = rng.choice([*hard, f"limits.{rng.choice(sorted(_FACTORS))}"])
            quota = replaced(quota, ("spec", "hard", key), rng.choice(AMOUNTS))
        found = spoiled(rng, quota, donor=rng.choice(_VALID), most=2)
        return found if isinstance(found, dict) else {"spec": found}

    def check(self, sample: Any) -> bool:
        """Compare each bound with the number in the object; what is none allows nothing."""
        found = self.read(sample)
        hard = sample.get("spec")
        hard = hard.get("hard") if isinstance(hard, dict) else None
        hard = hard if isinstance(hard, dict) else {}
        wanted = {key for key in hard if _name(key) in _FACTORS and _name(key) != key}
        expect({each.key for each in found.bounds} == wanted, "other bounds")
        for bound in found.bounds:
            raw = hard[bound.key]
            limit = _limit(raw, _FACTORS[bound.resource])
            # What JSON has as a fraction the API server never sends; it may allow nothing.
            is_same = bound.limit == limit or (bound.limit is None and isinstance(raw, float))
            expect(is_same, f"another bound: {bound.limit} and not {limit}")
        for remark in found.remarks:
            expect(len(str(remark)) < 1000, "an endless message")
        expect(self.read(sample) == found, "another answer the second time")
        return bool(found.bounds) and all(each.limit is not None for each in found.bounds)

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _name(key: str) -> str:
    for prefix in ("limits.", "requests."):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


def _limit(raw: Any, factor: int) -> int | None:
    found = number(raw)
    if found is None or found < 0:
        return None
    if factor and str(raw).endswith("i"):
        return int(found // MIB)
    return int(found) * max(1, factor) if found.denominator == 1 else None
