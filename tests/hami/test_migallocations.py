"""Tests of the MIG instances of a pod."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import Undecodable, decode_mig_allocations, encode_mig_allocations
from hami.devices import MigAllocation, MigPlacement
from tests.hami.codecs import PLACEMENTS, reason

WRITTEN = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"G9","profile":"1g.5gb",'
    '"placement":{"start":6,"size":1}}]'
)
ALLOCATION = MigAllocation(
    container_index=0,
    device_index=0,
    gpu_uuid="G9",
    profile="1g.5gb",
    placement=MigPlacement(start=6, size=1),
)
MADE = replace(ALLOCATION, mig_uuid="MIG-1", gpu_instance_id=0, compute_instance_id=0)
IDS: dict[str, Any] = {"migUUID": "MIG-1", "gpuInstanceID": 0, "computeInstanceID": 0}
ONE: dict[str, Any] = json.loads(WRITTEN)[0]


def test_before_and_after_it_is_made() -> None:
    """The node adds three ids, of which 0 is one."""
    assert encode_mig_allocations((ALLOCATION,)) == WRITTEN
    assert decode_mig_allocations(WRITTEN) == (ALLOCATION,)
    made = WRITTEN.replace("}}]", '},"migUUID":"MIG-1","gpuInstanceID":0,"computeInstanceID":0}]')
    assert encode_mig_allocations((MADE,)) == made
    assert decode_mig_allocations(made) == (MADE,)


@pytest.mark.parametrize("text", ["", "[]", "null"])
def test_none(text: str) -> None:
    """An empty text is no error; nothing is written of none."""
    assert decode_mig_allocations(text) == ()
    assert encode_mig_allocations(()) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"containerIndex": -1},
        {"deviceIndex": -1},
        {"gpuUUID": ""},
        {"profile": ""},
        {"profile": None},
        {"placement": {"start": 1, "size": 0}},
        {"placement": {"start": -1, "size": 1}},
        {"placement": {"start": 2**32, "size": 1}},
        {"placement": None},
        {"placement": {}},
        {"placement": []},
        {"placement": 0},
        {"containerIndex": "0"},
        {"gpuInstanceID": 0},
        {"migUUID": "MIG-1"},
        {"migUUID": "MIG-1", "gpuInstanceID": 0},
        {**IDS, "migUUID": ""},
        {**IDS, "computeInstanceID": -1},
    ],
)
def test_a_bad_instance_makes_all_unreadable(change: dict[str, Any]) -> None:
    """One without a place, or with some of its ids, is none."""
    other = {**ONE, "deviceIndex": 1}
    assert reason(decode_mig_allocations(json.dumps([other, ONE | change])))


@pytest.mark.parametrize("text", ["{}", "[1]", "x", "[[]]"])
def test_what_is_no_list_of_instances(text: str) -> None:
    """It says so."""
    assert reason(decode_mig_allocations(text))


def test_one_device_has_one_instance() -> None:
    """Two for the same device of a container contradict one another."""
    assert "for one device" in reason(decode_mig_allocations(json.dumps([ONE, ONE])))
    assert isinstance(decode_mig_allocations(json.dumps([ONE, ONE | {"containerIndex": 1}])), tuple)


_ALLOCATIONS = st.builds(
    MigAllocation,
    container_index=st.integers(0, 9),
    device_index=st.integers(0, 9),
    gpu_uuid=st.text(st.characters(codec="utf-8"), min_size=1),
    profile=st.text(st.characters(codec="utf-8"), min_size=1),
    placement=PLACEMENTS,
)


@given(
    st.lists(
        st.one_of(
            _ALLOCATIONS,
            st.builds(
                lambda allocation, gpu, compute: replace(
                    allocation, mig_uuid="M", gpu_instance_id=gpu, compute_instance_id=compute
                ),
                _ALLOCATIONS,
                st.integers(0, 2**32 - 1),
                st.integers(0, 7),
            ),
        ),
        unique_by=lambda each: (each.container_index, each.device_index),
        max_size=4,
    )
)
def test_round_trip(allocations: list[MigAllocation]) -> None:
    """What is written is read as it was."""
    assert decode_mig_allocations(encode_mig_allocations(allocations)) == tuple(allocations)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    """What is no list says so."""
    found = decode_mig_allocations(text)
    assert isinstance(found, tuple | Undecodable)
