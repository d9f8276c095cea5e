"""HAMi's device-config.yaml: what the chart writes is what the programs read of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from hami.deviceconfig import DeviceConfig, NvidiaConfig, parse
from tests.charts.nodeagent import daemon_set, mounts, rendered, settings
from tests.charts.rendering import CHART, RefusedError, merged, nested, of_kind

NAME: Final = "gpuslice-device-config"
RENAMED: Final = {
    "resourceCountName": "example.com/vgpu",
    "resourceMemoryName": "example.com/vgpu-memory",
    "resourceMemoryPercentageName": "example.com/vgpu-memory-percentage",
    "resourceCoreName": "example.com/vgpu-cores",
    "resourcePriorityName": "example.com/vgpu-priority",
}


def _text(values: Mapping[str, Any] | None = None, **options: Any) -> str | None:
    maps = of_kind(rendered(values, **options), "ConfigMap")
    found = [each for each in maps if each["metadata"]["name"] == NAME]
    return str(found[0]["data"]["device-config.yaml"]) if found else None


def _config(values: Mapping[str, Any] | None = None, **options: Any) -> DeviceConfig:
    text = _text(values, **options)
    assert text is not None
    return parse(text)


def test_the_charts_own_file_says_what_the_programs_take_without_one() -> None:
    """It differs by the MIG profiles that may be made on demand alone, and has no odd key."""
    config = parse((CHART / "files/device-config.yaml").read_text())
    assert config.warnings == ()
    assert config.vendors == ()
    assert config.nvidia.mig_profile_allowlist
    assert replace(config.nvidia, mig_profile_allowlist=()) == NvidiaConfig()


@pytest.mark.parametrize(
    ("model", "largest"),
    [
        ("NVIDIA A30", "4g.24gb"),
        ("NVIDIA A100-SXM4-80GB", "7g.79gb"),
        ("NVIDIA H100 80GB HBM3", "7g.80gb"),
        ("NVIDIA GH200 480GB", "7g.96gb"),
        ("NVIDIA H200", "7g.141gb"),
        ("NVIDIA H20", "7g.96gb"),
        ("NVIDIA B200", "7g.180gb"),
    ],
)
def test_a_model_finds_its_own_profiles(model: str, largest: str) -> None:
    """A name that is a part of another takes nothing from it: the first entry that fits counts."""
    allowed = parse((CHART / "files/device-config.yaml").read_text()).nvidia.mig_profile_allowlist
    entry = next(each for each in allowed if any(part in model for part in each.models))
    assert entry.profiles[-1] == largest


def test_nothing_is_written_where_the_programs_know_it_themselves() -> None:
    """Claims need no file; the device plugin finds its MIG profiles in one."""
    assert _text(kubernetes="1.37.2") is None
    assert settings(kubernetes="1.37.2").device_config is None
    assert _config(kubernetes="1.33.0").nvidia.mig_profile_allowlist


@pytest.mark.parametrize(("kubernetes", "helm"), [("1.33.0", 3), ("1.33.0", 4), ("1.37.2", 4)])
def test_renamed_resources_are_told_to_everybody(kubernetes: str, helm: int) -> None:
    """Sections stand over the chart's own, in the one file that all programs read."""
    more = {"defaultMemory": 1048576, "deviceMemoryScaling": 1.5}
    values = nested("deviceConfig.sections.nvidia", RENAMED | more)
    config = _config(values, kubernetes=kubernetes, helm=helm).nvidia
    assert replace(config, mig_profile_allowlist=()) == NvidiaConfig(
        resource_count_name="example.com/vgpu",
        resource_memory_name="example.com/vgpu-memory",
        resource_memory_percentage_name="example.com/vgpu-memory-percentage",
        resource_core_name="example.com/vgpu-cores",
        resource_priority_name="example.com/vgpu-priority",
        default_memory_mib=1048576,
        device_memory_scaling=1.5,
    )


@pytest.mark.parametrize("kubernetes", ["1.33.0", "1.37.2"])
def test_no_name_of_before_is_left_where_resources_are_renamed(kubernetes: str) -> None:
    """In all that is rendered, for the names of NVIDIA's resources."""
    values = nested("deviceConfig.sections.nvidia", RENAMED)
    usual = r"nvidia\.com/(gpu|gpumem|gpumem-percentage|gpucores|priority)(?![A-Za-z0-9._-])"
    assert re.findall(usual, json.dumps(rendered(kubernetes="1.33.0")))
    assert re.findall(usual, json.dumps(rendered(values, kubernetes=kubernetes))) == []


@pytest.mark.parametrize("kubernetes", ["1.33.0", "1.35.0"])
def test_a_device_plugin_reads_the_file(kubernetes: str) -> None:
    """As a directory of its own, which is how a mounted file can change."""
    path = settings(kubernetes=kubernetes).device_config
    assert path is not None
    assert path.name == "device-config.yaml"
    mount = mounts(daemon_set(kubernetes=kubernetes))[str(path.parent)]
    assert mount["configMap"] == {"name": NAME}
    assert "subPath" not in mount


def test_agents_that_serve_claims_alone_do_not_read_the_file() -> None:
    """They are told of none, and are not made anew when it changes."""
    values = nested("deviceConfig.sections.nvidia", RENAMED)
    assert settings(values).device_config is None
    assert daemon_set(values)["spec"] == daemon_set()["spec"]


def test_other_vendors_are_served_beside_nvidia() -> None:
    """A section of another vendor leaves NVIDIA's as it is."""
    hygon = {"resourceCountName": "hygon.com/dcunum", "resourceMemoryName": "hygon.com/dcumem"}
    config = _config(nested("deviceConfig.sections.hygon", hygon), kubernetes="1.33.0")
    assert replace(config.nvidia, mig_profile_allowlist=()) == NvidiaConfig()
    assert {key for vendor in config.vendors for key in vendor.keys} >= set(hygon.values())


@pytest.mark.parametrize(
    "content",
    [{"nvidia": RENAMED}, "# mine\nnvidia:\n  resourceCountName: example.com/vgpu\n"],
)
def test_a_whole_file_is_taken_as_it_is(content: Any) -> None:
    """As a mapping or as text; what it leaves out is zero, as for HAMi."""
    config = _config(nested("deviceConfig.content", content), kubernetes="1.37.2").nvidia
    assert config.resource_count_name == "example.com/vgpu"
    assert config.device_split_count == 0


def test_a_config_map_of_ones_own_is_mounted_in_its_place() -> None:
    """The chart makes none then."""
    values = nested("deviceConfig.existingConfigMap", "mine")
    assert _text(values, kubernetes="1.33.0") is None
    agent = daemon_set(values, kubernetes="1.33.0")
    assert mounts(agent)["/etc/gpuslice/device-config"]["configMap"] == {"name": "mine"}


def test_hamis_words_of_sharing_act_where_gpus_are_shared() -> None:
    """On device plugins all three, and the number of shares where claims are served too."""
    values = {"sharing": {"splitCount": 4, "memoryScaling": 1.5, "coreScaling": 2}}
    config = _config(values, kubernetes="1.35.0").nvidia
    assert config.device_split_count == 4
    assert (config.device_memory_scaling, config.device_core_scaling) == (1.5, 2)
    assert settings(values, kubernetes="1.35.0").shares_per_gpu == 4
    assert settings({"sharing": {"splitCount": 4}}, kubernetes="1.37.2").shares_per_gpu == 4
    # The webhook asks for all shares of a GPU where it does not see how many there are.
    claims = _config({"sharing": {"splitCount": 4, "memoryScaling": 2}}, kubernetes="1.37.2")
    assert (claims.nvidia.device_split_count, claims.nvidia.device_memory_scaling) == (4, 1)


@pytest.mark.parametrize("key", ["memoryScaling", "coreScaling"])
def test_scaling_is_refused_where_only_claims_are_served(key: str) -> None:
    """Claims are for what there is."""
    with pytest.raises(RefusedError, match=f"sharing.{key}: .*mode auto or hami"):
        rendered(merged({"mode": "dra"}, nested(f"sharing.{key}", 1.5)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"content": "nvidia: {}", "sections": {"nvidia": RENAMED}}, "one of content"),
        ({"content": "nvidia: {}", "existingConfigMap": "mine"}, "one of content"),
        ({"sections": {"nvidia": RENAMED}, "existingConfigMap": "mine"}, "one of sections"),
    ],
)
def test_two_files_are_refused(values: dict[str, Any], words: str) -> None:
    """Nobody has to guess which one counts."""
    with pytest.raises(RefusedError, match=words):
        rendered({"deviceConfig": values})


def test_sharing_and_a_file_of_ones_own_are_refused_together() -> None:
    """The file says the same things."""
    for given in ({"content": {"nvidia": RENAMED}}, {"existingConfigMap": "mine"}):
        with pytest.raises(RefusedError, match="deviceSplitCount"):
            rendered({"deviceConfig": given, "sharing": {"splitCount": 4}}, kubernetes="1.33.0")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("deviceConfig.content", "deviceConfig.content: no YAML"),
        ("nodeConfiguration.config", "nodeConfiguration.config: no JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_anybody_reads_it(
    path: str, words: str
) -> None:
    """A text is looked at by the chart; agents would not start, or keep what they had."""
    with pytest.raises(RefusedError, match=words):
        rendered(nested(path, "nvidia: ["), kubernetes="1.33.0")
