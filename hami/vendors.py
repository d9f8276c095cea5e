"""Every backend of HAMi but NVIDIA's: the `Vendor`s of its `device-config.yaml`.

Ascend and Iluvatar are served only when asked for, as by HAMi's flags. Hygon's devices are DCU up
to v2.10 and HCU afterwards: manifests of both times are served, with the keys of their time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from hami.vendor_rules import catalog, chart, sections
from hami.vendor_rules.ascend_chips import ascend_chips
from hami.vendor_rules.metax import MetaxShareRule
from hami.vendor_rules.neuron import NeuronRule
from hami.vendor_rules.vendor import Lock, Register, Vendor, VendorReading

__all__ = ["Lock", "Register", "Vendor", "VendorReading", "from_sections", "known_keys"]

_SHARED: Final = {
    "cambricon": catalog.CAMBRICON,
    "mthreads": catalog.MTHREADS,
    "amd": catalog.AMD,
    "vastai": catalog.VASTAI,
    "biren": catalog.BIREN,
}
"""Those whose sections have the common keys and nothing of their own."""
_SECTIONS: Final[Mapping[str, type[sections.Section]]] = {
    **dict.fromkeys((*_SHARED, "awsneuron", "hygon"), sections.Names),
    "metax": sections.Metax,
    "enflame": sections.Enflame,
    "iluvatars": sections.IluvatarChip,
    "kunlun": sections.Kunlun,
    "vnpus": sections.Ascend,
}


def from_sections(
    said: Mapping[str, Any],
    *,
    ascend: bool = False,
    iluvatar: bool = False,
    neuron_cores_per_device: int = 2,
) -> tuple[Vendor, ...]:
    """Return the vendors of a parsed `device-config.yaml`; of an empty one HAMi's chart's.

    A vendor without a section, or without any resource name in it, is not served. Raises
    pydantic's `ValidationError`, which is a `ValueError`, for a value of the wrong kind.
    """
    said = said or chart.SECTIONS
    named = (
        *_common(said),
        *_hygon(_names(said, "hygon")),
        *_metax(sections.Metax.model_validate(said.get("metax") or {})),
        *_enflame(sections.Enflame.model_validate(said.get("enflame") or {})),
        *_kunlun(sections.Kunlun.model_validate(said.get("kunlun") or {})),
        _neuron(_names(said, "awsneuron"), neuron_cores_per_device),
        *(_iluvatar(said.get("iluvatars") or ()) if iluvatar else ()),
        *(_ascend(said.get("vnpus") or {}) if ascend else ()),
    )
    return tuple(vendor for vendor in named if vendor.keys)


def known_keys(section: str) -> frozenset[str]:
    """Return the keys that HAMi reads in *section*; for `iluvatars` those of one model."""
    model = _SECTIONS.get(section)
    return model.keys() if model else frozenset()


def _names(said: Mapping[str, Any], section: str) -> sections.Names:
    return sections.Names.model_validate(said.get(section) or {})


def _named(vendor: Vendor, count: str, memory: str = "", core: str = "") -> Vendor:
    return replace(vendor, count_name=count, memory_name=memory, core_name=core)


def _common(said: Mapping[str, Any]) -> Iterator[Vendor]:
    for section, vendor in _SHARED.items():
        names = _names(said, section)
        count, memory, core = (
            names.resource_count_name,
            names.resource_memory_name,
            names.resource_core_name,
        )
        yield _named(vendor, count, memory, core)


def _hygon(names: sections.Names) -> Iterator[Vendor]:
    words = names.resource_count_name, names.resource_memory_name, names.resource_core_name
    configured, other, old, new = catalog.DCU, catalog.HCU, "dcu", "hcu"
    if new in words[0]:
        configured, other, old, new = other, configured, new, old
    factor = max(1, names.memory_factor)
    yield replace(_named(configured, *words), memory_factor=factor)
    if old in words[0]:
        # A name that says nothing of the old kind is the other's alone.
        renamed = (word.replace(old, new) if old in word else "" for word in words)
        yield replace(_named(other, *renamed), memory_factor=factor)


def _metax(names: sections.Metax) -> Iterator[Vendor]:
    yield _named(catalog.METAX, names.resource_count_name)
    share = _named(
        catalog.METAX_SHARE,
        names.resource_v_count_name,
        names.resource_v_memory_name,
        names.resource_v_core_name,
    )
    yield replace(share, rule=MetaxShareRule(topology_aware=names.sgpu_topology_aware))


def _enflame(names: sections.Enflame) -> Iterator[Vendor]:
    yield _named(catalog.DRS, names.drs or names.vgcu, names.memory, names.core)
    yield _named(catalog.GCU, names.gcu)


def _kunlun(names: sections.Kunlun) -> Iterator[Vendor]:
    yield _named(catalog.KUNLUN, names.resource_count_name)
    yield _named(catalog.KUNLUN_SHARE, names.resource_v_count_name, names.resource_v_memory_name)


def _neuron(names: sections.Names, cores_per_device: int) -> Vendor:
    rule = NeuronRule(cores_per_device=cores_per_device)
    vendor = _named(catalog.NEURON, names.resource_count_name, core=names.resource_core_name)
    return replace(vendor, rule=rule)


def _iluvatar(chips: Any) -> Iterator[Vendor]:
    for chip in sections.ILUVATAR.validate_python(chips):
        vendor = catalog.iluvatar_chip(chip.common_word)
        names = chip.resource_count_name, chip.resource_memory_name, chip.resource_core_name
        yield _named(vendor, *names)


def _ascend(section: Any) -> Iterator[Vendor]:
    if isinstance(section, list):  # what HAMi had before the soft split
        section = {"configs": section}
    yield from ascend_chips(sections.Ascend.model_validate(section))
