"""Rows for resources and annotations of other vendors, whose devices HAMi's scheduler gives."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami.vendor_rules import ascend, metax
from tests.hami.vendorreading import CHART
from tests.webhook.legacy_row import Outcome, Row, with_limits

_ASCEND: Final = "huawei.com/Ascend910B4"
_SOFT: Final = ascend.MODE_KEY


def _both(row: Mapping[str, Any], outcome: Outcome) -> Row:
    return Row(**row, dra=outcome, hami=outcome)


def _resources(word: str, limits: Mapping[str, str], says: str, **more: Any) -> Row:
    """Return the row of a vendor's resource names; *more* is `pod` or `refused` or `annotations`.

    A pod that is not said to change keeps its limits.
    """
    annotations = more.pop("annotations", {})
    row = {
        "name": f"{word}: {says}",
        "keys": tuple(limits),
        "given": ", ".join(f"`{key}: {value}`" for key, value in limits.items()),
        "limits": limits,
        "annotations": annotations,
    }
    if "refused" not in more:
        more = {"pod": with_limits(limits)} | more
    return _both(row, Outcome(says=says, **more))


def vendor_resource_rows() -> Iterator[Row]:
    """Yield rows of every resource name of every vendor, and of what is written or refused."""
    yield from _plain_rows()
    yield from _rows_with_writing()
    yield from _ascend_rows()
    yield from _iluvatar_rows()


def _plain_rows() -> Iterator[Row]:
    stays = "stays"
    for word, limits in {
        "MLU": {
            "cambricon.com/vmlu": "1",
            "cambricon.com/mlu.smlu.vmemory": "4",
            "cambricon.com/mlu.smlu.vcore": "30",
        },
        "DCU": {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "60"},
        "HCU": {"hygon.com/hcunum": "1", "hygon.com/hcumem": "2000", "hygon.com/hcucores": "60"},
        "AMD": {"amd.com/gpu": "1", "amd.com/gpumem": "8192", "amd.com/gpucores": "50"},
        "Metax-GPU": {"metax-tech.com/gpu": "2"},
        "GCU": {"enflame.com/gcu": "2"},
        "Vastai": {"vastaitech.com/va": "3"},
        "Biren": {"birentech.com/gpu": "1"},
        "kunlun": {"kunlunxin.com/xpu": "4"},
        "AWSNeuron": {"aws.amazon.com/neuron": "1"},
        "AWSNeuron cores": {"aws.amazon.com/neuroncore": "2"},
    }.items():
        yield _resources(word, limits, stays)


def _rows_with_writing() -> Iterator[Row]:
    vmemory = "kunlunxin.com/vxpu-memory"
    yield _resources(
        "XPU",
        {"kunlunxin.com/vxpu": "1", vmemory: "20000"},
        "memory becomes a quarter, a half or all of a device",
        pod=with_limits({vmemory: "24576"}),
    )
    yield _resources(
        "kunlun", {"kunlunxin.com/xpu": "3"}, "refused: 1, 2, 4 or 8", refused="CountNotOffered"
    )
    yield _resources(
        "Metax-SGPU",
        {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4", "metax-tech.com/vcore": "50"},
        "stays, with the policy `best-effort` where the pod names none",
        pod={"metadata": {"annotations": {"metax-tech.com/sgpu-qos-policy": "best-effort"}}},
    )
    core, memory = "mthreads.com/sgpu-core", "mthreads.com/sgpu-memory"
    yield _resources(
        "Mthreads",
        {"mthreads.com/vgpu": "2"},
        "several devices are whole: cores, memory and their number are written",
        pod=with_limits(
            {core: "32", memory: "192"}, annotations={"mthreads.com/request-gpu-num": "2"}
        ),
    )
    yield _resources(
        "Mthreads",
        {"mthreads.com/vgpu": "1", memory: "3", core: "4"},
        "refused: memory of one device is 2, 4, 8, 16, 32, 64 or 96",
        refused="MemoryNotOffered",
    )
    drs = "enflame.com/drs-gcu"
    yield _resources("Enflame", {drs: "2"}, "stays, in limits and requests")
    yield _resources(
        "Enflame",
        {"enflame.com/gcu-memory": "8", "enflame.com/gcu-core": "25"},
        "stays: the smallest profile that has both",
    )
    yield _resources(
        "AWSNeuron",
        {"aws.amazon.com/neuroncore": "3"},
        "refused: cores of several devices are whole devices",
        refused="CoresNotWholeDevices",
    )


def _ascend_rows() -> Iterator[Row]:
    for word in (each for each in CHART if each.startswith("Ascend")):
        vendor = CHART[word]
        yield _resources(
            word,
            {vendor.count_name: "1" if word != "Ascend910C" else "2", vendor.memory_name: "5000"},
            "memory becomes that of the smallest template",
            pod=with_limits({vendor.memory_name: lambda text: int(text) >= 5000}),
        )
        yield _resources(
            word,
            {vendor.count_name: "1", vendor.core_name: "50"},
            f"cores are refused without `{_SOFT}: hami-core`",
            refused="CoresNeedSoftSplit",
        )
    yield _resources(
        "Ascend910C",
        {"huawei.com/Ascend910C": "1"},
        "one becomes two: a module is given whole",
        pod=with_limits({"huawei.com/Ascend910C": "2"}),
    )


def _iluvatar_rows() -> Iterator[Row]:
    for word in (each for each in CHART if CHART[each].count_name.startswith("iluvatar.ai/")):
        vendor = CHART[word]
        count, memory, core = vendor.count_name, vendor.memory_name, vendor.core_name
        yield _resources(word, {count: "1", memory: "16", core: "50"}, "stays")
        yield _resources(
            word,
            {count: "2"},
            "several devices get all their cores, and the container its name in a variable",
            pod=with_limits({core: "200"}),
        )


def vendor_annotation_rows() -> Iterator[Row]:
    """Yield rows of the annotations by which other vendors' devices are chosen."""
    for word, vendor in CHART.items():
        chosen = {
            "use_uuid_keys": ("one of these devices", "DEV-1"),
            "nouse_uuid_keys": ("none of these devices", "DEV-1"),
            "use_type_keys": ("one of these models", "model"),
            "nouse_type_keys": ("none of these models", "model"),
        }
        count = "2" if word == "Ascend910C" else "1"
        limits = {vendor.count_name: count}
        for attribute, (what, value) in chosen.items():
            for key in getattr(vendor, attribute):
                pod = with_limits({}, annotations={key: value})
                row = {
                    "name": f"{word} {key}",
                    "keys": (key,),
                    "given": f"`{key}`, with `{vendor.count_name}`",
                    "limits": limits,
                    "annotations": {key: value},
                }
                yield _both(row, Outcome(says=f"stays, for HAMi's scheduler: {what}", pod=pod))
    yield from _metax_rows()
    yield from _mode_rows()


def _metax_rows() -> Iterator[Row]:
    limits = {"metax-tech.com/sgpu": "1"}
    cases = (
        (metax.APP_CLASS_KEY, "online", "stays; an online pod gets no policy", ""),
        (metax.APP_CLASS_KEY, "odd", "refused: `online` or `offline`", "AppClassUnknown"),
        (metax.QOS_KEY, "fixed-share", "stays", ""),
        (
            metax.QOS_KEY,
            "odd",
            "refused: `best-effort`, `fixed-share` or `burst-share`",
            "QosPolicyUnknown",
        ),
        (metax.TOPOLOGY_KEY, "true", "stays, for HAMi's scheduler", ""),
    )
    for key, value, says, refused in cases:
        pod = None if refused else with_limits(limits, annotations={key: value})
        row = {
            "name": f"{key.partition('/')[2]} {value}",
            "keys": (key,),
            "given": f"`{key}: {value}`",
            "limits": limits,
            "annotations": {key: value},
        }
        yield _both(row, Outcome(says=says, pod=pod, refused=refused))


def _mode_rows() -> Iterator[Row]:
    yield _resources(
        "Ascend910B4",
        {_ASCEND: "1", f"{_ASCEND}-memory": "5000", f"{_ASCEND}-core": "50"},
        f"with `{_SOFT}: hami-core` any memory and cores stay",
        annotations={_SOFT: "hami-core"},
    )
    row = {
        "name": "vnpu-mode",
        "keys": (_SOFT,),
        "given": f"`{_SOFT}: hami-core`",
        "limits": {_ASCEND: "1", f"{_ASCEND}-memory": "5000"},
        "annotations": {_SOFT: "hami-core"},
    }
    pod = with_limits({f"{_ASCEND}-memory": "5000"}, annotations={_SOFT: "hami-core"})
    yield _both(row, Outcome(says="soft split: memory is not rounded to templates", pod=pod))
