"""The lists of a pod's devices and of its MIG instances.

What is booked of a device is what the text says, by a reading of its own; a list of which a part
cannot be read is not read at all.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from hami.annotations import (
    Undecodable,
    decode_mig_allocations,
    decode_pod_devices,
    encode_mig_allocations,
    encode_pod_devices,
)
from hami.devices import MigAllocation, Slots
from tests.fuzz.mutation import spoiled_string, spoiled_text
from tests.fuzz.running import expect

_LISTS: Final = (
    *(";", "GPU-a,NVIDIA,3000,30:;", "GPU-a,NVIDIA,3000,30:GPU-b,NVIDIA,3000,0:;"),
    *(";GPU-a,NVIDIA,1,0:;;", ",,0,0:;GPU-a,NVIDIA,1000,0:;;,,0,0:;", "m-0,MLU,16384,100:;;"),
    *("GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,2147483647,100:;;;", "n-neuron-1,AWSNeuron,0,3:;"),
)
_DEVICE: Final = re.compile(
    r"([^,:;]+),([^,:;]+),([+-]?[0-9]{1,64}),([+-]?[0-9]{1,64})(?:,[^:;]*)?", re.ASCII
)
_ONE: Final = {
    "containerIndex": 0,
    "deviceIndex": 0,
    "gpuUUID": "GPU-a",
    "profile": "1g.5gb",
    "placement": {"start": 6, "size": 1},
}
_MADE: Final = _ONE | {
    "deviceIndex": 1,
    "migUUID": "MIG-a",
    "gpuInstanceID": 0,
    "computeInstanceID": 0,
}


@dataclass(frozen=True, slots=True)
class PodLists:
    """Lists near those of schedulers, for pods of some containers."""

    read: Callable[[str, int | None], Slots | Undecodable] = field(default=decode_pod_devices)
    name: str = "pod-devices"
    weight: int = 24

    def make(self, rng: Random) -> list[Any]:
        """Return a list and a number of containers."""
        text = rng.choice(_LISTS)
        containers = rng.choice((None, text.count(";"), text.count(";"), rng.randint(0, 5)))
        for _ in range(rng.choice((0, 1, 1, 2))):
            text = spoiled_string(rng, text)
        return [text, containers]

    def check(self, sample: list[Any]) -> bool:
        """Compare with what the text says by itself."""
        text, containers = sample
        found = self.read(text, containers)
        expect(self.read(text, containers) == found, "another answer the second time")
        said = _said(text, containers)
        if isinstance(found, Undecodable):
            expect(said is None, f"a list is refused: {found}")
            return False
        got = [
            [(each.uuid, each.type, each.memory_mib, each.cores) for each in devices]
            for devices in found
        ]
        expect(got == said, f"other devices: {got} and not {said}")
        written = encode_pod_devices(found)
        expect(self.read(written, containers) == found, f"another value once written: {written}")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _said(text: str, containers: int | None) -> list[list[tuple[str, str, int, int]]] | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    places = re.findall(r"([^;]*);", text if not text or text.endswith(";") else f"{text};")
    found: list[list[tuple[str, str, int, int]]] = []
    for place in places:
        found.append([])
        for segment in filter(None, place.split(":")):
            if segment == ",,0,0":
                continue
            parts = _DEVICE.fullmatch(segment)
            if parts is None or any(not 0 <= int(parts[n]) < 2**31 for n in (3, 4)):
                return None
            found[-1].append((parts[1], parts[2], int(parts[3]), int(parts[4])))
    if containers is None or len(found) == containers:
        return found
    if not text:
        return [[] for _ in range(containers)]
    fits = len(found) > containers and not any(found[containers:])
    return found[:containers] if fits else None


@dataclass(frozen=True, slots=True)
class MigLists:
    """Lists near those of schedulers and nodes."""

    read: Callable[[str], tuple[MigAllocation, ...] | Undecodable] = decode_mig_allocations
    name: str = "mig-allocations"
    weight: int = 12

    def make(self, rng: Random) -> str:
        """Return a text."""
        document = rng.choice(([], [_ONE], [_ONE, _MADE], [_MADE]))
        return spoiled_text(rng, document, donor=[_MADE]).decode("utf-8", "surrogateescape")

    def check(self, sample: str) -> bool:
        """Compare with the text, and see that no instance is without its place."""
        found = self.read(sample)
        expect(self.read(sample) == found, "another answer the second time")
        if isinstance(found, Undecodable):
            expect(sample not in _GOOD, f"a scheduler's own is refused: {found}")
            return False
        rows = [_lower(each) for each in (json.loads(sample) if sample else None) or ()]
        said = [(row["gpuuuid"], row["profile"], row.get("miguuid") or None) for row in rows]
        got = [(each.gpu_uuid, each.profile, each.mig_uuid) for each in found]
        expect(got == said, f"other instances: {got}")
        sizes = [_lower(row["placement"])["size"] for row in rows]
        expect([each.placement.size for each in found] == sizes, "other places")
        for each in found:
            ids = (each.mig_uuid, each.gpu_instance_id, each.compute_instance_id)
            expect(ids.count(None) in {0, 3}, "some of the ids")
            expect(each.placement.size > 0, "no place")
            expect(each.gpu_uuid and each.profile, "no GPU")
        expect(
            len({(e.container_index, e.device_index) for e in found}) == len(found), "two of one"
        )
        written = encode_mig_allocations(found)
        expect(self.read(written) == found, f"another value once written: {written}")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _lower(entry: dict[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in entry.items()}


_GOOD: Final = tuple(json.dumps(each) for each in ([], [_ONE], [_ONE, _MADE], [_MADE]))
