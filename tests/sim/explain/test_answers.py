"""An expression is asked once for devices that look the same to it, and never too seldom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.explain.answers import Answers, read_by
from sim.scheduler import cel
from sim.scheduler.devices import Device, SliceReader
from sim.scheduler.errors import CelRuntimeError
from sim.scheduler.features import features_of
from tests.sim.explain.world import gpu, published

OWN = 'device.attributes["gpu.example.com"]'
EXPRESSIONS = (
    'device.driver == "gpu.example.com"',
    "device.allowMultipleAllocations",
    f'{OWN}.model == "a10"',
    f"{OWN}['model'] == 'a10'",
    f'{OWN}.?model.orValue("") == "a10"',
    f"{OWN}.exists(name, name == 'serial')",
    f"has({OWN}.serial)",
    f"{OWN}.model.startsWith('a') && {OWN}.numa == 0",
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) > 0',
    "device.attributes.exists(domain, domain == 'other.example.com')",
    'device.attributes["other.example.com"].size == 1',
)


def _devices(*attributes: dict[str, Any], memory: str = "40Gi") -> list[Device]:
    made = [
        gpu(f"g{index}", memory=memory, attributes=values)
        for index, values in enumerate(attributes)
    ]
    (part,) = SliceReader(features_of("1.37")).read([published("a", *made)])
    return list(part.devices)


def _answer(matches: Any, expression: str, device: Device) -> Any:
    try:
        return matches(expression, device)
    except CelRuntimeError:
        return "no answer"


def test_devices_that_differ_elsewhere_are_asked_once() -> None:
    """Serial numbers do not matter to who asks for a model."""
    devices = _devices(
        *({"model": {"string": "a10"}, "serial": {"string": str(number)}} for number in range(9))
    )
    answers = Answers()
    assert all(answers.matches(f'{OWN}.model == "a10"', device) for device in devices)
    assert answers.asked == 1


def test_an_error_is_remembered_as_one() -> None:
    """A missing name stays an error for every device that lacks it."""
    answers = Answers()
    for device in _devices({"serial": {"string": "1"}}, {"serial": {"string": "2"}}):
        with pytest.raises(CelRuntimeError):
            answers.matches(f'{OWN}.model == "a10"', device)
    assert answers.asked == 1


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes.exists(domain, true)",
        f"{OWN}.exists(name, name == 'model')",
        f"{OWN}['model'] == 'a10'",
        'device.attributes["gpu." + "example.com"].model == "a10"',
        'device . driver == "x"',
        "'device' == device.driver",
    ],
)
def test_what_cannot_be_told_is_not_guessed(expression: str) -> None:
    """An expression that may read anything is asked for every device."""
    assert read_by(expression) is None


values = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from([{"string": "a10"}, {"string": "l4"}, {"int": 3}]),
        "numa": st.sampled_from([{"int": 0}, {"int": 1}, {"bool": False}]),
        "serial": st.sampled_from([{"string": "1"}, {"string": "2"}]),
        "other.example.com/size": st.sampled_from([{"int": 1}, {"int": 2}]),
        "gpu.example.com/model": st.just({"string": "a10"}),
    },
)


@given(st.lists(values, min_size=2, max_size=5), st.sampled_from(["10Gi", "40Gi"]))
def test_remembered_answers_are_the_right_ones(
    attributes: list[dict[str, Any]], memory: str
) -> None:
    """For any devices and each expression the answer is that of the engine."""
    answers = Answers()
    for device in (*_devices(*attributes), *_devices(*attributes, memory=memory)):
        for expression in EXPRESSIONS:
            expected = _answer(cel.matches, expression, device)
            assert _answer(answers.matches, expression, device) == expected, expression
