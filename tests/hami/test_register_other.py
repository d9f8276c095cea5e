"""Tests of what nodes register of Metax's and Enflame's devices, and of all vendors alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import Backend, Undecodable, decode_register, encode_register
from hami.register_enflame import profile_size
from hami.vendor_rules.vendor import Register
from tests.hami.codecs import ALL, BY_WORD, REGISTERING, a_device, reason, word_of

METAX = BY_WORD["Metax-SGPU"]
ENFLAME = BY_WORD["Enflame"]
METAX_TEXT = (
    '[{"uuid":"GPU-a","model":"MXC500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,'
    '"numa":1,"healthy":true,"qosPolicy":"best-effort","linkZone":2},{"uuid":"GPU-b"}]'
)
ENFLAME_TEXT = (
    '{"devices":[{"index":"0","minor":"0","capacity":6},{"index":"1","minor":"9","capacity":6}],'
    '"profiles":{"1g.12gb":"7","3g.36gb":"8"}}'
)


def test_metax() -> None:
    """The place in the list is the index, and all numbers are whole devices'."""
    found = decode_register(METAX, METAX_TEXT, node_name="n")
    first = a_device(
        "GPU-a",
        word="Metax-SGPU",
        type="Metax-SGPU",
        count=16,
        memory_mib=65536,
        numa=1,
        mode="",
        custom={"QosPolicy": "best-effort", "Model": "MXC500", "LinkZone": 2},
    )
    second = a_device(
        "GPU-b",
        word="Metax-SGPU",
        type="Metax-SGPU",
        index=1,
        count=0,
        memory_mib=0,
        cores=0,
        mode="",
        healthy=False,
        custom={"QosPolicy": "", "Model": "", "LinkZone": 0},
    )
    assert found == (first, second)
    assert encode_register(METAX, (first, second)) == METAX_TEXT


def test_what_is_free_on_metax_is_not_read() -> None:
    """It is computed from pods, and may be missing, or anything."""
    text = '[{"uuid":"a","bdf":"0:0","availableCompute":"x"}]'
    assert isinstance(decode_register(METAX, text, node_name="n"), tuple)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[{}]",
        '[{"uuid":""}]',
        '[{"uuid":"a","totalVRam":1e3}]',
        '[{"uuid":"a","linkZone":"1"}]',
        '[{"uuid":"a"},{"uuid":"a"}]',
    ],
)
def test_metax_unreadable(text: str) -> None:
    """One bad device makes all unreadable."""
    assert reason(decode_register(METAX, text, node_name="n"))


def test_enflame() -> None:
    """All devices of a node have its profiles, and the memory of the largest."""
    found = decode_register(ENFLAME, ENFLAME_TEXT, node_name="node-1")
    assert isinstance(found, tuple)
    profiles = {"1g.12gb": "7", "3g.36gb": "8"}
    assert found[1] == a_device(
        "node-1-enflame-drs-1",
        word="Enflame",
        type="Enflame",
        index=1,
        count=6,
        memory_mib=36 * 1024,
        mode="",
        custom={"index": "1", "minor": "9", "profiles": profiles, "maxSlice": 3},
    )
    assert encode_register(ENFLAME, found) == ENFLAME_TEXT
    assert encode_register(ENFLAME, ()) == '{"devices":[],"profiles":{}}'


def test_what_enflame_leaves_out() -> None:
    """Without an index the place counts, and a capacity may be a text."""
    text = '{"devices":[{"capacity":" 4 "},{"index":"x","capacity":6.0}],"profiles":{"1G.6gb":""}}'
    found = decode_register(ENFLAME, text, node_name="n")
    assert isinstance(found, tuple)
    assert [(each.uuid, each.count, each.custom["minor"]) for each in found] == [
        ("n-enflame-drs-0", 4, "0"),
        ("n-enflame-drs-1", 6, "1"),
    ]


@pytest.mark.parametrize(
    ("device", "profiles"),
    [
        ('{"capacity":0}', '{"1g.6gb":"0"}'),
        ('{"capacity":"many"}', '{"1g.6gb":"0"}'),
        ('{"capacity":6.5}', '{"1g.6gb":"0"}'),
        ('{"capacity":null}', '{"1g.6gb":"0"}'),
        ('{"capacity":true}', '{"1g.6gb":"0"}'),
        ('{"capacity":2147483648}', '{"1g.6gb":"0"}'),
        ('{"capacity":6}', "{}"),
        ('{"capacity":6}', '{"whole":"0"}'),
        ('{"capacity":6}', '{"1g.6gb":0}'),
        ('{"capacity":6}', '{"1g.99999999gb":"0"}'),
        ('{"capacity":6},{"index":"0","capacity":6}', '{"1g.6gb":"0"}'),
        ("7", '{"1g.6gb":"0"}'),
    ],
)
def test_enflame_unreadable(device: str, profiles: str) -> None:
    """A device without a capacity and a node without profiles are none."""
    text = f'{{"devices":[{device}],"profiles":{profiles}}}'
    assert reason(decode_register(ENFLAME, text, node_name="n"))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("1g.12gb", (1, 12)),
        (" 3G.36GB ", (3, 36)),
        ("6.40", (6, 40)),
        ("0g.12gb", None),
        ("1g.0gb", None),
        ("1g", None),
        ("xg.1gb", None),
        ("", None),
    ],
)
def test_names_of_profiles(name: str, size: tuple[int, int] | None) -> None:
    """They say slices and GB."""
    assert profile_size(name) == size


@pytest.mark.parametrize("backend", ALL, ids=word_of)
@given(
    text=st.one_of(
        st.text(),
        st.text("[]{}:,;\"'0123456789.eE-+ntrfalsidx \\u\ud800", max_size=60),
    )
)
def test_no_text_raises(backend: Backend, text: str) -> None:
    """What is no register says so, and what is one can be written and read again."""
    found = decode_register(backend, text, node_name="n")
    if isinstance(found, Undecodable) or not found:
        return
    assert decode_register(backend, encode_register(backend, found), node_name="n") == found


@pytest.mark.parametrize("backend", REGISTERING, ids=word_of)
def test_all_vendors_have_a_form(backend: Backend) -> None:
    """None of those that register needs what only another has."""
    forms = {Register.COLON: ":", Register.ENFLAME: ENFLAME_TEXT}
    assert isinstance(
        decode_register(backend, forms.get(backend.register, "[]"), node_name="n"), tuple
    )
    assert backend.register_key


def test_who_registers_nothing() -> None:
    """Their devices follow from the node's capacity."""
    words = {each.word for each in ALL if each.register is Register.CAPACITY}
    assert words == {"MLU", "Mthreads", "Metax-GPU", "kunlun", "AWSNeuron", "GCU"}
    for word in words:
        assert "capacity" in reason(decode_register(BY_WORD[word], "[]", node_name="n"))
        with pytest.raises(ValueError, match="capacity"):
            encode_register(BY_WORD[word], ())


def test_vendors_stand_in_the_order_of_locks() -> None:
    """HAMi locks a node for one vendor after the other, by their words."""
    words = [each.word for each in ALL]
    assert words == sorted(words)
    assert {"NVIDIA", "Ascend910B3", "MR-V100", "DCU"} <= set(words)
