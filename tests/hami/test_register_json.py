"""Tests of what nodes register in HAMi's JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import decode_register, encode_register
from hami.devices import MigPlacement, MigProfile, RegisteredDevice
from tests.hami.codecs import BY_WORD, INT32, NAMES, NVIDIA, PROFILES, TEXTS, a_device, reason

WRITTEN = (
    '[{"id":"GPU-03f69c50-207a-2038-9b45-23cac89cb67a","count":10,"devmem":40960,"devcore":100,'
    '"type":"NVIDIA A100-SXM4-40GB","mode":"hami-core","health":true}]'
)
MIG = (
    '[{"id":"G9","index":3,"count":7,"devmem":40960,"devcore":100,"type":"NVIDIA A100",'
    '"numa":1,"mode":"mig","migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":15,'
    '"sliceCount":1,"placements":[{"start":6,"size":1},{"start":0,"size":1}]},'
    '{"name":"none","memoryMB":0,"core":0,"sliceCount":0,"placements":[]}],"health":true}]'
)
ASCEND = BY_WORD["Ascend910B3"]


def read(text: str, word: str = "NVIDIA") -> object:
    """Return what a node registers."""
    return decode_register(BY_WORD[word], text, node_name="n")


def test_what_is_absent_is_zero() -> None:
    """Index, NUMA node and health are left out where they are zero or false."""
    assert read(WRITTEN) == (a_device("GPU-03f69c50-207a-2038-9b45-23cac89cb67a"),)
    nothing = a_device("x", count=0, memory_mib=0, cores=0, type="", mode="", healthy=False)
    assert read('[{"id":"x"}]') == (nothing,)


def test_profiles() -> None:
    """MIG profiles and their places are read, and written as they were."""
    found = read(MIG)
    assert isinstance(found, tuple)
    assert found[0].mig_profiles == (
        MigProfile(
            name="1g.5gb",
            memory_mib=4864,
            cores=15,
            slice_count=1,
            placements=(MigPlacement(start=6, size=1), MigPlacement(start=0, size=1)),
        ),
        MigProfile(name="none", memory_mib=0, cores=0, slice_count=0),
    )
    assert encode_register(NVIDIA, found) == MIG


@pytest.mark.parametrize("text", [WRITTEN, MIG, "[]"])
def test_bytes_of_the_writer(text: str) -> None:
    """Fields stand in the order of HAMi's struct, without blanks."""
    found = read(text)
    assert isinstance(found, tuple)
    assert encode_register(NVIDIA, found) == text


def test_signs_of_html_are_escaped() -> None:
    """As Go's writer does; other letters stay as they are."""
    written = encode_register(NVIDIA, (a_device("a<b>&\u2028é\x00\x7f", mode="", cores=0),))
    assert '"id":"a\\u003cb\\u003e\\u0026\\u2028é\\u0000\x7f"' in written


@pytest.mark.parametrize("text", ["[]", " [ ] ", "null"])
def test_no_devices_are_no_error(text: str) -> None:
    """Go writes null for a list that was never filled."""
    assert read(text) == ()


def test_go_reads_keys_in_any_case_and_skips_others() -> None:
    """The last of several counts, null is absent."""
    text = '[{"ID":"a","Id":"b","DEVMEM":5,"migtemplate":[[]],"devicevendor":"X","numa":null}]'
    found = read(text)
    assert isinstance(found, tuple)
    assert (found[0].uuid, found[0].memory_mib, found[0].numa) == ("b", 5, 0)
    assert found[0].word == "NVIDIA"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 fields"),
        ("x", "has no `:`"),
        ("[", "no JSON"),
        ("[{]", "no JSON"),
        ("[1]", "device 0 1 is no object"),
        ("[null]", "device 0 null is no object"),
        ('[{"id":"a"},{}]', 'device 1.id "" is empty'),
        ('[{"id":7}]', "device 0.id 7 is no text"),
        ('[{"id":"a","count":"10"}]', 'device 0.count "10" is no whole number'),
        ('[{"id":"a","count":10.0}]', "is no whole number"),
        ('[{"id":"a","count":true}]', "is no whole number"),
        ('[{"id":"a","count":-1}]', "must not be negative"),
        ('[{"id":"a","devmem":2147483648}]', "is above"),
        ('[{"id":"a","health":"true"}]', "is neither true nor false"),
        ('[{"id":"a","health":1}]', "is neither true nor false"),
        ('[{"id":"a","devcore":NaN}]', "NaN is no number"),
        ('[{"id":"a","devcore":' + "9" * 5000 + "}]", "too long"),
        ('[{"id":"\\ud800"}]', "surrogate"),
        ('[{"id":"a,b"}]', "in it"),
        ('[{"id":"a:b"}]', "in it"),
        ('[{"id":"a;b"}]', "in it"),
        ('[{"id":"a"},{"id":"a"}]', "`a` is there twice"),
        ('[{"id":"a","migProfiles":{}}]', "is no array"),
        ('[{"id":"a","migProfiles":[{"name":""}]}]', "is empty"),
        (
            '[{"id":"a","migProfiles":[{"name":"x","placements":[{"start":1}]}]}]',
            "size 0 is below 1",
        ),
        ("[" * 100_000, "nested too deep"),
        ("[\n\x00]", "no JSON"),
    ],
)
def test_one_bad_device_makes_all_unreadable(text: str, why: str) -> None:
    """Nothing of the others is used."""
    if text == "":
        assert reason(read(text, "AMD")).startswith("no JSON")
        return
    assert why in reason(read(text))


def test_what_only_a_vendor_knows() -> None:
    """Ascend's and Vastai's are kept, NVIDIA's HAMi never reads."""
    text = '[{"id":"a","custominfo":{"NetworkID":3,"b":[{"z":1,"y":2}]}}]'
    found = read(text, "Ascend910B3")
    assert isinstance(found, tuple)
    assert found[0].custom == {"NetworkID": 3, "b": [{"z": 1, "y": 2}]}
    assert encode_register(ASCEND, found) == text.replace('"z":1,"y":2', '"y":2,"z":1')
    nvidia = read(text)
    assert isinstance(nvidia, tuple)
    assert not nvidia[0].custom
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    bad = ({"id": "a", "custominfo": {"a": deep}}, {"id": "a", "custominfo": []})
    whys = [reason(read(json.dumps([each]), "Vastai")) for each in bad]
    assert "nested too deep" in whys[0]
    assert "is no object" in whys[1]


@pytest.mark.parametrize("word", ["Vastai", "Biren"])
def test_vendors_whose_cores_are_whole(word: str) -> None:
    """HAMi counts 100 whatever their plugin says, even nonsense."""
    found = read('[{"id":"a","devcore":7}]', word)
    assert isinstance(found, tuple)
    assert found[0].cores == 100
    assert found[0].word == word


def test_a_model_that_could_not_stand_on_a_pod() -> None:
    """AMD's pods are annotated with the model, so it must not have a separator."""
    text = '[{"id":"a","type":"Advanced Micro Devices, Inc."}]'
    assert "in it" in reason(read(text, "AMD"))
    assert isinstance(read(text), tuple)


@pytest.mark.parametrize("uuids", [("a,b",), ("a:b",), ("a;b",), ("a", "a")])
def test_what_could_not_be_read_is_not_written(uuids: tuple[str, ...]) -> None:
    """An id that no pod could have, or that is there twice, is an error of the caller."""
    with pytest.raises(ValueError, match=r"in it|twice"):
        encode_register(NVIDIA, [a_device(uuid) for uuid in uuids])


@given(
    st.lists(
        st.builds(
            a_device,
            uuid=NAMES,
            count=INT32,
            memory_mib=INT32,
            cores=INT32,
            index=INT32,
            numa=st.integers(-1, 9),
            type=TEXTS,
            mode=TEXTS,
            healthy=st.booleans(),
            mig_profiles=st.lists(PROFILES, max_size=2).map(tuple),
        ),
        max_size=3,
        unique_by=lambda each: each.uuid,
    )
)
def test_round_trip(devices: list[RegisteredDevice]) -> None:
    """What is written is read as it was, and is compact JSON."""
    text = encode_register(NVIDIA, devices)
    assert read(text) == tuple(devices)
    json.loads(text)
