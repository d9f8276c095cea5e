"""Tests of the lists of a pod's devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import Undecodable, decode_all, decode_pod_devices, encode_pod_devices
from hami.devices import PodDevice, Slots
from tests.hami.codecs import ALL, POD_DEVICES, reason

A = PodDevice(uuid="GPU-a", type="NVIDIA", memory_mib=3000, cores=30)
B = PodDevice(uuid="GPU-b", type="NVIDIA", memory_mib=3000, cores=30)
A_TEXT, B_TEXT = "GPU-a,NVIDIA,3000,30:", "GPU-b,NVIDIA,3000,30:"


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        (((A,),), f"{A_TEXT};"),
        (((A, B),), f"{A_TEXT}{B_TEXT};"),
        (((A,), (B,)), f"{A_TEXT};{B_TEXT};"),
        (((), (A,)), f";{A_TEXT};"),
        (((), (A,), (), (), ()), f";{A_TEXT};;;;"),
        (((), (), (A,), (), (B,)), f";;{A_TEXT};;{B_TEXT};"),
        (((),), ";"),
        ((), ""),
    ],
)
def test_every_container_has_its_place(slots: Slots, text: str) -> None:
    """Those without devices too."""
    assert encode_pod_devices(slots) == text
    assert decode_pod_devices(text, len(slots)) == slots
    assert decode_pod_devices(text, None) == slots


def test_both_forms_of_an_empty_place() -> None:
    """A device without a name fills a place; only the empty text is written."""
    filled = ",,0,0:;GPU-a,NVIDIA,1000,0:;;,,0,0:;,,0,0:;"
    found = decode_pod_devices(filled, 5)
    device = PodDevice(uuid="GPU-a", type="NVIDIA", memory_mib=1000, cores=0)
    assert found == ((), (device,), (), (), ())
    assert encode_pod_devices(found) == ";GPU-a,NVIDIA,1000,0:;;;;"


def test_what_the_plugin_has_handed_out() -> None:
    """Each of its calls empties a place, and adds a separator at the end."""
    assert decode_pod_devices(f";{B_TEXT};;", 2) == ((), (B,))
    assert decode_pod_devices(";;;;", 2) == ((), ())
    assert decode_pod_devices("", 2) == ((), ())


def test_without_the_last_separator() -> None:
    """It closes the last place, and opens none."""
    assert decode_pod_devices(f"{A_TEXT};{B_TEXT}", 2) == ((A,), (B,))


@pytest.mark.parametrize(
    ("text", "containers", "why"),
    [
        (f"{A_TEXT};", 2, "1 places for 2 containers"),
        (";", 2, "1 places for 2"),
        (f"{A_TEXT};{B_TEXT};", 1, "2 places for 1"),
        (f"{A_TEXT};", 0, "1 places for 0"),
        ("uuid,type,100:;", 1, "has 3 fields and not 4"),
        ("uuid:;", 1, "has 1 fields"),
        ("uuid,type,x,0:;", 1, 'memory "x" is no whole number'),
        ("uuid,type,1,1.5:;", 1, 'cores "1.5"'),
        ("uuid,type,-1,0:;", 1, "must not be negative"),
        ("uuid,type,2147483648,0:;", 1, "is above"),
        ("uuid,type,,0:;", 1, "is no whole number"),
        (",type,1,0:;", 1, "has no UUID"),
        ("uuid,,1,0:;", 1, "has no type"),
        (",,1,0:;", 1, "has no UUID"),
        (f"{A_TEXT};uuid,type,1:;", 2, "has 3 fields"),
        ("\ud800,type,1,0:;", 1, "no valid text"),
        ("a,b,1," + "9" * 5000 + ":;", 1, "no whole number"),
    ],
)
def test_one_bad_device_makes_all_unreadable(text: str, containers: int, why: str) -> None:
    """So does a place too few: nobody knows whose the devices are."""
    assert why in reason(decode_pod_devices(text, containers))


def test_a_place_too_few_can_be_read_without_containers() -> None:
    """HAMi's scheduler leaves some out; what is taken of devices is known all the same."""
    assert decode_pod_devices(f"{A_TEXT};", None) == ((A,),)


def test_further_fields_are_skipped() -> None:
    """As by HAMi."""
    assert decode_pod_devices("GPU-a,NVIDIA,3000,30,new:;", 1) == ((A,),)


@pytest.mark.parametrize("uuid", ["a,b", "a:b", "a;b"])
def test_a_separator_is_not_written(uuid: str) -> None:
    """The list would say something else."""
    with pytest.raises(ValueError, match="told apart"):
        encode_pod_devices(((PodDevice(uuid=uuid, type="t", memory_mib=1, cores=1),),))


def test_all_vendors_of_a_pod() -> None:
    """Each has its key; one bad list makes all unreadable and is named."""
    keys = {each.word: each.support_key for each in ALL}
    mlu, gpu = keys["MLU"], keys["NVIDIA"]
    good = {mlu: ";mlu-0,MLU,16384,100:;", gpu: f"{A_TEXT};;", "other": "x"}
    assert decode_all(good, keys, 2) == {
        "MLU": ((), (PodDevice(uuid="mlu-0", type="MLU", memory_mib=16384, cores=100),)),
        "NVIDIA": ((A,), ()),
    }
    assert decode_all({}, keys, 2) == {}
    assert reason(decode_all(good | {gpu: "x"}, keys, 2)).startswith(f"{gpu}: ")


@given(st.lists(st.lists(POD_DEVICES, max_size=3).map(tuple), max_size=4).map(tuple))
def test_round_trip(slots: Slots) -> None:
    """What is written is read as it was, with and without the number of containers."""
    text = encode_pod_devices(slots)
    assert decode_pod_devices(text, len(slots)) == slots
    assert decode_pod_devices(text, None) == slots
    assert decode_pod_devices(f"{text};;", len(slots)) == slots


@given(
    st.one_of(st.text(), st.text(",:;a019-+ \ud800", max_size=40)),
    st.one_of(st.none(), st.integers(0, 4)),
)
def test_no_text_raises(text: str, containers: int | None) -> None:
    """What can be read is written in one form only."""
    found = decode_pod_devices(text, containers)
    if isinstance(found, Undecodable):
        assert found.reason
        return
    assert containers is None or len(found) == containers
    assert decode_pod_devices(encode_pod_devices(found), containers) == found
