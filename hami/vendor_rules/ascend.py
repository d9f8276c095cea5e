"""Ascend: memory in the steps of a chip's templates, or any size where the split is soft."""

from dataclasses import dataclass
from typing import Final

from hami.requests import DeviceRequest
from hami.vendor_rules.asking import Asking
from hami.vendor_rules.plain import sized
from hami.vendor_rules.vendor import Vendor

MODE_KEY: Final = "huawei.com/vnpu-mode"
SOFT: Final = "hami-core"
_DEVICES_VARIABLE: Final = "ASCEND_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A part into which a chip can be cut."""

    name: str
    memory_mib: int
    ai_cores: int = 0
    ai_cpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendRule:
    """Read one chip of the family."""

    chip_name: str
    memory_allocatable_mib: int
    memory_capacity_mib: int
    templates: tuple[Template, ...] = ()
    """Smallest memory first."""
    ai_cores: int = 0
    ai_cpus: int = 0
    runtime_class_name: str = ""
    overwrite_env: bool = False
    """Whether a container without any chip of the family is shown none."""
    pairs: bool = False
    """Whether two chips sit on one module, which is given whole."""
    soft_nodes: bool = False
    """Whether nodes that do not say how they split do it softly."""
    family: frozenset[str] = frozenset()
    """The counts of all chips that are served."""

    def __call__(self, vendor: Vendor, asking: Asking) -> DeviceRequest | None:
        """Return what is asked for, and write the memory that the scheduler is to book."""
        parts = vendor.memory_name, vendor.core_name
        written = asking.count(vendor.count_name, *parts)
        if not written:
            if self.overwrite_env and not asking.says(*self.family):
                asking.append_env(_DEVICES_VARIABLE, "")
            return None
        count = self._whole_modules(vendor, asking, written)
        soft = asking.annotations.get(MODE_KEY) == SOFT
        cores = asking.amount(vendor.core_name, high=100)
        if cores and not soft:
            limit = f"{vendor.core_name} is only supported in {SOFT} (soft split) mode"
            remedy = f"set annotation {MODE_KEY}: {SOFT}"
            asking.refuse("CoresNeedSoftSplit", vendor.core_name, limit, remedy=remedy)
        memory = self._memory(vendor, asking, soft=soft)
        one_place = 2 if self.pairs else 1
        if count > one_place and not soft and memory != self.memory_allocatable_mib:
            limit = "vNPU not supported for multiple devices"
            asking.refuse("PartOfSeveralDevices", vendor.count_name, limit)
        asking.set(vendor.memory_name, memory, request=True)
        asking.run_in(self.runtime_class_name)
        return sized(vendor, count, memory_mib=memory * vendor.memory_factor, cores=cores)

    def trimmed_mib(self, memory_mib: int) -> int | None:
        """Return the memory of the smallest part that holds *memory_mib*; `None` for none."""
        for template in self.templates:
            if memory_mib <= template.memory_mib:
                return template.memory_mib
        return self.memory_allocatable_mib if memory_mib <= self.memory_capacity_mib else None

    def _whole_modules(self, vendor: Vendor, asking: Asking, count: int) -> int:
        if not self.pairs or count % 2 == 0:
            return count
        if count == 1:
            limit = f"{vendor.count_name} becomes 2: a module is given whole"
            asking.warn("CountRounded", vendor.count_name, limit)
            asking.set(vendor.count_name, 2)
            return 2
        limit = f"{vendor.word} device request must be 1 or 2*n, got {count}"
        asking.refuse("CountNotOffered", vendor.count_name, limit)
        return count

    def _memory(self, vendor: Vendor, asking: Asking, *, soft: bool) -> int:
        """Return the number to write, before the factor."""
        name = vendor.memory_name
        size = asking.memory(name, vendor.memory_factor, zero=False)
        if size is None:
            return self.memory_allocatable_mib
        if soft:
            return size.units
        trimmed = self.trimmed_mib(size.units)
        if trimmed is None:
            limit = f"{name} {size.units} is more than {self.memory_capacity_mib}"
            asking.refuse("MemoryNotOffered", name, limit)
            return self.memory_allocatable_mib
        if trimmed != size.units:
            asking.warn("MemoryRounded", name, f"{name} becomes {trimmed}, the next size offered")
        return trimmed
