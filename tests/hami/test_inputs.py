"""Tests of reading, by the input files."""

from dataclasses import asdict, fields
from typing import Any

import pytest

from gpu.refusal import Refusal
from hami.preferences import Preferences
from hami.requests import Absent, Edits, Invalid, Valid
from hami.resources import read
from tests.hami.inputfiles import InputCase, input_cases

_CASES = list(input_cases())


@pytest.mark.parametrize("case", _CASES, ids=[f"{each.file}: {each.title}" for each in _CASES])
def test_input(case: InputCase) -> None:
    """A manifest is read as its file says: requests, edits, preferences, reasons, warnings."""
    result = read(case.pod, case.config)
    kind = {Absent: "absent", Valid: "valid", Invalid: "invalid"}[type(result)]
    assert kind == case.expected["outcome"], result
    _check_texts(result.warnings, case.expected.get("warnings", {}))
    reasons = result.reasons if isinstance(result, Invalid) else ()
    _check_texts(reasons, case.expected.get("reasons", {}))
    requests = () if isinstance(result, Invalid) else result.requests
    asked = {
        each.container.name: _request(asdict(device))
        for each in requests
        for device in each.devices
    }
    assert asked == case.expected.get("containers", {})
    edits = {each.container.name: _edits(each.edits) for each in requests}
    assert {name: each for name, each in edits.items() if each} == case.expected.get("edits", {})
    if isinstance(result, Valid):
        assert _preferences(result.preferences) == case.expected.get("preferences", {})


def test_every_file_is_there() -> None:
    """No input file was lost or emptied."""
    numbers = {int(each.file.removeprefix("in-")) for each in _CASES}
    assert numbers == {1, 2, 4, 5, 6, 8, 9, 11, 12, 13, 15, 16, 18, 19}


def _check_texts(found: tuple[Refusal, ...], expected: dict[str, str]) -> None:
    assert [each.code for each in found] == list(expected)
    for each in found:
        assert expected[each.code] in str(each)


def _request(device: dict[str, Any]) -> dict[str, Any]:
    assert device.pop("word") == "NVIDIA"
    assert device.pop("is_limited")
    return {name: value for name, value in device.items() if value is not None}


def _edits(edits: Edits) -> dict[str, Any]:
    said = asdict(edits) | {"env": [list(each) for each in edits.env]}
    return {name: value for name, value in said.items() if value}


def _preferences(found: Preferences) -> dict[str, Any]:
    default = Preferences()
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value != getattr(default, name)
    }
