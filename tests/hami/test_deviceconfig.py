"""Tests of reading HAMi's device-config.yaml."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami.deviceconfig import DeviceConfig, DeviceConfigError, MigProfiles, NvidiaConfig, parse
from hami.vendor_rules import chart
from tests.hami.chartconfig import chart_config


def test_the_charts_file_is_the_default() -> None:
    """What HAMi's chart renders is what holds without a file, and nothing in it is unknown."""
    text = yaml.safe_dump(yaml.safe_load(chart_config(migProfileAllowlist=None)) | chart.SECTIONS)
    assert parse(text) == DeviceConfig()
    assert parse(text).warnings == ()


def test_the_vendors_behind_flags() -> None:
    """Ascend and Iluvatar are served when asked for."""
    text = yaml.safe_dump(dict(chart.SECTIONS))
    some = {vendor.word for vendor in parse(text).vendors}
    more = {vendor.word for vendor in parse(text, ascend=True, iluvatar=True).vendors}
    assert {"Ascend910B3", "MR-V100"} <= more - some


def test_every_value() -> None:
    """Each key of the section reaches its field."""
    found = parse(
        chart_config(
            resourceCountName="a.example/gpu",
            overwriteEnv=True,
            defaultMemory=4096,
            defaultCores=20,
            defaultGPUNum=2,
            memoryFactor=1024,
            gpuCorePolicy="force",
            runtimeClassName="nvidia",
            libCudaLogLevel=3,
            deviceMemoryScaling=1.5,
            disableCoreLimit=True,
        )
    ).nvidia
    assert found == NvidiaConfig(
        resource_count_name="a.example/gpu",
        overwrite_env=True,
        default_memory_mib=4096,
        default_cores=20,
        default_gpu_num=2,
        memory_factor=1024,
        gpu_core_policy="force",
        runtime_class_name="nvidia",
        lib_cuda_log_level=3,
        device_memory_scaling=1.5,
        disable_core_limit=True,
        mig_profile_allowlist=found.mig_profile_allowlist,
    )
    first = MigProfiles(models=("A30",), profiles=("1g.6gb", "2g.12gb", "4g.24gb"))
    assert found.mig_profile_allowlist[0] == first


def test_what_is_left_out_is_zero() -> None:
    """A missing key is zero or no name, as for HAMi."""
    found = parse(chart_config(defaultGPUNum=None, resourceMemoryName=None)).nvidia
    assert (found.default_gpu_num, found.resource_memory_name) == (0, "")
    assert "nvidia.com/gpumem" not in found.keys
    assert len(found.keys) == 4


def test_a_section_for_others_alone() -> None:
    """Without a section for NVIDIA its GPUs are not served, and no other vendor either."""
    found = parse("biren: {resourceCountName: birentech.com/gpu}")
    assert found.nvidia.keys == frozenset()
    assert [vendor.word for vendor in found.vendors] == ["Biren"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no sections"),
        ("[]", "no sections"),
        ("{}", "no section of a vendor"),
        ("nvidia:", "no section of a vendor"),
        ("nvidya: {resourceCountName: x}", "no section of a vendor"),
        ("nvidia: [1]", "not a section of keys"),
        ("nvidia: {defaultMemory: 5}", "resourceCountName is missing"),
        ("nvidia: {resourceCountName: g, defaultMemory: much}", "nvidia.defaultMemory: `much`"),
        ("nvidia: {resourceCountName: g, overwriteEnv: [1]}", "nvidia.overwriteEnv"),
        ("nvidia: {resourceCountName: g, defaultCores: 101}", "must be 0..100"),
        ("nvidia: {resourceCountName: g, defaultGPUNum: -1}", "must not be negative"),
        ("nvidia: {resourceCountName: g, resourceCoreName: g}", "g is the name of two resources"),
        ("{nvidia: {resourceCountName: g}, biren: {resourceCountName: g}}", "two resources"),
        ("{nvidia: {resourceCountName: g}, biren: 5}", "^biren: `5`: "),
        (
            "{nvidia: {resourceCountName: g}, cambricon: {resourceCoreName: [1]}}",
            "^cambricon.resourceC",
        ),
        ("nvidia: {resourceCountName: g, defaultMemory: 16777217}", "at most 16777216 MiB"),
        ("nvidia: {resourceCountName: g, memoryFactor: true}", "memoryFactor: `true`: .* a number"),
        ("nvidia: {resourceCountName: g, memoryFactor: '256'}", "memoryFactor: `256`: .* a number"),
        ("{hygon: {resourceCountName: g, memoryFactor: true}}", "^hygon.memoryFactor: `true`"),
        ("nvidia: {resourceCountName: g, deviceMemoryScaling: .nan}", "deviceMemoryScaling: `NaN`"),
        ("a: b: c", "no YAML"),
        ("\0", "no YAML"),
        ("a: !!python/name:os.system", "no YAML"),
    ],
)
def test_no_config(text: str, why: str) -> None:
    """What cannot be meant is refused with its place."""
    with pytest.raises(DeviceConfigError, match=why):
        parse(text)


def test_unknown_keys_are_warnings() -> None:
    """A misspelt key or section is named with the likely one; the others are read."""
    text = "{nvidia: {resourceCountName: g, defaultMemroy: 5}, cambricorn: {}, odd: {}}"
    found = parse(text)
    assert found.nvidia.resource_count_name == "g"
    assert [str(each) for each in found.warnings] == [
        "UnknownKey: device-config: `cambricorn`; the key has no effect; did you mean cambricon?",
        "UnknownKey: device-config: `odd`; the key has no effect",
        "UnknownKey: nvidia: `defaultMemroy`; the key has no effect; did you mean defaultMemory?",
    ]


def test_unknown_keys_of_other_vendors() -> None:
    """The sections of the others are looked at too."""
    text = "{nvidia: {resourceCountName: g}, biren: {resourceCountName: b, resourceKoreName: c}}"
    assert [each.value for each in parse(text).warnings] == ["resourceKoreName"]


def test_an_unknown_core_policy_is_a_warning() -> None:
    """HAMi-core takes every other word for the default."""
    assert [each.code for each in parse(chart_config(gpuCorePolicy="Force")).warnings] == [
        "UnknownCorePolicy"
    ]


_YAML = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_SECTIONS = st.dictionaries(
    st.sampled_from([*chart.SECTIONS, "nvidia", "odd"]),
    _YAML
    | st.dictionaries(
        st.sampled_from(["resourceCountName", "defaultMemory", "memoryFactor", "configs"]), _YAML
    ),
)


@given(_SECTIONS)
def test_any_file_is_read_or_refused(sections: dict[str, object]) -> None:
    """No file raises anything but `DeviceConfigError`."""
    try:
        found = parse(yaml.safe_dump(sections, allow_unicode=True))
    except DeviceConfigError:
        return
    assert bool(found.nvidia.resource_count_name) == bool(sections.get("nvidia"))


@given(st.text(max_size=50))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text does either."""
    with pytest.raises(DeviceConfigError):
        parse(text)
