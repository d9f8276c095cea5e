"""Selectors have the values that they have in Kubernetes."""

import pytest

from sim.scheduler.cel import fault_of, matches
from sim.scheduler.devices import Device, parse_slice
from sim.scheduler.errors import CelCompileError, CelRuntimeError
from sim.scheduler.features import features_of


def _device(**attributes: dict[str, object]) -> Device:
    item = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.io",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [
                {
                    "name": "g0",
                    "allowMultipleAllocations": True,
                    "attributes": {
                        "productName": {"string": "Tesla T4"},
                        "index": {"int": 3},
                        "driverVersion": {"version": "580.65.6"},
                        "x.io/fast": {"bool": True},
                        **attributes,
                    },
                    "capacity": {"memory": {"value": "80Gi"}, "x.io/power": {"value": "1500m"}},
                }
            ],
        },
    }
    return parse_slice(item, features_of("1.36")).devices[0]


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "d.io"',
        "device.allowMultipleAllocations",
        'device.attributes["d.io"].index == 3',
        'device.attributes[device.driver]["index"] > 2',
        'device.attributes["x.io"].fast',
        'device.attributes["d.io"].productName.lowerAscii().contains("t4")',
        'device.attributes["d.io"].productName.matches("^Tesla.*4$")',
        '"index" in device.attributes["d.io"]',
        '!("nothing" in device.attributes["d.io"])',
        'has(device.attributes["d.io"].productName)',
        '!has(device.attributes["other.io"].productName)',
        '!("other.io" in device.attributes)',
        'device.attributes["other.io"].?model.orValue("none") == "none"',
        'device.attributes["d.io"].?productName.orValue("none") == "Tesla T4"',
        'device.attributes[?"d.io"].?index.orValue(0) == 3',
        'device.attributes["other.io"].all(name, false)',
        'cel.bind(a, device.attributes["d.io"], a.index == 3 && a["index"] == 3)',
        'device.capacity["d.io"].memory == quantity("81920Mi")',
        'device.capacity["d.io"].memory.compareTo(quantity("40Gi")) > 0',
        'device.capacity["d.io"].memory.isGreaterThan(quantity("79Gi"))',
        'device.capacity["d.io"].memory.isLessThan(quantity("81Gi"))',
        'device.capacity["d.io"].memory.add(quantity("1Gi")).compareTo(quantity("81Gi")) == 0',
        'device.capacity["d.io"].memory.sub(1073741824).compareTo(quantity("79Gi")) == 0',
        'device.capacity["d.io"].memory.asInteger() == 85899345920',
        'device.capacity["x.io"].power == quantity("1.5")',
        '!device.capacity["x.io"].power.isInteger()',
        'device.capacity["x.io"].power.asApproximateFloat() == 1.5',
        'quantity("-1").sign() == -1',
        'isQuantity("1Gi") && !isQuantity("1GB")',
        'device.attributes["d.io"].driverVersion.isGreaterThan(semver("580.65.5"))',
        'device.attributes["d.io"].driverVersion.compareTo(semver("580.65.6")) == 0',
        'device.attributes["d.io"].driverVersion.major() == 580',
        'semver("1.0.0-alpha.2").isLessThan(semver("1.0.0-alpha.10"))',
        'semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'semver("1.0.0+a") == semver("1.0.0+b")',
        'semver("v01.2", true) == semver("1.2.0")',
        'isSemver("1.2.3") && !isSemver("1.2") && isSemver("v1.2", true)',
        'sets.contains(["Tesla T4", "L4"], [device.attributes["d.io"].productName])',
        '\'device.attributes["q"]\' != ""',
    ],
)
def test_holds(expression: str) -> None:
    """The expression is true of the device."""
    assert matches(expression, _device())


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.attributes["d.io"].model == "x"', '"model"'),
        ('device.attributes["other.io"].model == "x"', '"model"'),
        ('device.capacity["d.io"].cores.isGreaterThan(quantity("1"))', '"cores"'),
        ('device.attributes["d.io"].index', "INT"),
        ('device.attributes["d.io"].productName.isLessThan(quantity("1"))', "overload"),
        ('quantity(device.attributes["d.io"].productName).sign() == 1', "Tesla T4"),
        ('device.capacity["x.io"].power.asInteger() == 1', "64-bit"),
        ('semver("1.2").major() == 1', "1.2"),
    ],
)
def test_has_no_value(expression: str, said: str) -> None:
    """A missing name or a wrong type is an error that tells what it met."""
    with pytest.raises(CelRuntimeError, match=said):
        matches(expression, _device())


@pytest.mark.parametrize(
    "expression",
    [
        "device.nothing == 1",
        "unknown",
        "device.driver ==",
        "1",
        "device.driver",
        'quantity("1").compareTo(semver("1.0.0")) == 0',
        'device.capacity["d.io"].memory > quantity("1")',
        "quantity(1).sign() == 1",
    ],
)
def test_does_not_compile(expression: str) -> None:
    """What is no boolean expression over a device is refused before any device is seen."""
    with pytest.raises(CelCompileError):
        matches(expression, _device())
    assert expression in (fault_of(expression) or "")


def test_sound_expression_has_no_fault() -> None:
    """A selector that compiles is not found fault with."""
    assert fault_of('device.driver == "d.io"') is None


def test_list_attribute_is_an_error() -> None:
    """A list attribute stops the evaluation, as in a scheduler without that feature."""
    device = _device(nodes={"ints": [0, 1]})
    with pytest.raises(CelRuntimeError, match="nodes is a list"):
        matches("true", device)
