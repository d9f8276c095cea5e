"""Ascend: templates, modules of two chips, the soft split, and containers that see none."""

from typing import Any

import pytest

from hami.requests import Edits
from hami.vendors import Vendor, from_sections
from tests.hami.vendorreading import pod, read, read_pod, reasons, request, warnings

CHIP = "huawei.com/Ascend910B3"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
HIDDEN = (("ASCEND_VISIBLE_DEVICES", ""),)


def both(amounts: dict[str, str]) -> Edits:
    """Return edits of limits and requests alike."""
    return Edits(limits=amounts, requests=amounts)


def chips(*words: str, **common: Any) -> tuple[Vendor, ...]:
    """Return chips with these settings in common."""
    configs = [
        {
            "commonWord": word,
            "resourceName": f"huawei.com/{word}",
            "resourceMemoryName": f"huawei.com/{word}-memory",
            "memoryAllocatable": 100,
            "memoryCapacity": 100,
            **common,
        }
        for word in words
    ]
    return from_sections({"vnpus": {"configs": configs}}, ascend=True)


@pytest.mark.parametrize(
    ("chip", "asked", "given"),
    [
        ("Ascend910A", 1, 2184),
        ("Ascend910A", 2185, 4369),
        ("Ascend910A", 17477, 32768),
        ("Ascend910B2", 8192, 8192),
        ("Ascend910B2", 8193, 16384),
        ("Ascend910B3", 16384, 16384),
        ("Ascend910B3", 32769, 65536),
        ("Ascend910B4-1", 32767, 32768),
        ("Ascend910B4", 9000, 16384),
        ("Ascend310P", 3000, 3072),
        ("Ascend310P", 12289, 21527),
        ("Ascend310P", 24576, 21527),
    ],
)
def test_memory_becomes_a_templates(chip: str, asked: int, given: int) -> None:
    """Memory becomes that of the smallest template that holds it, else what a chip has to give."""
    name = f"huawei.com/{chip}-memory"
    reading = read(chip, {f"huawei.com/{chip}": "1", name: str(asked)})
    assert reading.request == request(chip, 1, memory_mib=given)
    if asked == given:
        assert (reading.edits, reading.warnings) == (Edits(), ())
    else:
        assert reading.edits == both({name: str(given)})
        assert f"becomes {given}" in warnings(reading)["MemoryRounded"]


def test_whole_chip() -> None:
    """Without memory the whole is written, so that the scheduler books it; several too."""
    for count in (1, 2):
        reading = read("Ascend910B3", {CHIP: str(count)})
        assert reading.request == request("Ascend910B3", count, memory_mib=65536)
        assert reading.edits == both({f"{CHIP}-memory": "65536"})


@pytest.mark.parametrize(("asked", "given"), [("1", 2), ("2", 2), ("4", 4)])
def test_modules_of_two(asked: str, given: int) -> None:
    """One 910C becomes its whole module of two, in limits and requests."""
    name = "huawei.com/Ascend910C"
    reading = read("Ascend910C", {name: asked})
    assert reading.request == request("Ascend910C", given, memory_mib=65536)
    changed = {name: str(given)} if asked == "1" else {}
    memory = {f"{name}-memory": "65536"}
    assert reading.edits == Edits(limits={**changed, **memory}, requests={**changed, **memory})
    assert set(warnings(reading)) == ({"CountRounded"} if changed else set())


def test_part_of_a_module() -> None:
    """A part of 910C is that of both chips of a module, but not of several modules."""
    name = "huawei.com/Ascend910C"
    for count in ("1", "2"):
        reading = read("Ascend910C", {name: count, f"{name}-memory": "16384"})
        assert reading.request == request("Ascend910C", 2, memory_mib=16384)
    refused = read("Ascend910C", {name: "4", f"{name}-memory": "16384"})
    assert "PartOfSeveralDevices" in reasons(refused)


def test_a_single_910c() -> None:
    """A 910C that does not sit on a module of two is like any other chip."""
    (chip,) = chips("Ascend910C", superPod=False)
    assert read(chip, {"huawei.com/Ascend910C": "3"}).request == request(
        "Ascend910C", 3, memory_mib=100
    )


def test_soft_split() -> None:
    """In the soft split memory is as asked for, cores may be, and several parts too."""
    limits = {CHIP: "2", f"{CHIP}-memory": "5k", f"{CHIP}-core": "30"}
    reading = read("Ascend910B3", limits, annotations=SOFT)
    assert reading.request == request("Ascend910B3", 2, memory_mib=5000, cores=30)
    assert (reading.edits, reading.warnings) == (Edits(), ())


@pytest.mark.parametrize(
    ("limits", "annotations", "code", "said"),
    [
        (
            {CHIP: "1", f"{CHIP}-core": "30"},
            {},
            "CoresNeedSoftSplit",
            f"{CHIP}-core is only supported in hami-core (soft split) mode",
        ),
        (
            {CHIP: "1", f"{CHIP}-core": "30"},
            {"huawei.com/vnpu-mode": "x"},
            "CoresNeedSoftSplit",
            "",
        ),
        ({CHIP: "1", f"{CHIP}-core": "101"}, SOFT, "AmountOutOfRange", "must be 0..100"),
        ({CHIP: "1", f"{CHIP}-memory": "65537"}, {}, "MemoryNotOffered", "more than 65536"),
        ({CHIP: "1", f"{CHIP}-memory": "0"}, {}, "MemoryIsZero", "must not be 0"),
        (
            {CHIP: "2", f"{CHIP}-memory": "16384"},
            {},
            "PartOfSeveralDevices",
            "vNPU not supported for multiple devices",
        ),
        (
            {"huawei.com/Ascend910C": "3"},
            {},
            "CountNotOffered",
            "Ascend910C device request must be 1 or 2*n, got 3",
        ),
        ({f"{CHIP}-memory": "16384"}, {}, "CountMissing", f"needs {CHIP}"),
        ({CHIP: "500m"}, {}, "AmountNotWhole", "must be a whole number"),
    ],
)
def test_refused(limits: dict[str, str], annotations: dict[str, str], code: str, said: str) -> None:
    """What no chip can be cut into is refused."""
    word = "Ascend910C" if "huawei.com/Ascend910C" in limits else "Ascend910B3"
    assert said in reasons(read(word, limits, annotations=annotations))[code]


def test_memory_in_bytes() -> None:
    """Memory in bytes is written as the number that the scheduler reads."""
    reading = read("Ascend910B3", {CHIP: "1", f"{CHIP}-memory": "16Gi"})
    assert reading.request == request("Ascend910B3", 1, memory_mib=16384)
    assert reading.edits == both({f"{CHIP}-memory": "16384"})


def test_factor() -> None:
    """A factor counts in what is booked, not in what is written."""
    (chip,) = chips("X", memoryFactor=10, templates=[{"name": "t", "memory": 20}])
    reading = read(chip, {"huawei.com/X": "1", "huawei.com/X-memory": "15"})
    assert reading.request == request("X", 1, memory_mib=200)
    assert reading.edits == both({"huawei.com/X-memory": "20"})


def test_cores_of_zero() -> None:
    """No cores are no soft split."""
    assert read("Ascend910B3", {CHIP: "1", f"{CHIP}-core": "0"}).request == request(
        "Ascend910B3", 1, memory_mib=65536
    )


def test_runtime_class() -> None:
    """A pod that names no runtime class gets the configured one."""
    (chip,) = chips("X", runtimeClassName="ascend")
    assert read(chip, {"huawei.com/X": "1"}).edits.runtime_class_name == "ascend"
    asked = pod({"huawei.com/X": "1"})
    asked["spec"]["runtimeClassName"] = "mine"
    assert read_pod(chip, asked).edits.runtime_class_name is None
    assert read(chip, {}).edits.runtime_class_name is None


def test_hidden_chips() -> None:
    """With `overwriteEnv` a container without any chip sees none, told once."""
    first, second = chips("X", "Y", overwriteEnv=True)
    assert read(first, {}).edits == Edits(env=HIDDEN)
    assert read(second, {}).edits == Edits()
    assert read(first, {"huawei.com/Y": "1"}).edits == Edits()
    (shown,) = chips("X")
    assert read(shown, {}).edits == Edits()
