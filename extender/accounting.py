"""What the containers of a pod take of devices together, and how a node carries it.

HAMi numbers containers with init containers first. Ordinary init containers run one after the
other beside the sidecars declared before them and end, so a pod takes of each device the largest
of those peaks and of what stays: sidecars and apps (HAMi v2.10: `pkg/device/initContainer.go`, in
which sidecars still are ordinary init containers). Once init containers are done, what stays is
all that is left.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from extender.model import DeviceUsage, NodeUsage
from extender.single import small
from hami.devices import MigAllocation, MigPlacement, PodDevice, Slots
from hami.requests import NVIDIA

MIG_MODE: Final = "mig"
UNTOLD: Final = MigPlacement(start=0, size=1 << 30)
"""Where the instance of a pod lies that does not tell: everywhere, so that none is added."""
_NEURON: Final = "AWSNeuron"


class Use(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is taken of one device."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0

    def __add__(self, other: "Use") -> "Use":
        return Use(
            slots=self.slots + other.slots,
            memory_mib=self.memory_mib + other.memory_mib,
            cores=self.cores + other.cores,
        )

    def __or__(self, other: "Use") -> "Use":
        """Return the larger of both, amount by amount."""
        return Use(
            slots=max(self.slots, other.slots),
            memory_mib=max(self.memory_mib, other.memory_mib),
            cores=max(self.cores, other.cores),
        )


NOTHING: Final = Use()
Uses = Mapping[str, Mapping[str, Use]]
"""By vendor's word, then by UUID."""


class Booking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one pod takes of its node."""

    uid: str
    uses: Uses
    mig: tuple[MigAllocation, ...] = ()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The pod's, for rules that look at neighbours."""


class Unaccounted(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a pod was given and that its node cannot carry."""

    word: str
    uuid: str
    why: str


class Ledger:
    """One vendor's devices, summed up while containers are added in their order.

    Where cores are a mask its bits are put together, so that a peak holds every core that is used
    at any time.
    """

    __slots__ = ("_masks", "_peaks", "_stays")

    def __init__(self, word: str) -> None:
        self._masks = word == _NEURON
        self._stays: dict[str, Use] = {}
        self._peaks: dict[str, Use] = {}

    def add(self, devices: Collection[PodDevice], *, ends: bool) -> None:
        """Add a container; *ends* tells an ordinary init container."""
        for uuid, use in _summed(devices).items():
            stays = self._stays.get(uuid, NOTHING)
            together = self._with_bits(stays + use, stays, use)
            if ends:
                self._peaks[uuid] = self.larger(self._peaks.get(uuid, NOTHING), together)
            else:
                self._stays[uuid] = together

    def steady(self) -> dict[str, Use]:
        """Return what stays, by UUID in order."""
        return dict(sorted(self._stays.items()))

    def effective(self) -> dict[str, Use]:
        """Return what has to be there, by UUID in order."""
        stays, peaks = self._stays, self._peaks
        return {
            uuid: self.larger(stays.get(uuid, NOTHING), peaks.get(uuid, NOTHING))
            for uuid in sorted(stays.keys() | peaks.keys())
        }

    def with_more(self, devices: Collection[PodDevice], *, ends: bool) -> dict[str, Use]:
        """Return what `effective` would be after `add`."""
        extended = Ledger("")
        extended._masks = self._masks
        extended._stays = dict(self._stays)
        extended._peaks = dict(self._peaks)
        extended.add(devices, ends=ends)
        return extended.effective()

    def larger(self, one: Use, two: Use) -> Use:
        """Return what is enough for either."""
        return self._with_bits(one | two, one, two)

    def _with_bits(self, use: Use, one: Use, two: Use) -> Use:
        return replace(use, cores=one.cores | two.cores) if self._masks else use


def collapse(
    slots_by_word: Mapping[str, Slots], init_count: int, sidecars: Collection[int] = ()
) -> dict[str, dict[str, Use]]:
    """Return what a pod takes for as long as its init containers may run.

    *sidecars* are the positions of init containers that stay.
    """
    return {
        word: (
            _summed(slots[0])
            if len(slots) == 1 and len(slots[0]) == 1
            else _ledger(word, slots, init_count, sidecars).effective()
        )
        for word, slots in slots_by_word.items()
    }


def steady(
    slots_by_word: Mapping[str, Slots], init_count: int, sidecars: Collection[int] = ()
) -> dict[str, dict[str, Use]]:
    """Return what a pod takes once its init containers are done."""
    return {
        word: _ledger(word, slots, init_count, sidecars).steady()
        for word, slots in slots_by_word.items()
    }


def compact(uses: Uses) -> Uses:
    """Return the same in less memory: most pods use one device, and many the same of it."""
    return small({word: small(_shared(by_uuid)) for word, by_uuid in uses.items()})


def _shared(by_uuid: Mapping[str, Use]) -> dict[str, Use]:
    return {uuid: _use(use.slots, use.memory_mib, use.cores) for uuid, use in by_uuid.items()}


@lru_cache(maxsize=4096)
def _use(slots: int, memory_mib: int, cores: int) -> Use:
    return Use(slots=slots, memory_mib=memory_mib, cores=cores)


def most(one: Booking, two: Booking) -> Booking:
    """Return what is enough for either, of the second's pod; instances of both are kept."""
    uses = {
        word: _most(word, one.uses.get(word, {}), two.uses.get(word, {}))
        for word in {**one.uses, **two.uses}
    }
    mig = {(each.gpu_uuid, each.placement): each for each in (*one.mig, *two.mig)}
    return msgspec.structs.replace(two, uses=compact(uses), mig=tuple(mig.values()))


def _most(word: str, one: Mapping[str, Use], two: Mapping[str, Use]) -> dict[str, Use]:
    ledger = Ledger(word)
    return {
        uuid: ledger.larger(one.get(uuid, NOTHING), two.get(uuid, NOTHING))
        for uuid in sorted(one.keys() | two.keys())
    }


def quota_amounts(word: str, uses: Mapping[str, Use]) -> tuple[int, int]:
    """Return the MiB and cores that *uses* count in a quota; a mask of cores counts its bits."""
    memory_mib = sum(use.memory_mib for use in uses.values())
    if word == _NEURON:
        return memory_mib, sum(use.cores.bit_count() for use in uses.values())
    return memory_mib, sum(use.cores for use in uses.values())


def apply(node: NodeUsage, booking: Booking) -> tuple[Unaccounted, ...]:
    """Add *booking* to *node*; returns what the node does not have, which is left out.

    A GPU on which instances and their bookkeeping disagree takes nothing more: an instance where
    the GPU has none closes it, and a pod that does not tell its instance fills it. Raises
    `ValueError` for a pod that is on the node already.
    """
    devices = _devices(node, booking)
    if any(booking.uid in usage.pods for _, _, usage in devices if usage):
        message = f"pod {booking.uid} is on {node.name} already"
        raise ValueError(message)
    missing = []
    for word, uuid, usage in devices:
        if usage is None:
            missing.append(Unaccounted(word=word, uuid=uuid, why="not among the node's devices"))
            continue
        use = booking.uses.get(word, {}).get(uuid, NOTHING)
        usage.used_slots += use.slots
        usage.used_mib += use.memory_mib
        usage.used_cores += use.cores
        usage.mig.extend(_instances(usage, booking))
        usage.pods[booking.uid] = booking.annotations
    return tuple(missing)


def undo(node: NodeUsage, booking: Booking) -> None:
    """Take *booking* away again from whatever device has it."""
    for word, uuid, usage in _devices(node, booking):
        if usage is None or usage.pods.pop(booking.uid, None) is None:
            continue
        use = booking.uses.get(word, {}).get(uuid, NOTHING)
        usage.used_slots -= use.slots
        usage.used_mib -= use.memory_mib
        usage.used_cores -= use.cores
        for instance in reversed(_instances(usage, booking)):
            _remove_last(usage.mig, instance)


def _ledger(word: str, slots: Slots, init_count: int, sidecars: Collection[int]) -> Ledger:
    ledger = Ledger(word)
    for position, devices in enumerate(slots):
        ledger.add(devices, ends=position < init_count and position not in sidecars)
    return ledger


def _summed(devices: Collection[PodDevice]) -> dict[str, Use]:
    """Return what one container takes; several instances of a GPU are one slot each."""
    found: dict[str, Use] = {}
    for each in devices:
        use = Use(slots=1, memory_mib=each.memory_mib, cores=each.cores)
        found[each.uuid] = found.get(each.uuid, NOTHING) + use
    return found


def _devices(node: NodeUsage, booking: Booking) -> list[tuple[str, str, DeviceUsage | None]]:
    """Return each device that *booking* names, with the node's where it has it."""
    named = [(word, uuid) for word, uses in booking.uses.items() for uuid in uses]
    named += [(NVIDIA, each.gpu_uuid) for each in booking.mig]
    return [(word, uuid, _device(node, word, uuid)) for word, uuid in dict.fromkeys(named)]


def _device(node: NodeUsage, word: str, uuid: str) -> DeviceUsage | None:
    devices = node.devices.get(word, ())
    return next((usage for usage in devices if usage.device.uuid == uuid), None)


def _instances(usage: DeviceUsage, booking: Booking) -> list[MigAllocation]:
    """Return the instances that *booking* holds on a GPU."""
    device = usage.device
    told = [each for each in booking.mig if each.gpu_uuid == device.uuid]
    if told or device.word != NVIDIA or device.mode != MIG_MODE:
        return told
    return [
        MigAllocation(
            container_index=0,
            device_index=0,
            gpu_uuid=device.uuid,
            profile="",
            placement=UNTOLD,
        )
    ]


def _remove_last(held: list[MigAllocation], instance: MigAllocation) -> None:
    for index in range(len(held) - 1, -1, -1):
        if held[index] == instance:
            del held[index]
            return


def closed_devices(node: NodeUsage) -> Iterator[DeviceUsage]:
    """Yield the GPUs that take nothing because instances and their bookkeeping disagree."""
    for usage in node.devices.get(NVIDIA, ()):
        if is_closed(usage):
            yield usage


def is_closed(usage: DeviceUsage) -> bool:
    """Tell whether a device's instances cannot be what they are said to be."""
    if not usage.mig:
        return False
    return usage.device.mode != MIG_MODE or any(each.placement == UNTOLD for each in usage.mig)
