"""The patch for HAMi's scheduler, applied by an independent library."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.containers import all_containers
from hami.deviceconfig import DeviceConfig
from hami.requests import Absent, ContainerRequest, Edits, Invalid, Valid
from hami.resources import read
from hami.vendors import from_sections
from kube.objects import JsonObject
from webhook.legacy import patch_for, write_edits
from webhook.patching import Patch

SCHEDULER = "hami-scheduler"
GPU = "nvidia.com/gpu"
MEMORY = "nvidia.com/gpumem"
CORES = "nvidia.com/gpucores"
PERCENT = "nvidia.com/gpumem-percentage"
PRIORITY = "nvidia.com/priority"
CONFIG = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))


def pod(*limits: Mapping[str, str], init: Mapping[str, str] | None = None) -> JsonObject:
    """Return a pod with a container for each of *limits*, as the API server fills it in."""
    spec: JsonObject = {
        "schedulerName": "default-scheduler",
        "containers": [_container(f"c{index}", each) for index, each in enumerate(limits)],
    }
    if init is not None:
        spec["initContainers"] = [_container("i0", init)]
    return {"metadata": {"name": "p"}, "spec": spec}


def _container(name: str, limits: Mapping[str, str]) -> JsonObject:
    resources = {"limits": dict(limits), "requests": dict(limits)} if limits else {}
    return {"name": name, "image": "app:1", "resources": resources}


def patch(made: JsonObject, config: DeviceConfig = CONFIG) -> tuple[JsonObject, ...]:
    """Return the operations for a pod that must be readable."""
    said = read(made, config)
    assert not isinstance(said, Invalid), said
    return patch_for(made, said, scheduler_name=SCHEDULER)


def patched(made: JsonObject, config: DeviceConfig = CONFIG) -> JsonObject:
    """Return *made* after its patch, which must leave the original alone."""
    before = copy.deepcopy(made)
    result: JsonObject = jsonpatch.apply_patch(made, list(patch(made, config)))
    assert made == before
    return result


def test_whole_gpu() -> None:
    """A GPU and nothing else is given with all its cores."""
    made = pod({GPU: "1"})
    result = patched(made)
    assert result["spec"]["schedulerName"] == SCHEDULER
    resources = result["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {GPU: "1", CORES: "100"}, "requests": {GPU: "1"}}


def test_memory_and_priority() -> None:
    """Memory without a count is of one GPU; the priority reaches the container."""
    result = patched(pod({MEMORY: "1k", PRIORITY: "1"}))
    (container,) = result["spec"]["containers"]
    assert container["resources"]["limits"] == {MEMORY: "1k", PRIORITY: "1", GPU: "1"}
    assert container["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    assert result["spec"]["schedulerName"] == SCHEDULER


def test_cores_alone() -> None:
    """Cores without a count are of one GPU."""
    result = patched(pod({CORES: "30"}))
    assert result["spec"]["containers"][0]["resources"]["limits"] == {CORES: "30", GPU: "1"}
    assert result["spec"]["schedulerName"] == SCHEDULER


def test_no_device() -> None:
    """A pod without devices is not touched."""
    assert patch(pod({"cpu": "1"})) == ()
    assert patch(pod({})) == ()


@pytest.mark.parametrize(
    "made",
    [
        pod({GPU: "1", PERCENT: "150"}),
        {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {GPU: "1"}}}]}},
    ],
)
def test_no_patch_for_the_unreadable(made: JsonObject) -> None:
    """A percentage of 150, and a request that the API server would refuse, are refused."""
    assert isinstance(read(made, CONFIG), Invalid)


def test_init_container() -> None:
    """A pod whose init container alone asks is prepared too."""
    result = patched(pod({}, init={GPU: "1", MEMORY: "2k"}))
    assert result["spec"]["schedulerName"] == SCHEDULER


def test_scheduler_by_name() -> None:
    """The scheduler's name is written only where it changes something."""
    made = pod({GPU: "1", CORES: "100"})
    made["spec"]["schedulerName"] = SCHEDULER
    assert patch(made) == ()
    said = read(made, CONFIG)
    assert isinstance(said, Valid)
    assert patch_for(made, said, scheduler_name="") == ()
    del made["spec"]["schedulerName"]
    assert patch(made) == ({"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER},)


def test_what_is_replaced_is_tested_first() -> None:
    """A value that changed in between is not written over."""
    made = pod({GPU: "1", CORES: "30"})
    operations = patch(made)
    assert [each["op"] for each in operations] == ["test", "replace"]
    made["spec"]["schedulerName"] = "volcano"
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(made, list(operations))


def test_names_with_slashes() -> None:
    """Resource names are escaped in pointers."""
    (operation, *_) = patch(pod({GPU: "1"}))
    assert operation["path"] == "/spec/containers/0/resources/limits/nvidia.com~1gpucores"


def test_mthreads() -> None:
    """Several devices of Moore Threads: limits, their copies in requests, an annotation."""
    names = {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-memory": "32"}
    result = patched(pod({}, names))
    assert result["metadata"]["annotations"] == {"mthreads.com/request-gpu-num": "2"}
    assert result["spec"]["containers"][0] == pod({})["spec"]["containers"][0]
    assert result["spec"]["containers"][1]["resources"] == {
        "limits": {
            "mthreads.com/vgpu": "2",
            "mthreads.com/sgpu-memory": "192",
            "mthreads.com/sgpu-core": "32",
        },
        "requests": {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-memory": "192"},
    }


def test_annotations_of_two_containers() -> None:
    """Annotations of several containers and the user's own ones stay together."""
    made = pod({"mthreads.com/vgpu": "2"}, {"metax-tech.com/sgpu": "1"})
    made["metadata"]["annotations"] = {"example.com/a~b": "kept"}
    assert patched(made)["metadata"]["annotations"] == {
        "example.com/a~b": "kept",
        "mthreads.com/request-gpu-num": "2",
        "metax-tech.com/sgpu-qos-policy": "best-effort",
    }


def test_ascend() -> None:
    """A chip without memory: the whole is written, into requests that were not there too."""
    made = pod({"huawei.com/Ascend910C": "1"})
    del made["spec"]["containers"][0]["resources"]["requests"]
    result = patched(made)
    assert result["spec"]["containers"][0]["resources"] == {
        "limits": {"huawei.com/Ascend910C": "2", "huawei.com/Ascend910C-memory": "65536"},
        "requests": {"huawei.com/Ascend910C-memory": "65536"},
    }


def test_iluvatar_keeps_variables() -> None:
    """A variable is appended to those of the user, or to a list made for it."""
    made = pod({"iluvatar.ai/MR-V100-vgpu": "1"}, {"iluvatar.ai/MR-V100-vgpu": "1"})
    made["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    result = patched(made)
    assert [each["env"] for each in result["spec"]["containers"]] == [
        [{"name": "A", "value": "1"}, {"name": "SOL_CONTINER_NAME", "value": "c0"}],
        [{"name": "SOL_CONTINER_NAME", "value": "c1"}],
    ]


@pytest.mark.parametrize(
    ("names", "added"),
    [
        ({"cambricon.com/vmlu": "1"}, {}),
        ({"hygon.com/dcunum": "1"}, {}),
        (
            {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "1k"},
            {"kunlunxin.com/vxpu-memory": "24576"},
        ),
        ({"aws.amazon.com/neuroncore": "4"}, {}),
        ({"amd.com/gpu": "1"}, {}),
        ({"enflame.com/drs-gcu": "1"}, {}),
        ({"vastaitech.com/va": "1"}, {}),
        ({"birentech.com/gpu": "1"}, {}),
    ],
)
def test_other_vendors(names: dict[str, str], added: dict[str, str]) -> None:
    """Pods of every vendor get HAMi's scheduler, and the sizes that it books."""
    made = pod(names)
    expected = copy.deepcopy(made)
    expected["spec"]["schedulerName"] = SCHEDULER
    resources = expected["spec"]["containers"][0]["resources"]
    resources["limits"] |= added
    resources["requests"] |= added
    assert patched(made) == expected


def test_two_vendors() -> None:
    """One container may ask two vendors."""
    result = patched(pod({GPU: "1", MEMORY: "3Gi", "hygon.com/dcunum": "1.0"}))
    limits = result["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {GPU: "1", MEMORY: "3072", "hygon.com/dcunum": "1"}


def _edited(made: JsonObject, edits: Edits) -> Absent:
    (container,) = all_containers(made)
    return Absent(requests=(ContainerRequest(container=container, devices=(), edits=edits),))


def test_container_without_devices() -> None:
    """A container is shown no device without its pod changing its scheduler."""
    made = pod({})
    absent = _edited(made, Edits(env=(("NVIDIA_VISIBLE_DEVICES", "none"),)))
    operations = patch_for(made, absent, scheduler_name=SCHEDULER)
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    assert operations == ({"op": "add", "path": "/spec/containers/0/env", "value": [variable]},)


@pytest.mark.parametrize(
    ("env", "appended"),
    [
        ([{"name": "V", "value": "none"}], False),
        ([{"name": "V", "value": "none"}, {"name": "V", "value": "all"}], True),
        ([{"name": "V", "value": "all"}, {"name": "V", "value": "none"}], False),
        ([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], True),
        ([{"name": "W", "value": "none"}], True),
        (None, True),
    ],
)
def test_variable_that_is_set_already(env: list[JsonObject] | None, *, appended: bool) -> None:
    """A variable is appended unless the last of its name says the same."""
    made = pod({})
    made["spec"]["containers"][0]["env"] = env
    absent = _edited(made, Edits(env=(("V", "none"),)))
    assert bool(patch_for(made, absent, scheduler_name="")) == appended


def test_runtime_class() -> None:
    """The runtime class is that of the first vendor, unless the pod names one."""
    made = pod({})
    absent = _edited(made, Edits(runtime_class_name="nvidia"))
    operation = {"op": "add", "path": "/spec/runtimeClassName", "value": "nvidia"}
    assert patch_for(made, absent, scheduler_name="") == (operation,)
    made["spec"]["runtimeClassName"] = "mine"
    assert patch_for(made, absent, scheduler_name="") == ()


def test_edits_beside_claims() -> None:
    """What belongs to a vendor whose requests become claims can be left out."""
    made = pod({GPU: "1", PRIORITY: "0", "huawei.com/Ascend910B3": "1"})
    said = read(made, CONFIG)
    assert isinstance(said, Valid)
    edits = Patch(made)
    leave = CONFIG.nvidia.keys | {"CUDA_TASK_PRIORITY"}
    write_edits(edits, made, said.requests, leave=leave)
    assert {each["path"] for each in edits.operations} == {
        f"/spec/containers/0/resources/{section}/huawei.com~1Ascend910B3-memory"
        for section in ("limits", "requests")
    }


ASKED: tuple[dict[str, str], ...] = (
    {},
    {GPU: "1"},
    {GPU: "2", MEMORY: "16Gi"},
    {PERCENT: "50", PRIORITY: "1"},
    {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "16Gi"},
    {"hygon.com/hcunum": "1.0"},
    {"iluvatar.ai/MR-V100-vgpu": "2", "iluvatar.ai/MR-V100.vCore": "50"},
    {"mthreads.com/vgpu": "1"},
    {"mthreads.com/vgpu": "3", "mthreads.com/sgpu-memory": "2"},
    {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "16Gi"},
    {"kunlunxin.com/vxpu": "2", "kunlunxin.com/vxpu-memory": "1k"},
    {"huawei.com/Ascend910C": "1", "huawei.com/Ascend910C-memory": "9k"},
    {"huawei.com/Ascend310P": "2"},
    {"aws.amazon.com/neuroncore": "4"},
    {"enflame.com/gcu-memory": "12"},
    {"amd.com/gpu": "1", "amd.com/gpumem": "4096Mi"},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(st.text(min_size=1, max_size=6).map("x-{}".format), JSON, max_size=2)
AMOUNTS = st.lists(st.sampled_from(ASKED), max_size=2).map(
    lambda chosen: {name: amount for each in chosen for name, amount in each.items()}
)


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    """Return a pod with unknown fields everywhere and some devices."""
    containers = []
    for index in range(draw(st.integers(1, 2))):
        amounts = draw(AMOUNTS)
        resources: JsonObject = {"limits": {**amounts, "cpu": "1"}, **draw(UNKNOWN)}
        if draw(st.booleans()):
            resources["requests"] = dict(amounts)
        env = draw(st.none() | st.just([{"name": "A", "value": "1", **draw(UNKNOWN)}]))
        container = {"name": f"c{index}", "resources": resources, **draw(UNKNOWN)}
        containers.append(container if env is None else {**container, "env": env})
    annotations = draw(st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4)))
    metadata = {"name": "p", **draw(UNKNOWN)}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": containers, **draw(UNKNOWN)}}


@given(pods())
def test_nothing_else_changes(made: JsonObject) -> None:
    """Outside what is edited every field keeps its bytes, and a second patch changes nothing."""
    said = read(made, CONFIG)
    assert not isinstance(said, Invalid), said
    result = jsonpatch.apply_patch(made, list(patch_for(made, said, scheduler_name=SCHEDULER)))
    expected = copy.deepcopy(made)
    for each in said.requests:
        container = expected["spec"][each.container.section][each.container.index]
        _merge(container, each.edits)
        if each.edits.pod_annotations:
            _object(expected["metadata"], "annotations").update(each.edits.pod_annotations)
    if isinstance(said, Valid):
        expected["spec"]["schedulerName"] = SCHEDULER
    assert json.dumps(result, sort_keys=True) == json.dumps(expected, sort_keys=True)
    again = read(result, CONFIG)
    assert not isinstance(again, Invalid), again
    assert patch_for(result, again, scheduler_name=SCHEDULER) == ()
    if isinstance(said, Valid):
        assert [each.devices for each in again.requests] == [each.devices for each in said.requests]


def _merge(container: JsonObject, edits: Edits) -> None:
    for section, amounts in (("limits", edits.limits), ("requests", edits.requests)):
        if amounts:
            _object(container["resources"], section).update(amounts)
    if edits.env:
        env = container.setdefault("env", [])
        env += [{"name": name, "value": value} for name, value in edits.env]


def _object(parent: JsonObject, key: str) -> dict[str, Any]:
    found: dict[str, Any] = parent.setdefault(key, {})
    return found
