"""Slices as they come back from the server, changed by anybody meanwhile.

The plan is carried out on a server that keeps what it is sent: then nothing may be left to do,
and what is published has to be what was wanted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from dra.devices import SharingPolicy, build_devices
from dra.layout import build_slices
from dra.slice_diff import fingerprint, lost_fields
from dra.slice_plan import Plan, plan_slices
from kube.objects import JsonObject
from tests.dra.builders import a_gpu, a_mig_gpu, an_inventory
from tests.fuzz.mutation import spoiled
from tests.fuzz.running import expect

_INVENTORY: Final = an_inventory(*(a_gpu(number) for number in range(3)), a_mig_gpu(3))
_OFFER: Final = build_devices(_INVENTORY, sharing_kept=True, policy=SharingPolicy())
DESIRED: Final = build_slices(_OFFER.devices, node_name="node-1", node_uid="uid-1")
_TAINT: Final = {
    "key": "example.com/ill",
    "effect": "NoSchedule",
    "timeAdded": "2026-01-01T00:00:00Z",
}
_MANY: Final = build_slices(
    [device | {"taints": [_TAINT]} for device in _OFFER.devices],
    node_name="node-1",
    node_uid="uid-1",
)


def stored(item: JsonObject, name: str, generation: int, time: str) -> JsonObject:
    """Return *item* as a server has it."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "generateName"}
    metadata |= {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": "12",
        "creationTimestamp": f"2026-01-01T00:00:{time}Z",
    }
    spec = item["spec"] | {"pool": item["spec"]["pool"] | {"generation": generation}}
    return item | {"metadata": metadata, "spec": spec}


_SERVERS: Final[tuple[list[JsonObject], ...]] = (
    [],
    [stored(DESIRED[0], "00000-a", 3, "00")],
    [stored(_MANY[0], "00000-a", 3, "00"), stored(DESIRED[0], "00000-b", 3, "01")],
    [stored(DESIRED[0], "00000-a", 2, "00"), stored(_MANY[0], "00001-c", 3, "01")],
)


def carried_out(plan: Plan, items: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return the *items* of a server after *plan*."""
    after = dict(items)
    for item in plan.deletes:
        expect(after.pop(item["metadata"]["name"], None), "a slice is deleted that is not there")
    for item in plan.updates:
        name = item["metadata"]["name"]
        expect(name in after, "a slice is changed that is not there")
        after[name] = item
    for number, item in enumerate(plan.creates):
        name = f"{item['metadata']['generateName']}{len(after)}{number}"
        after[name] = stored(item, name, item["spec"]["pool"]["generation"], "59")
    return after


@dataclass(frozen=True, slots=True)
class Slices:
    """Servers that hold nearly what was published."""

    plan: Callable[[Sequence[JsonObject], Sequence[JsonObject]], Plan] = field(default=plan_slices)
    name: str = "resource-slices"
    weight: int = 3

    def make(self, rng: Random) -> Any:
        """Return the slices of a server."""
        return spoiled(rng, rng.choice(_SERVERS), donor=list(DESIRED))

    def check(self, sample: Any) -> bool:
        """Carry the plan out: the server then holds what is wanted, and no plan follows."""
        items = {
            name: item
            for item in (sample if isinstance(sample, list) else ())
            if (name := _name_of(item)) is not None
        }
        plan = self.plan(DESIRED, list(items.values()))
        expect(self.plan(DESIRED, list(items.values())) == plan, "another plan the second time")
        after = carried_out(plan, items)
        left = self.plan(DESIRED, list(after.values()))
        expect(left.is_empty(), f"there is always more to do: {left}")
        wanted = {fingerprint(item["spec"]) for item in DESIRED}
        found = [item for item in after.values() if item["metadata"]["name"].startswith("00000-")]
        expect({fingerprint(item["spec"]) for item in found} == wanted, "other slices")
        expect(len(after) == len(DESIRED), "slices too much")
        return not plan.is_empty()

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _name_of(item: Any) -> str | None:
    """Return the name of what a server can hold: it makes name, UID and version itself."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        return None
    told = [metadata.get(key) for key in ("name", "uid", "resourceVersion")]
    name = told[0]
    return name if isinstance(name, str) and all(isinstance(each, str) for each in told) else None


@dataclass(frozen=True, slots=True)
class Losses:
    """Answers to a slice that was sent, nearly the slice itself."""

    lost: Callable[[JsonObject, JsonObject], tuple[str, ...]] = field(default=lost_fields)
    name: str = "lost-fields"
    weight: int = 6

    def make(self, rng: Random) -> Any:
        """Return the spec that the server made of what was sent."""
        return spoiled(rng, DESIRED[0]["spec"], donor=_MANY[0]["spec"], most=2)

    def check(self, sample: Any) -> bool:
        """Say that something is lost whenever a share could not be had any more."""
        try:
            lost = self.lost(DESIRED[0]["spec"], sample)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # What is no ResourceSlice: whoever asks takes it for no answer.
            return False
        if not lost:
            _expect_sharing(sample)
        expect(self.lost(DESIRED[0]["spec"], sample) == lost, "another answer the second time")
        return not lost

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _expect_sharing(spec: Mapping[str, Any]) -> None:
    devices = spec["devices"]
    expect(len(devices) == len(DESIRED[0]["spec"]["devices"]), "a device is lost")
    for sent, kept in zip(DESIRED[0]["spec"]["devices"], devices, strict=True):
        sharing = sent.get("allowMultipleAllocations")
        expect(kept.get("allowMultipleAllocations") == sharing, "sharing is lost")
        for name, capacity in sent["capacity"].items():
            expect(name in kept["capacity"], f"a capacity is lost: {name}")
            policies = capacity.get("requestPolicy"), kept["capacity"][name].get("requestPolicy")
            expect(bool(policies[0]) <= bool(policies[1]), f"a policy is lost: {name}")
