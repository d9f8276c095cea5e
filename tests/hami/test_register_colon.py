"""Tests of what nodes register in HAMi's first form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import decode_register, encode_register
from hami.devices import RegisteredDevice
from tests.hami.codecs import BY_WORD, INT32, NAMES, NVIDIA, a_device, reason

DCU = BY_WORD["DCU"]
OLD = "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4,10,7680,100,NVIDIA-Tesla P4,0,true"
P4 = a_device(
    "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4",
    word="DCU",
    memory_mib=7680,
    type="NVIDIA-Tesla P4",
)


@pytest.mark.parametrize(
    ("text", "index", "mode"),
    [
        (f"{OLD}:", 0, "hami-core"),
        (f"{OLD},1,hami-core:", 1, "hami-core"),
        (f"{OLD},2,mig:", 2, "mig"),
    ],
)
def test_both_lengths(text: str, index: int, mode: str) -> None:
    """Seven fields are of v2.4.1 and older, nine of what came after."""
    expected = a_device(P4.uuid, word="DCU", memory_mib=7680, type=P4.type, index=index, mode=mode)
    assert decode_register(DCU, text, node_name="n") == (expected,)


def test_nine_fields_are_written() -> None:
    """As HAMi's writer does."""
    text = f"{OLD},1,hami-core:"
    found = decode_register(DCU, text * 1, node_name="n")
    assert isinstance(found, tuple)
    assert encode_register(DCU, found) == text
    assert encode_register(DCU, (P4,)) == f"{OLD},0,hami-core:"
    assert encode_register(DCU, ()) == ""


@pytest.mark.parametrize("text", [":", "::", ":::"])
def test_no_devices_are_no_error(text: str) -> None:
    """A separator alone says that there is none."""
    assert decode_register(DCU, text, node_name="n") == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no `:`"),
        ("a", "has no `:`"),
        (",", "has no `:`"),
        ("a:", "1 fields"),
        (",:", "2 fields"),
        ("a,1,1,1,t,0:", "6 fields"),
        ("a,1,1,1,t,0,true,0:", "8 fields"),
        ("a,1,1,1,t,0,true,0,m,x:", "10 fields"),
        ("a,ten,1,1,t,0,true:", 'count "ten" is no whole number'),
        ("a,1,x,1,t,0,true:", 'memory "x" is no'),
        ("a,1,1,1.5,t,0,true:", 'core "1.5" is no'),
        ("a,2147483648,1,1,t,0,true:", "count 2147483648 is above"),
        ("a,1,-1,1,t,0,true:", "memory -1 must not be negative"),
        ("a,1,1,1,t,zero,true:", 'numa "zero"'),
        ("a,1,1,1,t,0,yes:", 'health "yes" is neither'),
        ("a,1,1,1,t,0,true,x,m:", 'index "x"'),
        ("a,1,1,1,t,0,true,-1,m:", "index -1 must not be negative"),
        (",1,1,1,t,0,true:", "has no id"),
        ("a;b,1,1,1,t,0,true:", "in it"),
        ("a,1,1,1,t,0,true:a,1,1,1,t,0,true:", "`a` is there twice"),
        ("a,1,1,1,t,0,true:b", "1 fields"),
        ("a,१,1,1,t,0,true:", "is no whole number"),
        ("\ud800,1,1,1,t,0,true:", "no valid text"),
    ],
)
def test_one_bad_device_makes_all_unreadable(text: str, why: str) -> None:
    """Nothing of the others is used."""
    assert why in reason(decode_register(DCU, text, node_name="n"))


def test_all_of_go_truth_values() -> None:
    """A plugin may write any text that Go takes."""
    found = decode_register(DCU, "a,1,1,1,t,-1,T:b,1,1,1,t,+1,0:", node_name="n")
    assert isinstance(found, tuple)
    assert [(each.healthy, each.numa) for each in found] == [(True, -1), (False, 1)]


def test_nvidia_of_older_plugins() -> None:
    """The forms of before v2.8 are read as well, a node of broken text is not."""
    seven = "GPU-1,10,24564,100,NVIDIA-NVIDIA A10,0,true:"
    nine = "GPU-2,10,258787,500,NVIDIA-NVIDIA H20-3e,0,true,1,mig:"
    none = "GPU-5,0,0,0,NVIDIA-NVIDIA GB10,0,true:"
    ten = "GPU-4,ten,24564,100,NVIDIA,,maybe:garbage"
    found = [decode_register(NVIDIA, text, node_name="n") for text in (seven, nine, none)]
    assert found == [
        (a_device("GPU-1", memory_mib=24564, type="NVIDIA-NVIDIA A10"),),
        (
            a_device(
                "GPU-2",
                memory_mib=258787,
                cores=500,
                type="NVIDIA-NVIDIA H20-3e",
                index=1,
                mode="mig",
            ),
        ),
        (a_device("GPU-5", count=0, memory_mib=0, cores=0, type="NVIDIA-NVIDIA GB10"),),
    ]
    assert reason(decode_register(NVIDIA, ten, node_name="n")).startswith('count "ten"')


@pytest.mark.parametrize("changes", [{"uuid": ""}, {"type": "a,b"}, {"mode": "a:b"}])
def test_what_could_not_be_read_is_not_written(changes: dict[str, str]) -> None:
    """A separator in a text is an error of the caller."""
    with pytest.raises(ValueError, match="told apart"):
        encode_register(DCU, (a_device(**{"uuid": "a"} | changes),))


@given(
    st.lists(
        st.builds(
            a_device,
            uuid=NAMES,
            word=st.just("DCU"),
            count=INT32,
            memory_mib=INT32,
            cores=INT32,
            index=INT32,
            numa=st.integers(-1, 9),
            type=NAMES,
            mode=NAMES,
            healthy=st.booleans(),
        ),
        max_size=3,
        unique_by=lambda each: each.uuid,
    )
)
def test_round_trip(devices: list[RegisteredDevice]) -> None:
    """What is written is read as it was."""
    text = encode_register(DCU, devices)
    assert decode_register(DCU, text or ":", node_name="n") == tuple(devices)
