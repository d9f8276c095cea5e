"""Tests of reading a whole pod."""

from copy import deepcopy
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from hami import userkeys
from hami.amounts import MEMORY_LIMIT_MIB
from hami.deviceconfig import DeviceConfig, NvidiaConfig
from hami.requests import Absent, Edits, Invalid, Valid
from hami.resources import read
from hami.vendors import from_sections

CHART = DeviceConfig()
EVERYTHING = DeviceConfig(
    nvidia=NvidiaConfig(overwrite_env=True, gpu_core_policy="force", memory_factor=256),
    vendors=from_sections({}, ascend=True, iluvatar=True),
)
_KEYS = sorted(CHART.nvidia.keys)


def container(name: str, **limits: Any) -> dict[str, Any]:
    """Return a container; limits are named by the last part of their key."""
    named = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in limits.items()}
    return {"name": name, "resources": {"limits": named}}


def pod(
    *apps: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod."""
    spec = {"containers": list(apps), "initContainers": list(init)}
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def test_every_kind_of_container() -> None:
    """Init containers, sidecars and app containers are read; ephemeral ones are not."""
    sidecar = container("side", gpu="1", gpumem="1k") | {"restartPolicy": "Always"}
    asked = pod(container("app", gpu="2"), init=(container("init", gpu="1"), sidecar))
    asked["spec"]["ephemeralContainers"] = [container("debug", gpu="x")]
    found = read(asked, CHART)
    assert isinstance(found, Valid)
    counts = [(each.container.name, each.nvidia and each.nvidia.count) for each in found.requests]
    assert counts == [("init", 1), ("side", 1), ("app", 2)]


def test_a_container_that_asks_nothing_has_its_place() -> None:
    """Every container stands in the result, in the order of the pod."""
    found = read(pod({"name": "plain"}, container("app", gpu="1")), CHART)
    assert isinstance(found, Valid)
    assert [len(each.devices) for each in found.requests] == [0, 1]


def test_absent() -> None:
    """A pod that asks nothing is absent, with no container to edit."""
    assert read(pod({"name": "plain"}, container("zero", gpu="0")), CHART) == Absent()


def test_absent_but_edited() -> None:
    """The site's variables reach containers of pods that ask for nothing."""
    found = read(pod({"name": "plain"}), DeviceConfig(nvidia=NvidiaConfig(overwrite_env=True)))
    assert isinstance(found, Absent)
    assert found.requests[0].edits == Edits(env=(("NVIDIA_VISIBLE_DEVICES", "none"),))


def test_all_reasons_of_a_pod() -> None:
    """Containers come in their order, annotations last, and one bad container refuses the pod."""
    found = read(
        pod(
            container("good", gpu="1"),
            container("bad", gpucores="150", gpu="-1"),
            {"name": "odd", "resources": 5},
            init=(container("early", gpu="500m"),),
            annotations={userkeys.SCORING_WEIGHTS: "x", userkeys.USE_UUID: "x"},
        ),
        CHART,
    )
    assert isinstance(found, Invalid)
    assert [(each.code, each.field.split(".resources")[0]) for each in found.reasons] == [
        ("AmountNotWhole", "spec.initContainers{early}"),
        ("AmountOutOfRange", "spec.containers{bad}"),
        ("AmountOutOfRange", "spec.containers{bad}"),
        ("MalformedResources", "spec.containers{odd}"),
        ("UuidInvalid", "metadata.annotations[nvidia.com/use-gpuuuid]"),
        ("ScoringWeightsInvalid", "metadata.annotations[hami.io/device-scoring-weights]"),
    ]


def test_annotations_of_a_bad_pod_are_read_too() -> None:
    """The message names what else is wrong, so that one attempt is enough."""
    found = read(pod(container("bad", gpu="x"), annotations={userkeys.USE_UUID: "x"}), CHART)
    assert isinstance(found, Invalid)
    assert [each.code for each in found.reasons] == ["AmountUnreadable", "UuidInvalid"]


def test_annotations_of_a_pod_without_devices() -> None:
    """Nobody is refused for annotations that nothing reads; what was meant as a limit is told."""
    annotations = {userkeys.SCORING_WEIGHTS: "x", "nvidia.com/gpumem": "4000"}
    found = read(pod({"name": "plain"}, annotations=annotations), CHART)
    assert isinstance(found, Absent)
    assert [each.code for each in found.warnings] == ["AnnotationWithoutEffect"]


def test_two_vendors_in_one_container() -> None:
    """Each vendor's request stands beside the others, and the edits are together."""
    both = container("app", gpu="1")
    both["resources"]["limits"]["birentech.com/gpu"] = "1"
    found = read(pod(both), CHART)
    assert isinstance(found, Valid)
    assert [each.word for each in found.requests[0].devices] == ["NVIDIA", "Biren"]
    assert found.requests[0].edits.limits == {"nvidia.com/gpucores": "100"}


def test_annotations_of_nvidia_do_not_concern_other_vendors() -> None:
    """A pod with another vendor's devices is not refused for NVIDIA's annotations."""
    biren = {"name": "app", "resources": {"limits": {"birentech.com/gpu": "1"}}}
    found = read(pod(biren, annotations={userkeys.USE_UUID: "x"}), CHART)
    assert isinstance(found, Valid)


_WRITTEN = (
    *("0", "1", "2", "5k", "1M", "2e3", "100", "50", "101", "-1", "0.5", "500m", "3Gi", "4Gi"),
    *("1Ki", "16G", "9E", "50%", "", "x", "1.0", "16777216", "0Gi"),
)
_ODD = st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(-5, 2**70)
_VALUES = st.sampled_from(_WRITTEN) | _ODD
_ALL_KEYS = sorted({*_KEYS, *(key for each in EVERYTHING.vendors for key in each.keys), "cpu"})
_AMOUNTS = st.dictionaries(st.sampled_from(_KEYS) | st.sampled_from(_ALL_KEYS), _VALUES, max_size=5)
_CONTAINERS = st.fixed_dictionaries(
    {"name": st.text(max_size=5)},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"limits": _AMOUNTS, "requests": _AMOUNTS}),
        "env": st.lists(st.fixed_dictionaries({"name": st.text(max_size=5)}), max_size=2),
        "restartPolicy": st.just("Always"),
    },
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from([*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS, *_KEYS, "gpu-fraction"]),
    st.text(max_size=8) | st.sampled_from(["true", "mutex", "a100,", ",", "GPU-1", "strict"]),
)
_PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"annotations": _ANNOTATIONS}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(_CONTAINERS, min_size=1, max_size=3)},
            optional={"initContainers": st.lists(_CONTAINERS, max_size=2)},
        ),
    }
)


def _check(item: Any, config: DeviceConfig) -> None:
    before = deepcopy(item)
    found = read(item, config)
    assert isinstance(found, get_args(Absent | Valid | Invalid))
    assert repr(item) == repr(before)
    if isinstance(found, Invalid):
        assert found.reasons
        assert all(str(each).isprintable() and len(str(each)) < 1000 for each in found.reasons)
        return
    assert any(each.devices for each in found.requests) is isinstance(found, Valid)
    for request in found.requests:
        nvidia = request.nvidia
        if nvidia is None:
            continue
        assert nvidia.count >= 1
        assert (nvidia.memory_mib is None) is not (nvidia.memory_percent is None)
        assert nvidia.memory_mib is None or 1 <= nvidia.memory_mib <= MEMORY_LIMIT_MIB
        assert nvidia.memory_percent is None or 1 <= nvidia.memory_percent <= 100
        assert 0 <= nvidia.cores <= 100
        assert nvidia.priority in {None, 0, 1}


@given(_PODS, st.sampled_from([CHART, EVERYTHING]))
def test_any_request_is_read_or_refused(item: dict[str, Any], config: DeviceConfig) -> None:
    """No request becomes an empty one, none is out of bounds, and the pod is not touched."""
    _check(item, config)


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5)
            | st.sampled_from(
                ["metadata", "spec", "containers", "resources", "limits", "annotations", *_KEYS]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), _JSON))
def test_any_object_is_read(item: dict[str, Any]) -> None:
    """Whatever JSON a pod is, it is read without an exception."""
    _check(item, EVERYTHING)


@given(
    st.sampled_from(["spec", "metadata", "containers", "resources", "limits", "annotations"]), _JSON
)
def test_any_part_of_a_pod_is_read(part: str, odd: Any) -> None:
    """A pod with anything in the place of one of its parts is read without an exception."""
    item = pod(container("app", gpu="1"), annotations={userkeys.USE_TYPE: "a10"})
    resources = item["spec"]["containers"][0]["resources"]
    for holder in (item, item["metadata"], item["spec"], item["spec"]["containers"][0], resources):
        if part in holder:
            holder[part] = odd
    _check(item, EVERYTHING)


@given(_VALUES)
def test_a_memory_is_never_lost(value: Any) -> None:
    """What stands under the memory's key is taken, refused, or warned about."""
    found = read(pod(container("app", gpu="1", gpumem=value)), CHART)
    if isinstance(found, Valid):
        asked = found.requests[0].nvidia
        assert asked
        assert asked.memory_mib or found.warnings
