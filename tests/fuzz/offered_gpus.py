"""ResourceSlices as the webhook reads them: what GPUs there are, of which percentages are taken.

One odd slice may hide itself and no other. What is left is used in a translation, where a size that
nobody published would make a claim that nothing serves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from dra.devices import SharingPolicy, build_devices
from dra.layout import build_slices
from hami.preferences import Preferences
from hami.requests import NVIDIA, DeviceRequest
from tests.dra.builders import a_gpu, a_mig_gpu, an_inventory
from tests.fuzz.asked import MIB, number
from tests.fuzz.mutation import spoiled
from tests.fuzz.running import expect
from tests.fuzz.slices import DESIRED, stored
from webhook.devicewish import Asked, TranslationSettings, wished
from webhook.facts import ClusterFacts
from webhook.slicefacts import OfferedSlice, facts_of, read_slice

_SIZES_MAX_MIB: Final = 2**24
_OTHERS: Final = build_slices(
    build_devices(
        an_inventory(a_gpu(7, memory_mib=81920), a_mig_gpu(8)),
        sharing_kept=True,
        policy=SharingPolicy(),
    ).devices,
    node_name="node-2",
    node_uid="uid-2",
)
_GOOD: Final = stored(_OTHERS[0], "00000-good", 1, "00")
_SERVERS: Final[tuple[list[Any], ...]] = (
    [stored(DESIRED[0], "00000-a", 3, "00")],
    [stored(DESIRED[0], "00000-a", 2, "00"), stored(DESIRED[0], "00001-b", 3, "01")],
)
_DEVICE: Final = DeviceRequest(
    word=NVIDIA, count=2, memory_mib=None, memory_percent=50, cores=30, priority=None
)
_ALONE: Final = DeviceRequest(
    word=NVIDIA, count=1, memory_mib=1000, memory_percent=None, cores=0, priority=None
)

Count = Callable[[Sequence[OfferedSlice]], ClusterFacts]


def count(slices: Sequence[OfferedSlice]) -> ClusterFacts:
    """Return the facts of *slices*."""
    return facts_of(slices, distinct=True)


@dataclass(frozen=True, slots=True)
class OfferedGpus:
    """Slices near those that agents publish, beside a good one."""

    count: Count = field(default=count)
    name: str = "offered-gpus"
    weight: int = 4

    def make(self, rng: Random) -> Any:
        """Return the slices of a server."""
        found = spoiled(rng, rng.choice(_SERVERS), donor=_OTHERS)
        return found if isinstance(found, list) else [found]

    def check(self, sample: Any) -> bool:
        """Read what can be read, and translate by it."""
        read = [each for item in sample if (each := _read(item)) is not None]
        found = self.count([*read, read_slice(_GOOD)])
        good = count([read_slice(_GOOD)])
        for name in ("gpus_by_memory_mib", "gpus_by_shares", "mig_by_memory_mib"):
            numbers = getattr(found, name)
            lost = getattr(good, name).keys() - numbers.keys()
            expect(not lost, f"a good slice is hidden: {name} {lost}")
            bounded = all(0 < each <= _SIZES_MAX_MIB for each in numbers)
            expect(bounded, f"an impossible size: {name} {numbers}")
        said = {*_sizes(sample), *good.gpus_by_memory_mib, *good.mig_by_memory_mib}
        sizes = {*found.gpus_by_memory_mib, *found.mig_by_memory_mib}
        expect(sizes <= said, f"a size that nobody published: {sizes - said}")
        for device, policies in ((_DEVICE, ()), (_ALONE, ("mutex",))):
            request, _ = wished(
                Asked(
                    device=device,
                    preferences=Preferences(gpu_policies=policies),
                    facts=found,
                    settings=TranslationSettings(),
                    path="spec.containers[0]",
                )
            )
            expect({*request.sizes_mib} <= sizes, "a percentage of no GPU")
        return len(read) == len(sample)

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _read(item: Any) -> OfferedSlice | None:
    """Return what a reflector keeps of *item*: it leaves out what raises anything."""
    try:
        return read_slice(item)
    except Exception:  # noqa: BLE001 - as there
        return None


def _sizes(sample: Any) -> Iterator[int]:
    for item in sample:
        with suppress(LookupError, TypeError, AttributeError):
            for device in item["spec"]["devices"]:
                with suppress(LookupError, TypeError, AttributeError):
                    bytes_ = number(device["capacity"]["memory"]["value"])
                    if bytes_ is not None:
                        yield int(-(-bytes_ // 1) // MIB)
