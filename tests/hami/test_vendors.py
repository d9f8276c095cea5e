"""Vendors as data: which there are, under which names and keys."""

from typing import Any

import pytest
from pydantic import ValidationError

from hami.keys import SCHEDULER_OWNED
from hami.vendor_rules.ascend import AscendRule
from hami.vendors import Lock, Register, Vendor, from_sections, known_keys
from tests.hami.vendorreading import CHART, read, request

ASCEND = ("910A", "910B2", "910B3", "910B4-1", "910B4", "310P", "910C")
ILUVATAR = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")


def vendors(sections: dict[str, Any], **flags: bool) -> dict[str, Vendor]:
    """Return the vendors of a configuration by word."""
    return {each.word: each for each in from_sections(sections, **flags)}


def test_ascend_and_iluvatar_need_their_flags() -> None:
    """Without flags only the vendors that HAMi always has are served."""
    flagged = {*(f"Ascend{each}" for each in ASCEND), *ILUVATAR}
    assert set(vendors({})) == set(CHART) - flagged
    assert set(vendors({}, ascend=True)) == set(CHART) - set(ILUVATAR)
    assert flagged <= set(CHART)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        (
            "MLU",
            (
                "cambricon.com/vmlu",
                "cambricon.com/mlu.smlu.vmemory",
                "cambricon.com/mlu.smlu.vcore",
            ),
        ),
        ("DCU", ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores")),
        ("HCU", ("hygon.com/hcunum", "hygon.com/hcumem", "hygon.com/hcucores")),
        (
            "MR-V50",
            ("iluvatar.ai/MR-V50-vgpu", "iluvatar.ai/MR-V50.vMem", "iluvatar.ai/MR-V50.vCore"),
        ),
        ("Mthreads", ("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core")),
        ("Metax-GPU", ("metax-tech.com/gpu", "", "")),
        ("Metax-SGPU", ("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore")),
        (
            "Ascend910B4-1",
            (
                "huawei.com/Ascend910B4-1",
                "huawei.com/Ascend910B4-1-memory",
                "huawei.com/Ascend910B4-1-core",
            ),
        ),
        ("kunlun", ("kunlunxin.com/xpu", "", "")),
        ("XPU", ("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory", "")),
        ("AWSNeuron", ("aws.amazon.com/neuron", "", "aws.amazon.com/neuroncore")),
        ("AMD", ("amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores")),
        ("Enflame", ("enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core")),
        ("GCU", ("enflame.com/gcu", "", "")),
        ("Vastai", ("vastaitech.com/va", "", "")),
        ("Biren", ("birentech.com/gpu", "", "")),
    ],
)
def test_names_are_those_of_the_chart(word: str, names: tuple[str, str, str]) -> None:
    """Each vendor has the resource names that HAMi's chart writes, for quotas too."""
    vendor = CHART[word]
    assert (vendor.count_name, vendor.memory_name, vendor.core_name) == names
    assert (vendor.quota_memory_name, vendor.quota_core_name) == names[1:]
    assert vendor.keys == {name for name in names if name}


@pytest.mark.parametrize(
    ("word", "factor", "cores"),
    [
        ("MLU", 256, 100),
        ("DCU", 1, 100),
        ("BI-V100", 256, 0),
        ("Mthreads", 512, 0),
        ("Metax-SGPU", 1024, 100),
        ("Ascend310P", 1, 0),
        ("XPU", 1, 0),
        ("AMD", 1, 100),
    ],
)
def test_factors_and_default_cores(word: str, factor: int, cores: int) -> None:
    """A unit of memory is as many MiB as for HAMi, and cores have its default."""
    vendor = CHART[word]
    assert (vendor.memory_factor, vendor.quota_memory_factor) == (factor, factor)
    assert vendor.default_cores == cores


@pytest.mark.parametrize(
    ("word", "queue", "given"),
    [
        ("MLU", "cambricon-mlu-devices-to-allocate", "cambricon-mlu-devices-allocated"),
        ("DCU", "dcu-devices-to-allocate", "dcu-devices-allocated"),
        ("HCU", "hcu-devices-to-allocate", "hcu-devices-allocated"),
        ("GCU", "enflame-gcu-devices-to-allocate", "enflame-gcu-devices-allocated"),
        ("Enflame", "", "enflame-vgpu-devices-allocated"),
        ("Mthreads", "", "mthreads-vgpu-devices-allocated"),
        ("Metax-GPU", "metax-gpu-devices-to-allocate", "metax-gpu-devices-allocated"),
        ("Metax-SGPU", "metax-sgpu-devices-to-allocate", "metax-sgpu-devices-allocated"),
        ("kunlun", "", "kunlun-allocated"),
        ("XPU", "xpu-devices-to-allocate", "xpu-devices-allocated"),
        ("AWSNeuron", "", "aws-neuron-devices-allocated"),
        ("AMD", "amd-devices-to-allocate", "amd-devices-allocated"),
        ("Vastai", "Vastai-devices-to-allocate", "Vastai-devices-allocated"),
        ("Biren", "Biren-devices-to-allocate", "Biren-devices-allocated"),
        ("Ascend910C", "Ascend910C-devices-to-allocate", "Ascend910C-devices-allocated"),
        ("MR-V100", "MR-V100-devices-to-allocate", "MR-V100-devices-allocated"),
    ],
)
def test_keys_of_pods(word: str, queue: str, given: str) -> None:
    """Devices to hand out and devices given stand under HAMi's keys."""
    vendor = CHART[word]
    assert vendor.in_request_key == (f"hami.io/{queue}" if queue else "")
    assert vendor.support_key == f"hami.io/{given}"


@pytest.mark.parametrize("word", CHART)
def test_owned_keys_are_guarded(word: str) -> None:
    """What a vendor's scheduler writes is among what nobody else may."""
    assert CHART[word].owned_keys
    assert CHART[word].owned_keys <= SCHEDULER_OWNED


@pytest.mark.parametrize(
    ("word", "register", "key", "handshake"),
    [
        ("DCU", Register.COLON, "hami.io/node-dcu-register", "hami.io/node-handshake-dcu"),
        ("Vastai", Register.JSON, "hami.io/node-va-register", "hami.io/node-handshake-va"),
        ("Biren", Register.JSON, "hami.io/node-biren-register", "hami.io/node-handshake-biren"),
        ("XPU", Register.JSON, "hami.io/node-register-xpu", "hami.io/node-handshake-xpu"),
        (
            "Ascend910B3",
            Register.JSON,
            "hami.io/node-register-Ascend910B3",
            "hami.io/node-handshake-Ascend910B3",
        ),
        (
            "MR-V100",
            Register.COLON,
            "hami.io/node-MR-V100-register",
            "hami.io/node-handshake-MR-V100",
        ),
        ("AMD", Register.JSON, "hami.io/node-amd-register", ""),
        ("Metax-SGPU", Register.METAX, "metax-tech.com/node-gpu-devices", ""),
        ("Enflame", Register.ENFLAME, "enflame.com/gcu-drs-capacity", ""),
        ("MLU", Register.CAPACITY, "", ""),
        ("Mthreads", Register.CAPACITY, "", ""),
    ],
)
def test_keys_of_nodes(word: str, register: Register, key: str, handshake: str) -> None:
    """Nodes say what they have under HAMi's keys, or by their capacity alone."""
    vendor = CHART[word]
    assert vendor.register is register
    assert (vendor.register_key, vendor.handshake_key) == (key, handshake)


def test_locks() -> None:
    """Bindings of these vendors take a lock of the node; Cambricon has one of its own."""
    locked = {word for word, each in CHART.items() if each.lock is Lock.SHARED}
    chips = {*(f"Ascend{each}" for each in ASCEND), *ILUVATAR}
    assert locked == {"DCU", "HCU", "XPU", "Metax-SGPU", "AMD", "Vastai", "Biren"} | chips
    assert CHART["MLU"].lock is Lock.CAMBRICON
    assert CHART["Mthreads"].lock is Lock.NONE


@pytest.mark.parametrize(
    ("word", "use", "nouse"),
    [
        ("MLU", "cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),
        ("HCU", "hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),
        ("Mthreads", "mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),
        ("AWSNeuron", "aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),
        ("AMD", "amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),
        ("Ascend310P", "hami.io/use-Ascend310P-uuid", "hami.io/no-use-Ascend310P-uuid"),
        ("BI-V150", "hami.io/use-BI-V150-uuid", "hami.io/no-use-BI-V150-uuid"),
        ("XPU", "hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
        ("kunlun", "baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
    ],
)
def test_keys_of_users(word: str, use: str, nouse: str) -> None:
    """Users choose devices under HAMi's keys."""
    vendor = CHART[word]
    assert use in vendor.use_uuid_keys
    assert nouse in vendor.nouse_uuid_keys


def test_types_are_chosen_by_three_vendors() -> None:
    """Hygon's and AMD's devices can be chosen by their model."""
    chosen = {word: each.use_type_keys for word, each in CHART.items() if each.use_type_keys}
    assert chosen == {
        "DCU": ("hygon.com/use-dcutype",),
        "HCU": ("hygon.com/use-hcutype",),
        "AMD": ("amd.com/use-gputype",),
    }


@pytest.mark.parametrize(
    ("chip", "capacity", "templates"),
    [
        ("910A", (32768, 32768), (2184, 4369, 8738, 17476)),
        ("910B2", (65536, 65536), (8192, 16384, 32768)),
        ("910B3", (65536, 65536), (16384, 32768)),
        ("910B4-1", (65536, 65536), (16384, 32768)),
        ("910B4", (32768, 32768), (8192, 16384)),
        ("310P", (21527, 24576), (3072, 6144, 12288)),
        ("910C", (65536, 65536), (16384, 32768)),
    ],
)
def test_chips_of_ascend(chip: str, capacity: tuple[int, int], templates: tuple[int, ...]) -> None:
    """Each chip has the memory and the parts of HAMi's chart; only 910C comes in pairs."""
    rule = CHART[f"Ascend{chip}"].rule
    assert isinstance(rule, AscendRule)
    assert (rule.memory_allocatable_mib, rule.memory_capacity_mib) == capacity
    assert tuple(each.memory_mib for each in rule.templates) == templates
    assert rule.pairs == (chip == "910C")


def test_templates_are_sorted() -> None:
    """Parts are tried from the smallest, in whichever order a file has them."""
    templates = [{"name": "big", "memory": 200}, {"name": "small", "memory": 100}]
    chip = {"commonWord": "X", "resourceName": "huawei.com/X", "templates": templates}
    rule = vendors({"vnpus": {"configs": [chip]}}, ascend=True)["X"].rule
    assert isinstance(rule, AscendRule)
    assert [each.name for each in rule.templates] == ["small", "big"]


def test_older_list_of_chips() -> None:
    """The list that stood in the place of the section before is read too."""
    chip = {"commonWord": "X", "resourceName": "huawei.com/X"}
    assert set(vendors({"vnpus": [chip]}, ascend=True)) == {"X"}


def test_a_section_names_resources_anew() -> None:
    """A renamed resource is read, and the old name no longer."""
    section = {"resourceCountName": "acme.example/mlu", "resourceMemoryName": "acme.example/mem"}
    found = vendors({"cambricon": section})
    assert set(found) == {"MLU"}
    reading = read(found["MLU"], {"acme.example/mlu": "1", "acme.example/mem": "4"})
    assert reading.request == request("MLU", 1, memory_mib=1024, cores=100)
    assert read(found["MLU"], {"cambricon.com/vmlu": "1"}).request is None


def test_what_a_file_leaves_out_is_not_served() -> None:
    """A missing section is no vendor, and a missing or empty name no resource."""
    assert vendors({"nvidia": {}, "amd": None}) == {}
    found = vendors({"amd": {"resourceCountName": "amd.com/gpu", "resourceCoreName": None}})
    assert found["AMD"].keys == {"amd.com/gpu"}


@pytest.mark.parametrize(("configured", "twin"), [("DCU", "HCU"), ("HCU", "DCU")])
def test_hygon_by_both_names(configured: str, twin: str) -> None:
    """Whichever name is configured, manifests with the other one are served with its keys."""
    word = configured.lower()
    section = {
        "resourceCountName": f"hygon.com/{word}num",
        "resourceMemoryName": f"hygon.com/{word}mem",
        "memoryFactor": 10,
    }
    found = vendors({"hygon": section})
    assert set(found) == {configured, twin}
    for each in found:
        names = {f"hygon.com/{each.lower()}num": "1", f"hygon.com/{each.lower()}mem": "7"}
        assert read(found[each], names).request == request(each, 1, memory_mib=70, cores=100)


def test_hygon_renamed_altogether() -> None:
    """A name of the site's own has no twin."""
    assert set(vendors({"hygon": {"resourceCountName": "acme.example/card"}})) == {"DCU"}


def test_older_name_of_drs() -> None:
    """The name of the profiles falls back to the one of older files."""
    assert vendors({"enflame": {"resourceNameVGCU": "enflame.com/vgcu"}})["Enflame"].count_name == (
        "enflame.com/vgcu"
    )


@pytest.mark.parametrize(
    "sections",
    [
        {"amd": 5},
        {"amd": {"resourceCountName": ["amd.com/gpu"]}},
        {"hygon": {"resourceCountName": "x", "memoryFactor": "many"}},
    ],
)
def test_values_of_a_wrong_kind(sections: dict[str, Any]) -> None:
    """A file with values of a wrong kind is an error and not a guess."""
    with pytest.raises(ValidationError):
        from_sections(sections)


def test_a_chip_needs_a_word() -> None:
    """A chip without a word would have the keys of no chip."""
    with pytest.raises(ValidationError):
        from_sections({"iluvatars": [{"resourceCountName": "x"}]}, iluvatar=True)


def test_known_keys() -> None:
    """Readers of the file can tell known keys from mistyped ones."""
    assert known_keys("amd") == {
        "resourceCountName",
        "resourceMemoryName",
        "resourceCoreName",
        "memoryFactor",
    }
    assert "resourceNameDRSGCU" in known_keys("enflame")
    assert "hamiVnpuCore" in known_keys("vnpus")
    assert known_keys("nvidia") == frozenset()
