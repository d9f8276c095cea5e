"""What a node's cards are to HAMi: one list, of which kubelet and the scheduler learn alike.

Values as HAMi's own device plugin registers them (HAMi v2.10: `register.go` below
`pkg/device-plugin/nvidiadevice`). Differences, all of them on purpose:

- a GPU that cannot be read any more stays, as not healthy; HAMi's plugin ends itself;
- a scaling is exact: 1.15 times 100 is 115, and not the 114 of a binary fraction;
- a GPU that only one process may open is for one container, one that none may open is withheld;
- a partition that somebody made beforehand is for one container, as large as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpu.instances import Profiles
from gpu.model import ComputeMode, Gpu, GpuFault, GpuUuid, Inventory, MigDevice
from hami import matching
from hami.devices import RegisteredDevice
from hami.nodeconfig import EffectiveConfig, MigStrategy, OperatingMode
from hami.plugin import dividing
from hami.plugin.model import Offer, Withheld
from hami.requests import NVIDIA

_WHOLE: Final = 100
_SEPARATORS: Final = re.compile(r"[,:;]")
"""What a name must not have in it to be written in an annotation."""


class _WithheldError(Exception):
    """Why a card is not offered, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known besides the inventory of the moment."""

    seen: Mapping[GpuUuid, Gpu] = field(default_factory=dict)
    """GPUs as they were when they could be read."""
    profiles: Profiles | None = None
    """What GPUs can be partitioned into; `None` where nobody makes partitions on demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A GPU of the node, whether it can be read or not."""

    index: int
    """Its position in the order of PCI bus ids."""
    uuid: GpuUuid
    """Empty where it does not tell."""
    gpu: Gpu | None
    """As it is or was; `None` where it could never be read."""
    fault: GpuFault | None


def offer(inventory: Inventory, config: EffectiveConfig, known: Known | None = None) -> Offer:
    """Return what the node offers; nothing that is wrong with one card touches another."""
    offering = _Offering(inventory, config, known or Known())
    cards: list[RegisteredDevice] = []
    withheld: list[Withheld] = []
    taken = set[str]()
    for uuid, found in offering.all():
        if isinstance(found, str):
            withheld.append(Withheld(uuid=uuid, reason=found))
        elif uuid in taken:
            withheld.append(Withheld(uuid=uuid, reason="another card has the same UUID"))
        else:
            cards.append(found)
            taken.add(uuid)
    return Offer(cards=tuple(cards), withheld=tuple(withheld))


def out_of_order(offer: Offer) -> Offer:
    """Return *offer* for a time in which no GPU of the node can be used at all."""
    return replace(offer, cards=tuple(replace(card, healthy=False) for card in offer.cards))


def device_ids(card: RegisteredDevice) -> tuple[str, ...]:
    """Return the ids under which kubelet knows the parts of *card*."""
    if is_partition(card.uuid):
        return (card.uuid,)
    return tuple(f"{card.uuid}-{number}" for number in range(card.count))


def is_partition(uuid: str) -> bool:
    """Tell whether it is a MIG device's, which is never divided further."""
    return uuid.startswith("MIG-")


def unmatched(inventory: Inventory, config: EffectiveConfig) -> tuple[str, ...]:
    """Return what *config* filters and the node does not have, as far as that is certain."""
    there = {each.lower() for gpu in inventory.gpus for each in _uuids(gpu)}
    there |= {fault.uuid.lower() for fault in inventory.faults if fault.uuid}
    count = len(inventory.gpus) + len(inventory.faults)
    uuids = [each for each in config.filtered.uuids if each.lower() not in there]
    return (
        # Any GPU that cannot be read may be the one that is meant, or have it as a part.
        *(() if inventory.faults else uuids),
        *(f"index {each}" for each in config.filtered.indexes if each >= count),
    )


class _Offering:
    """One offer in the making."""

    def __init__(self, inventory: Inventory, config: EffectiveConfig, known: Known) -> None:
        self._config, self._profiles = config, known.profiles
        self._filtered = frozenset(each.lower() for each in config.filtered.uuids)
        self._ailing = frozenset(each.uuid for each in inventory.ailments)
        self._places = tuple(_places(inventory, known.seen))
        self._are_alike = _are_alike(
            [place.gpu for place in self._places if place.gpu and not self._is_filtered(place)]
        )

    def all(self) -> Iterator[tuple[GpuUuid, RegisteredDevice | str]]:
        """Yield all cards in their order, each with its UUID, or why there is none."""
        for place in self._places:
            yield from self._of(place)

    def _of(self, place: _Place) -> Iterator[tuple[GpuUuid, RegisteredDevice | str]]:
        gpu = place.gpu
        if self._is_filtered(place):
            yield place.uuid, self._filter_reason()
        elif gpu is None:
            yield place.uuid, _unreadable(place)
        elif gpu.compute_mode is ComputeMode.PROHIBITED:
            yield place.uuid, "its compute mode lets no process use it: `nvidia-smi -c DEFAULT`"
        elif gpu.mig_enabled and self._config.operating_mode is not OperatingMode.MIG:
            yield from self._partitions(place, gpu)
        else:
            try:
                yield place.uuid, self._card(place, gpu)
            except _WithheldError as error:
                yield place.uuid, str(error)

    def _card(self, place: _Place, gpu: Gpu) -> RegisteredDevice:
        mode = self._config.operating_mode
        card = RegisteredDevice(
            word=NVIDIA,
            uuid=gpu.uuid,
            index=place.index,
            count=self._config.split_count,
            memory_mib=gpu.memory_mib or 0,
            cores=_WHOLE,
            type=_model(gpu.name),
            numa=gpu.numa_node or 0,
            mode=mode.value,
            healthy=self._is_well(place, gpu.uuid),
        )
        return self._divisible(card, gpu) if mode is OperatingMode.MIG else self._shared(card, gpu)

    def _shared(self, card: RegisteredDevice, gpu: Gpu) -> RegisteredDevice:
        memory_mib = gpu.memory_mib or self._config.preconfigured_memory_mib
        if not memory_mib:
            message = "it has no memory of its own, and preconfigureddevicememory is not set"
            raise _WithheldError(message)
        is_alone = gpu.compute_mode is ComputeMode.EXCLUSIVE_PROCESS
        return replace(
            card,
            count=1 if is_alone else card.count,
            memory_mib=int(memory_mib * self._config.memory_scaling),
            cores=int(_WHOLE * self._config.core_scaling),
        )

    def _divisible(self, card: RegisteredDevice, gpu: Gpu) -> RegisteredDevice:
        """Return a card of which instances are made on demand; nothing of it is scaled."""
        if self._profiles is None:
            message = "operatingmode is mig, and this agent makes no MIG instances"
            raise _WithheldError(message)
        allowlist = self._config.base.mig_profile_allowlist
        if not dividing.names(allowlist, card.type):
            message = f"operatingmode is mig, and no MIG profile is allowed for {card.type}"
            raise _WithheldError(message)
        if not gpu.mig_enabled:
            message = (
                "operatingmode is mig, and MIG is not switched on: "
                f"`nvidia-smi -i {gpu.pci_bus_id} -mig 1`, while nobody uses the GPU"
            )
            raise _WithheldError(message)
        found = self._profiles.get(GpuUuid(card.uuid), ())
        profiles = dividing.allowed(found, allowlist, card.type)
        if not profiles:
            message = (
                f"operatingmode is mig, and the GPU has no MIG profile allowed for {card.type}"
            )
            raise _WithheldError(message)
        return replace(
            card,
            count=max(profile.instances for _, profile in profiles),
            mig_profiles=tuple(dividing.registered(profiles)),
        )

    def _partitions(
        self, place: _Place, gpu: Gpu
    ) -> Iterator[tuple[GpuUuid, RegisteredDevice | str]]:
        if reason := self._unpartitioned(gpu):
            yield gpu.uuid, reason
            return
        for mig in gpu.mig_devices:
            is_filtered = mig.uuid.lower() in self._filtered
            yield (
                mig.uuid,
                (self._filter_reason() if is_filtered else self._partition(place, gpu, mig)),
            )

    def _unpartitioned(self, gpu: Gpu) -> str:
        """Return why no partition of *gpu* is offered; empty where they are."""
        strategy = self._config.mig_strategy
        if strategy is MigStrategy.NONE:
            return "MIG is switched on, and migstrategy is none"
        if not gpu.mig_devices:
            return "MIG is switched on, and it has no partitions"
        if strategy is MigStrategy.SINGLE and not self._are_alike:
            return "migstrategy is single, and not all GPUs have partitions of one kind"
        return ""

    def _partition(self, place: _Place, gpu: Gpu, mig: MigDevice) -> RegisteredDevice:
        return RegisteredDevice(
            word=NVIDIA,
            uuid=mig.uuid,
            index=place.index,
            count=1,
            memory_mib=mig.memory_mib,
            cores=_WHOLE,
            type=_model(f"{gpu.name} MIG {mig.profile}"),
            numa=gpu.numa_node or 0,
            # Not `mig`, by which the scheduler would make instances in it.
            mode=OperatingMode.HAMI_CORE.value,
            healthy=self._is_well(place, gpu.uuid, mig.uuid),
        )

    def _is_well(self, place: _Place, *uuids: GpuUuid) -> bool:
        return place.fault is None and self._ailing.isdisjoint(uuids)

    def _is_filtered(self, place: _Place) -> bool:
        is_named = place.uuid.lower() in self._filtered
        return is_named or place.index in self._config.filtered.indexes

    def _filter_reason(self) -> str:
        return f"filtered by {self._config.sources.get('filtered', 'the node configuration')}"


def _places(inventory: Inventory, seen: Mapping[GpuUuid, Gpu]) -> Iterator[_Place]:
    """Yield all GPUs in the order of PCI bus ids, which is NVML's own, each with its position."""
    known: list[Gpu | GpuFault] = [*inventory.gpus]
    known += [fault for fault in inventory.faults if fault.pci_bus_id]
    known.sort(key=lambda each: each.pci_bus_id or "")
    for fault in sorted(inventory.faults, key=lambda each: each.index):
        if not fault.pci_bus_id:
            known.insert(fault.index, fault)
    for index, found in enumerate(known):
        if isinstance(found, Gpu):
            yield _Place(index=index, uuid=found.uuid, gpu=found, fault=None)
        else:
            uuid = found.uuid or GpuUuid("")
            yield _Place(index=index, uuid=uuid, gpu=seen.get(uuid), fault=found)


def _are_alike(gpus: Sequence[Gpu]) -> bool:
    """Tell whether *gpus* have nothing but partitions of one profile."""
    kinds = {mig.profile for gpu in gpus for mig in gpu.mig_devices}
    return len(kinds) == 1 and all(gpu.mig_enabled for gpu in gpus)


def _uuids(gpu: Gpu) -> tuple[GpuUuid, ...]:
    return (gpu.uuid, *(mig.uuid for mig in gpu.mig_devices))


def _model(name: str) -> str:
    return _SEPARATORS.sub(" ", matching.registered_model(name))


def _unreadable(place: _Place) -> str:
    fault = place.fault
    assert fault is not None  # noqa: S101  # what has neither was never found
    name = fault.pci_bus_id or f"index {place.index}"
    return f"GPU {name} cannot be read: {fault.call} failed with {fault.reason}"
