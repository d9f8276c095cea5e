"""Ascend's models as configured: each is a vendor, and all are one family."""

from collections.abc import Iterator

from hami.vendor_rules.ascend import AscendRule, Template
from hami.vendor_rules.sections import Ascend, AscendChip
from hami.vendor_rules.vendor import Lock, Register, Vendor

_PAIRED = "Ascend910C"


def ascend_chips(section: Ascend) -> Iterator[Vendor]:
    """Yield a vendor for each configured model.

    Only the first of those that hide devices from other containers does it: once is enough.
    """
    family = frozenset(chip.resource_name for chip in section.configs)
    hidden = False
    for chip in section.configs:
        hides = chip.overwrite_env and not hidden
        hidden = hidden or hides
        yield _vendor(chip, _rule(chip, family, hides=hides, soft=section.hami_vnpu_core))


def _rule(chip: AscendChip, family: frozenset[str], *, hides: bool, soft: bool) -> AscendRule:
    templates = (
        Template(name=each.name, memory_mib=each.memory, ai_cores=each.ai_core, ai_cpus=each.ai_cpu)
        for each in chip.templates
    )
    return AscendRule(
        chip_name=chip.chip_name,
        memory_allocatable_mib=chip.memory_allocatable,
        memory_capacity_mib=chip.memory_capacity,
        templates=tuple(sorted(templates, key=lambda each: each.memory_mib)),
        ai_cores=chip.ai_core,
        ai_cpus=chip.ai_cpu,
        runtime_class_name=chip.runtime_class_name,
        overwrite_env=hides,
        pairs=chip.super_pod and chip.common_word == _PAIRED,
        soft_nodes=soft,
        family=family,
    )


def _vendor(chip: AscendChip, rule: AscendRule) -> Vendor:
    word = chip.common_word
    return Vendor(
        word=word,
        count_name=chip.resource_name,
        memory_name=chip.resource_memory_name,
        core_name=chip.resource_core_name,
        in_request_key=f"hami.io/{word}-devices-to-allocate",
        support_key=f"hami.io/{word}-devices-allocated",
        scheduler_keys=("predicate-time", f"huawei.com/{word}"),
        register_key=f"hami.io/node-register-{word}",
        handshake_key=f"hami.io/node-handshake-{word}",
        register=Register.JSON,
        lock=Lock.SHARED,
        memory_factor=max(1, chip.memory_factor),
        edits_all=rule.overwrite_env,
        use_uuid_keys=(f"hami.io/use-{word}-uuid",),
        nouse_uuid_keys=(f"hami.io/no-use-{word}-uuid",),
        rule=rule,
    )
