"""Rows for the other vendors' sections of `device-config.yaml`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami import vendors
from hami.vendor_rules import sections
from hami.vendor_rules.chart import SECTIONS
from tests.webhook.legacy_row import Outcome, Row, main_has, with_limits

_SERVED: Final = {"spec": {"schedulerName": "hami-scheduler"}}
_BESIDE: Final = {
    "resourceVMemoryName": "resourceVCountName",
    "resourceVCoreName": "resourceVCountName",
    "resourceMemoryName": "resourceCountName",
    "resourceCoreName": "resourceCountName",
}
"""Which name must have a count for this one to mean something."""
_ALONE: Final = {"awsneuron"}
_ASCEND: Final = "vnpus"


def section_rows() -> Iterator[Row]:
    """Yield rows of every key of every section."""
    for section, said in SECTIONS.items():
        if section == _ASCEND:
            continue
        of_one = said[0] if isinstance(said, list) else said
        for key in of_one:
            if key.startswith("resource"):
                yield _renamed(section, key, of_one)
    yield from _special_rows()
    yield from _ascend_rows()
    yield from _inert_rows()


def _renamed(section: str, key: str, said: Mapping[str, Any]) -> Row:
    renamed = f"example.com/{section}-{key.removeprefix('resource').lower()}"
    limits = {renamed: "2" if key.endswith(("VMemoryName", "MemoryName")) else "1"}
    beside = _BESIDE.get(key)
    if beside and section not in _ALONE:
        limits[said[beside]] = "1"
    outcome = Outcome(says="read under this name; the pod goes to HAMi's scheduler", pod=_SERVED)
    return Row(
        name=f"{section} {key}",
        keys=(f"{section}.{key}",),
        given=f"`{key}: {renamed}` for `{said[key]}`",
        limits=limits,
        sections={section: {key: renamed}},
        dra=outcome,
        hami=outcome,
    )


def _special_rows() -> Iterator[Row]:
    factor = Outcome(
        says="HAMi's scheduler multiplies; bytes are read by it: `1Gi` of 512 MiB is 2",
        pod=with_limits({"hygon.com/dcumem": "2"}),
    )
    yield Row(
        name="hygon memoryFactor",
        keys=("hygon.memoryFactor",),
        given="`memoryFactor: 512`",
        limits={"hygon.com/dcunum": "1", "hygon.com/dcumem": "1Gi"},
        sections={"hygon": {"memoryFactor": 512}},
        dra=factor,
        hami=factor,
    )
    old = Outcome(says="an older name of `resourceNameDRSGCU`, where that is empty", pod=_SERVED)
    yield Row(
        name="enflame resourceNameVGCU",
        keys=("enflame.resourceNameVGCU",),
        given="`resourceNameVGCU: example.com/vgcu`",
        limits={"example.com/vgcu": "1"},
        sections={"enflame": {"resourceNameVGCU": "example.com/vgcu", "resourceNameDRSGCU": ""}},
        dra=old,
        hami=old,
    )
    word = Outcome(
        says="HAMi's common word of the model; its annotations carry it",
        pod=_SERVED,
    )
    yield Row(
        name="iluvatars commonWord",
        keys=("iluvatars.commonWord",),
        given="`commonWord: MR-V200`",
        limits={"iluvatar.ai/MR-V100-vgpu": "1"},
        sections={"iluvatars": {"commonWord": "MR-V200"}},
        dra=word,
        hami=word,
    )


def _ascend_rows() -> Iterator[Row]:
    chips = f"{_ASCEND}.configs[]"
    word = "huawei.com/Ascend910A"
    for key, name, limits in (
        ("resourceName", "example.com/npu", {"example.com/npu": "1"}),
        ("resourceMemoryName", "example.com/mem", {word: "1", "example.com/mem": "2184"}),
        ("resourceCoreName", "example.com/core", {word: "1", "example.com/core": "0"}),
    ):
        outcome = Outcome(says="read under this name", pod=_SERVED)
        yield _ascend_row(key, {key: name}, limits, outcome)
    memory = f"{word}-memory"
    for key, value, limits, says, expected in (
        ("memoryAllocatable", 30000, {word: "1"}, "written where no memory is given", "30k"),
        (
            "memoryCapacity",
            40000,
            {word: "1", memory: "35000"},
            "the most that may be asked for; more is refused",
            "32768",
        ),
        (
            "memoryFactor",
            2,
            {word: "1", memory: "2184"},
            "HAMi's scheduler multiplies",
            "2184",
        ),
    ):
        pod = with_limits({memory: expected})
        yield _ascend_row(key, {key: value}, limits, Outcome(says=says, pod=pod))
    templates = [{"name": "part", "memory": 3000, "aiCore": 1, "aiCPU": 1}]
    rounded = Outcome(
        says="memory becomes that of the smallest that holds it", pod=with_limits({memory: "3k"})
    )
    yield _ascend_row(
        "templates", {"templates": templates}, {word: "1", memory: "2k"}, rounded, "memory"
    )
    yield _ascend_row(
        "runtimeClassName",
        {"runtimeClassName": "ascend"},
        {word: "1"},
        Outcome(
            says="written where the pod names none", pod={"spec": {"runtimeClassName": "ascend"}}
        ),
    )
    hidden = [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]
    yield _ascend_row(
        "overwriteEnv",
        {"overwriteEnv": True},
        {},
        Outcome(says="containers without a chip are shown none", pod=main_has(env=hidden)),
    )
    paired = "huawei.com/Ascend910C"
    single = Outcome(
        says="two chips on a module, which is given whole: one becomes two",
        pod=with_limits({paired: "2"}),
    )
    yield Row(
        name="vnpus superPod",
        keys=(f"{chips}.superPod",),
        given="`superPod: true`, of Ascend910C",
        limits={paired: "1"},
        dra=single,
        hami=single,
    )
    models = Outcome(says="a vendor for each model", pod=_SERVED)
    yield Row(
        name="vnpus configs",
        keys=(f"{_ASCEND}.configs", f"{chips}.commonWord"),
        given="`configs`",
        limits={word: "1"},
        dra=models,
        hami=models,
    )


def _ascend_row(
    key: str, values: Mapping[str, Any], limits: Mapping[str, str], outcome: Outcome, *below: str
) -> Row:
    chips = f"{_ASCEND}.configs[]"
    keys = (f"{chips}.{key}", *(f"{chips}.{key}[].{each}" for each in below))
    return Row(
        name=f"vnpus {key}",
        keys=keys,
        given=f"`{key}`",
        limits=limits,
        sections={_ASCEND: values},
        dra=outcome,
        hami=outcome,
    )


def _inert_rows() -> Iterator[Row]:
    """Yield rows of what HAMi's scheduler and device plugins alone look at."""
    scheduler = Outcome(says="nothing at admission: the scheduler's and device plugin's")
    chip = "huawei.com/Ascend910A"
    first: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
        ("metax", {"sgpuTopologyAware": True}, {"metax-tech.com/sgpu": "1"}),
        ("iluvatars", {"chipName": "other"}, {"iluvatar.ai/MR-V100-vgpu": "1"}),
        (_ASCEND, {"hamiVnpuCore": True}, {chip: "1"}),
        ("enflame", {"resourceNameVGCUPercentage": "example.com/vgcu"}, {"enflame.com/gcu": "1"}),
    )
    for section, values, limits in first:
        (key,) = values
        yield _inert(
            f"{section} {key}", (f"{section}.{key}",), {section: values}, limits, scheduler
        )
    for key, value in {"chipName": "other", "aiCore": 1, "aiCPU": 1}.items():
        keys = (f"{_ASCEND}.configs[].{key}",)
        yield _inert(f"vnpus {key}", keys, {_ASCEND: {key: value}}, {chip: "1"}, scheduler)
    named = [{"name": "other", "memory": 2184, "aiCore": 9, "aiCPU": 9}]
    below = f"{_ASCEND}.configs[].templates[]"
    rest = tuple(f"{below}.{key}" for key in ("name", "aiCore", "aiCPU"))
    asked = {chip: "1", f"{chip}-memory": "2k"}
    yield _inert("vnpus rest of templates", rest, {_ASCEND: {"templates": named}}, asked, scheduler)
    yield from _unread_rows()


def _unread_rows() -> Iterator[Row]:
    """Yield rows of keys that sections know only because they share their form with others."""
    nobody = Outcome(says="nothing: known, because HAMi's sections share their form")
    for section, said in SECTIONS.items():
        if vendors.known_keys(section) != sections.Names.keys():
            continue
        for key in sorted(sections.Names.keys() - set(said)):
            value: Any = 2 if key == "memoryFactor" else f"example.com/{section}"
            limits = {said["resourceCountName"]: "1"}
            keys = (f"{section}.{key}",)
            yield _inert(f"{section} {key}", keys, {section: {key: value}}, limits, nobody)


def _inert(
    name: str,
    keys: tuple[str, ...],
    said: Mapping[str, Mapping[str, Any]],
    limits: Mapping[str, str],
    outcome: Outcome,
) -> Row:
    return Row(
        name=name,
        keys=keys,
        given=", ".join(f"`{key.rpartition('.')[2]}`" for key in keys),
        limits=limits,
        sections=said,
        dra=outcome,
        hami=outcome,
        inert=True,
    )
