"""Tests of the node configuration: HAMi's file, our additions, and what is refused."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.deviceconfig import NvidiaConfig
from hami.nodeconfig import (
    EffectiveConfig,
    Filter,
    MigStrategy,
    NodeConfigError,
    OperatingMode,
    effective,
)
from hami.nodeconfig_reading import parse

BASE = NvidiaConfig()
OF_HAMI = """{
  "nodeconfig": [
    {
      "name": "node-1", "operatingmode": "hami-core", "devicememoryscaling": 1.8,
      "devicecorescaling": 1.5, "devicesplitcount": 5, "libcudaloglevel": 3,
      "preconfigureddevicememory": 65536, "enablenumatopology": true, "migstrategy": "mixed",
      "filterdevices": {"uuid": ["GPU-b", "GPU-a"], "index": [1, 0, 1]},
      "enablegetpreferredallocation": true
    },
    {"name": "node-2", "operatingmode": "mig", "filterdevices": {"uuid": [], "index": []}}
  ]
}"""
WITH_MISTAKES = """{"nodeconfig": [
  {"name": "node-a", "operatingmode": "hami-core", "devicesplitcount": "10",
   "filterdevice": {"index": ["0", "1"]}},
  {"name": "node-*", "devicememoryscaling": 0.5, "migstrategy": "mixd"},
  {"nodeSelector": {"pool": "t4"}, "devicesplitcount": 0},
  {"name": "node-a", "devicesplitcount": 4}
]}"""

EXPECTED = (
    ("nodeconfig[0].filterdevice:", "unknown key; did you mean filterdevices?"),
    (
        "nodeconfig[1].devicememoryscaling: `0.5`",
        "only for nodes that serve the scheduler extender",
    ),
    ("nodeconfig[1].migstrategy: `mixd`", "one of none, single, mixed", "did you mean mixed?"),
    ("nodeconfig[2].devicesplitcount: `0`", "1..1000"),
    ("nodeconfig[3].name: `node-a`", "nodeconfig[0] is for the same nodes"),
)


def holding(text: str, node: str = "node-1", **labels: str) -> EffectiveConfig:
    """Return what holds on *node* by a file."""
    return effective(parse(text), node_name=node, labels=labels, base=BASE)


def said(**values: Any) -> str:
    """Return a file of one entry, which is for all nodes."""
    return json.dumps({"nodeconfig": [{"name": "*", **values}]})


def mistakes(text: str, *, serves_dra: bool = False) -> list[str]:
    """Return what is found wrong with a file."""
    with pytest.raises(NodeConfigError) as caught:
        parse(text, serves_dra=serves_dra)
    assert str(caught.value).splitlines() == [str(each) for each in caught.value.findings]
    return [str(each) for each in caught.value.findings]


def test_every_key_of_hami() -> None:
    """A file for HAMi's own device plugin is read as it is, and each value says its source."""
    assert holding(OF_HAMI) == EffectiveConfig(
        split_count=5,
        memory_scaling=Decimal("1.8"),
        core_scaling=Decimal("1.5"),
        preconfigured_memory_mib=65536,
        log_level=3,
        numa_topology=True,
        operating_mode=OperatingMode.HAMI_CORE,
        mig_strategy=MigStrategy.MIXED,
        filtered=Filter(uuids=("GPU-a", "GPU-b"), indexes=(0, 1)),
        preferred_allocation=True,
        base=BASE,
        sources=dict.fromkeys(
            [
                *("split_count", "memory_scaling", "core_scaling", "preconfigured_memory_mib"),
                *("log_level", "numa_topology", "operating_mode", "mig_strategy", "filtered"),
                "preferred_allocation",
            ],
            "inline nodeconfig[0]",
        ),
        winner="inline nodeconfig[0] (name node-1)",
    )


def test_what_an_entry_leaves_out_is_the_bases() -> None:
    """An entry replaces what it names; the rest is as `device-config.yaml` says, or the default."""
    base = NvidiaConfig(device_split_count=7, lib_cuda_log_level=4)
    found = effective(
        parse(OF_HAMI), node_name="node-2", labels={}, base=base, base_source="device-config.yaml"
    )
    assert (found.split_count, found.log_level) == (7, 4)
    assert found.sources["split_count"] == "device-config.yaml"
    assert found.operating_mode is OperatingMode.MIG
    assert found.sources["operating_mode"] == "inline nodeconfig[1]"
    assert found.mig_strategy is MigStrategy.NONE
    assert found.sources["mig_strategy"] == "default"


def test_recorded_override() -> None:
    """HAMi's own test: the entry of the node's name replaces what stands in the base."""
    base = NvidiaConfig(
        device_split_count=1,
        device_memory_scaling=1.0,
        device_core_scaling=1.0,
        lib_cuda_log_level=0,
    )
    entries = [("node-1", 2, 1.5, 1.2, 4), ("testnode", 3, 0.8, 1.4, 3)]
    keys = ("name", "devicesplitcount", "devicememoryscaling", "devicecorescaling")
    text = json.dumps(
        {
            "nodeconfig": [
                dict(zip((*keys, "libcudaloglevel"), each, strict=True)) for each in entries
            ]
        }
    )
    found = effective(parse(text), node_name="testnode", labels={}, base=base)
    values = (found.split_count, found.memory_scaling, found.core_scaling, found.log_level)
    assert values == (3, Decimal("0.8"), Decimal("1.4"), 3)


def test_all_mistakes_at_once() -> None:
    """A file with mistakes is refused as a whole, and every one of them is told."""
    found = mistakes(WITH_MISTAKES, serves_dra=True)
    for each, parts in zip(found, EXPECTED, strict=True):
        assert all(part in each for part in parts), each
    assert len(mistakes(WITH_MISTAKES)) == 4


def test_scaling_of_one_is_none() -> None:
    """A node that serves DRA may have an entry that says its memory is not scaled."""
    text = said(devicememoryscaling=1, devicecorescaling="1.0")
    assert parse(text, serves_dra=True).entries[0].values["memory_scaling"] == 1


@pytest.mark.parametrize(
    ("values", "field", "value"),
    [
        ({"devicesplitcount": "10"}, "split_count", 10),
        ({"deviceSplitCount": 10}, "split_count", 10),
        ({"DEVICESPLITCOUNT": " 10 "}, "split_count", 10),
        ({"devicememoryscaling": "1.50"}, "memory_scaling", Decimal("1.5")),
        ({"devicememoryscaling": 2}, "memory_scaling", Decimal(2)),
        ({"libcudaloglevel": "4"}, "log_level", 4),
        ({"filterdevices": {"Index": ["0", 3], "UUID": None}}, "filtered", Filter(indexes=(0, 3))),
        ({"filterdevices": {}}, "filtered", Filter()),
        ({"devicesplitcount": None}, "split_count", BASE.device_split_count),
        ({"libcudaloglevel": 0}, "log_level", 0),
        ({"enablenumatopology": False}, "numa_topology", False),
    ],
)
def test_spellings(values: dict[str, Any], field: str, value: object) -> None:
    """Keys are taken in any case, numbers as texts, null as absent, and a zero is a zero."""
    assert getattr(holding(said(**values)), field) == value


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"devicesplitcount": 1001}, "must be a whole number 1..1000"),
        ({"devicesplitcount": 2.0}, "must be a whole number 1..1000"),
        ({"devicesplitcount": True}, "must be a whole number 1..1000"),
        ({"devicesplitcount": "ten"}, "must be a whole number 1..1000"),
        ({"devicememoryscaling": 0}, "must be a number 0.01..100"),
        ({"devicememoryscaling": True}, "must be a number 0.01..100"),
        ({"devicememoryscaling": "NaN"}, "must be a number 0.01..100"),
        ({"devicecorescaling": 1e300}, "must be a number 0.01..100"),
        ({"devicecorescaling": -1}, "must be a number 0.01..100"),
        ({"libcudaloglevel": 5}, "must be a whole number 0..4"),
        ({"preconfigureddevicememory": -1}, "must be a whole number 0.."),
        ({"enablenumatopology": "true"}, "must be true or false, without quotes"),
        ({"operatingmode": "mps"}, "must be one of hami-core, mig"),
        ({"migstrategy": 1}, "must be one of none, single, mixed"),
        ({"filterdevices": ["GPU-a"]}, "must be an object"),
        ({"filterdevices": {"uuid": "GPU-a"}}, "filterdevices.uuid: `GPU-a`; must be an array"),
        ({"filterdevices": {"uuid": ["a"]}}, "filterdevices.uuid[0]: `a`; must be a text that"),
        ({"filterdevices": {"index": ["x"]}}, "filterdevices.index[0]"),
        ({"filterdevices": {"uuids": []}}, "did you mean uuid?"),
        ({"nodeSelector": {"a": "b"}}, "an entry has either a name or a nodeSelector"),
        ({"nodeSelector": {}}, "at least one label"),
        ({"name": ""}, "must be the name of a node"),
        ({"name": "Node-A"}, "must be the name of a node"),
        ({"name": None}, "an entry has either a name or a nodeSelector"),
        ({"name": None, "nodeSelector": {"a": True}}, "nodeSelector.a: `true`; must be the text"),
        ({"Name": "a"}, "DuplicateKey: nodeconfig[0].Name"),
        ({"colour": 1}, "UnknownKey: nodeconfig[0].colour: `1`; unknown key"),
    ],
)
def test_a_mistake(values: dict[str, Any], part: str) -> None:
    """What cannot be meant is refused, with the place and what would be right."""
    assert any(part in each for each in mistakes(said(**values)))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no JSON"),
        ("nodeconfig: []", "no JSON"),
        ("[]", "NoObject: the document"),
        ('{"nodeconfig": {}}', "must be an array of entries"),
        ('{"nodeconfig": ["node-a"]}', "NoObject: nodeconfig[0]"),
        ('{"nodeconfigs": []}', "did you mean nodeconfig?"),
        ('{"nodeconfig": [], "NodeConfig": []}', "the key is there twice"),
        ('{"nodeconfig": [{"name": "a", "devicesplitcount": NaN}]}', "NaN is no number"),
        ('{"nodeconfig": [{"name": "a", "devicecorescaling": 1e9999999999999999999}]}', "no JSON"),
        ('{"nodeconfig": ' + "[" * 100_000, "is nested too deep"),
    ],
)
def test_a_document_that_is_none(text: str, part: str) -> None:
    """Texts that hold no configuration are refused as well."""
    (found,) = mistakes(text)
    assert part in found


@pytest.mark.parametrize("text", ['{"nodeconfig": []}', "{}", '{"NodeConfig": null}'])
def test_no_entries(text: str) -> None:
    """A file without entries changes nothing."""
    found = holding(text)
    assert found.winner == ""
    assert set(found.sources.values()) == {"default"}


OVERLAPPING = json.dumps(
    {
        "nodeconfig": [
            {"name": "*", "devicesplitcount": 1},
            {"name": "gpu-*", "devicesplitcount": 2},
            {"name": "gpu-t4-*", "devicesplitcount": 3},
            {"name": "gpu-t4-7", "devicesplitcount": 4},
            {"nodeSelector": {"pool": "t4"}, "devicesplitcount": 5},
            {"nodeSelector": {"pool": "t4", "zone": "a"}, "devicesplitcount": 6},
        ]
    }
)


@pytest.mark.parametrize(
    ("node", "labels", "count"),
    [
        ("other", {}, 1),
        ("gpu-a100-1", {}, 2),
        ("gpu-t4-1", {}, 3),
        ("gpu-t4-7", {}, 4),
        ("gpu-t4-7", {"pool": "t4"}, 5),
        ("gpu-t4-7", {"pool": "t4", "zone": "a", "more": "b"}, 6),
        ("gpu-t4-7", {"pool": "a100", "zone": "a"}, 4),
    ],
)
def test_one_winner(node: str, labels: dict[str, str], count: int) -> None:
    """Labels go before the exact name, that before patterns, the closer ones first, `*` last."""
    found = holding(OVERLAPPING, node, **labels)
    assert found.split_count == count
    assert found.winner.startswith(f"inline nodeconfig[{count - 1}] ")


def test_first_of_equals() -> None:
    """Of two entries that fit alike the first counts."""
    text = json.dumps(
        {
            "nodeconfig": [
                {"nodeSelector": {"b": "2"}, "devicesplitcount": 2},
                {"nodeSelector": {"a": "1"}, "devicesplitcount": 1},
            ]
        }
    )
    assert holding(text, a="1", b="2").split_count == 2


def test_a_base_that_cannot_hold() -> None:
    """A `device-config.yaml` whose values no node can have is refused, unless an entry mends it."""
    base = NvidiaConfig(device_split_count=0, device_memory_scaling=0)
    with pytest.raises(NodeConfigError, match="deviceSplitCount") as caught:
        effective(None, node_name="n", labels={}, base=base, base_source="device-config.yaml")
    assert len(caught.value.findings) == 2
    assert "it is from device-config.yaml" in str(caught.value)
    file = parse(said(devicesplitcount=3, devicememoryscaling=1))
    assert effective(file, node_name="n", labels={}, base=base).split_count == 3


def test_hash() -> None:
    """The hash follows the values, in which file they stand does not matter."""
    inline = parse(said(devicesplitcount=3, devicememoryscaling="1.50"))
    external = parse(said(devicesplitcount="3", devicememoryscaling=1.5), source="external")
    found = [
        effective(file, node_name="n", labels={}, base=BASE) for file in (inline, external, None)
    ]
    assert found[0].hash == found[1].hash != found[2].hash
    assert len(found[0].hash) == 12


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "nodeSelector", "filterdevices", "uuid", "index", "x"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def is_read(text: str) -> bool:
    """Tell whether *text* is read; where it is not, there is something to tell."""
    try:
        file = parse(text)
    except NodeConfigError as error:
        findings = error.findings
    else:
        return effective(file, node_name="n", labels={}, base=BASE) is not None
    assert findings
    assert all(str(each).isprintable() for each in findings)
    return False


@given(st.lists(JSON_VALUES, max_size=3).map(lambda found: {"nodeconfig": found}) | JSON_VALUES)
def test_any_document(document: object) -> None:
    """Whatever a file holds, it is read, or refused with findings that can be shown."""
    assert not is_read(json.dumps(document)) or isinstance(document, dict)


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Texts that hold no object are refused, and nothing else is raised."""
    assert not is_read(text) or text.strip().startswith("{")
