"""Tests of reading a pod's annotations."""

from typing import Any

import pytest

from hami import userkeys
from hami.preference_reading import PreferenceReading, read, without_effect
from hami.preferences import NumaAlignment, Preferences, ScoringWeights

_A = "GPU-bbbbbbbb-0000-4000-8000-000000000001"


def reading(annotations: dict[str, Any], *, nvidia: bool = True) -> PreferenceReading:
    """Read a pod with *annotations*."""
    return read({"metadata": {"annotations": annotations}}, nvidia=nvidia)


def plain(annotations: dict[str, Any]) -> Preferences:
    """Return what is read without a word."""
    found = reading(annotations)
    assert (found.reasons, found.warnings) == ((), ())
    return found.preferences


def only(found: PreferenceReading, *, refused: bool) -> str:
    """Return the only reason or warning."""
    some, none = (found.reasons, found.warnings)[:: 1 if refused else -1]
    assert not none
    assert len(some) == 1
    return str(some[0])


def test_everything() -> None:
    """Every annotation reaches its field."""
    annotations = {
        userkeys.USE_TYPE: " A100 ,h100, a100,",
        userkeys.NOUSE_TYPE: "PCIe",
        userkeys.USE_UUID: f"{_A}, MIG-1,",
        userkeys.NOUSE_UUID: "GPU-9",
        userkeys.NUMA_BIND: "true",
        userkeys.VGPU_MODE: "hami-core,mig",
        userkeys.GPU_POLICY: "numa, binpack",
        userkeys.NODE_POLICY: "spread",
        userkeys.SCORING_WEIGHTS: "slot=1, core=0 ,memory = 3",
        userkeys.NUMA_ALIGNMENT: "best-effort",
    }
    assert set(annotations) == {*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS}
    assert plain(annotations) == Preferences(
        use_types=("a100", "h100"),
        nouse_types=("pcie",),
        use_uuids=(_A, "MIG-1"),
        nouse_uuids=("GPU-9",),
        numa_bind=True,
        modes="hami-core,mig",
        gpu_policies=("numa", "binpack"),
        node_policy="spread",
        scoring_weights=ScoringWeights(slot=1, core=0, memory=3),
        numa_alignment=NumaAlignment.BEST_EFFORT,
    )


@pytest.mark.parametrize("key", [*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS])
def test_blank(key: str) -> None:
    """A blank value is no constraint and no reason."""
    found = reading({key: "  "})
    assert found.reasons == ()
    assert found.preferences == Preferences()


@pytest.mark.parametrize("key", [*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS])
def test_no_text(key: str) -> None:
    """What is no text is refused."""
    assert "AnnotationNotText" in {each.code for each in reading({key: 5}).reasons}


def test_others_are_not_read_for_nvidia() -> None:
    """A pod without NVIDIA GPUs is not refused for a word about them, but for common ones."""
    wrong = {userkeys.USE_UUID: "x", userkeys.NUMA_BIND: "maybe", userkeys.SCORING_WEIGHTS: "x"}
    found = reading(wrong, nvidia=False)
    assert [each.code for each in found.reasons] == ["ScoringWeightsInvalid"]
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("slot=1,core=1,memory=3", (1, 1, 3)),
        ("memory=3,slot=0,core=0", (0, 0, 3)),
        (" slot = 1 , core = +2 , memory = 3 ", (1, 2, 3)),
        ("slot=9223372036854775807,core=0,memory=0", (2**63 - 1, 0, 0)),
    ],
)
def test_weights(text: str, weights: tuple[int, int, int]) -> None:
    """Three weights in any order, with blanks around."""
    slot, core, memory = weights
    expected = ScoringWeights(slot=slot, core=core, memory=memory)
    assert plain({userkeys.SCORING_WEIGHTS: text}).scoring_weights == expected


@pytest.mark.parametrize(
    "text",
    [
        "slot=1,core=1",
        "slot=1,core=1,memory=3,",
        "slot=1,core=1,memory=3,slot=1",
        "slot=1,slot=1,memory=3",
        "slot=1,core=1,mem=3",
        "slot=1,core=1,memory=-3",
        "slot=0,core=0,memory=0",
        "slot=1,core=1,memory=1.5",
        "slot=1,core=1,memory=",
        "slot=1,core=1,memory=9223372036854775808",
        "slot=1,core=1,memory=٣",
        "slot:1,core:1,memory:3",
        "1,1,3",
        ",,",
        "slot=1;core=1;memory=3",
    ],
)
def test_no_weights(text: str) -> None:
    """Anything else would fail each attempt to schedule, and is refused now."""
    why = only(reading({userkeys.SCORING_WEIGHTS: text}), refused=True)
    assert why.startswith("ScoringWeightsInvalid: metadata.annotations[hami.io/device-scoring")


@pytest.mark.parametrize(
    "uuid",
    [
        "GPU-",
        "gpu-1",
        "1",
        "GPU-1\n",
        "GPU-1 GPU-2",
        'GPU-1"] || true || ["',
        "GPU-" + "1" * 65,
        "MIG-GPU-1/0/0",
        "GPU-1\\",
        "GPU-\N{KELVIN SIGN}",
    ],
)
@pytest.mark.parametrize("key", [userkeys.USE_UUID, userkeys.NOUSE_UUID])
def test_no_uuid(key: str, uuid: str) -> None:
    """A member that is no UUID is refused beside good ones; a line break around one is a blank."""
    found = reading({key: f"{_A}, {uuid}"})
    if uuid.strip() == "GPU-1":
        assert found.reasons == ()
        return
    why = only(found, refused=True)
    assert "does not match ^(GPU|MIG)-[0-9A-Za-z-]{1,64}$" in why
    assert why.isprintable()


@pytest.mark.parametrize(
    ("text", "policies", "warning"),
    [
        ("binpack", ("binpack",), ""),
        ("mutex,topology-aware", ("mutex", "topology-aware"), ""),
        ("spread,spread", ("spread",), ""),
        ("packed", ("spread",), "policy `packed` is unknown and behaves as spread"),
        ("packed,binpack", ("binpack",), "policy `packed` is unknown and has no effect"),
        ("Binpack", ("spread",), "behaves as spread"),
        (",", ("spread",), "behaves as spread"),
    ],
)
def test_gpu_policy(text: str, policies: tuple[str, ...], warning: str) -> None:
    """An unknown word is a warning that says what becomes of it."""
    found = reading({userkeys.GPU_POLICY: text})
    assert found.preferences.gpu_policies == policies
    assert [warning in str(each) for each in found.warnings] == ([True] if warning else [])


def test_node_policy() -> None:
    """An unknown policy of nodes packs them."""
    found = reading({userkeys.NODE_POLICY: "random"})
    assert found.preferences.node_policy == "binpack"
    assert "behaves as binpack" in only(found, refused=False)


@pytest.mark.parametrize(("text", "bound"), [("1", True), ("F", False), ("TRUE", True)])
def test_numa_bind(*, text: str, bound: bool) -> None:
    """Go's booleans are read."""
    assert plain({userkeys.NUMA_BIND: text}).numa_bind is bound


def test_no_numa_bind() -> None:
    """Another word is false, and says so."""
    found = reading({userkeys.NUMA_BIND: "yes"})
    assert not found.preferences.numa_bind
    assert "read as false" in only(found, refused=False)


def test_numa_alignment() -> None:
    """Two words are known; another is refused."""
    strict = {userkeys.NUMA_ALIGNMENT: "strict"}
    assert plain(strict).numa_alignment is NumaAlignment.STRICT
    found = reading({userkeys.NUMA_ALIGNMENT: "Strict"})
    assert "must be best-effort or strict" in only(found, refused=True)


def test_modes() -> None:
    """A mode that no GPU has is warned about."""
    assert plain({userkeys.VGPU_MODE: "mig"}).modes == "mig"
    assert "no GPU has such a mode" in only(reading({userkeys.VGPU_MODE: "mps"}), refused=False)


@pytest.mark.parametrize("key", [userkeys.USE_TYPE, userkeys.USE_UUID])
def test_a_list_of_nothing(key: str) -> None:
    """A list that no GPU can be in is refused: the pod would wait for ever."""
    assert "match no GPU" in only(reading({key: " , "}), refused=True)


def test_annotations_without_effect() -> None:
    """A key of resources or of another product is named, with the right place."""
    annotations = {
        "nvidia.com/gpumem": "4000",
        "nvidia.com/gpucores": "30",
        "gpu-fraction": "0.1",
        "other.example/gpu-memory": "1",
        "nvidia.com/use-gputype": "A10",
    }
    found = without_effect(
        {"metadata": {"annotations": annotations}}, {"nvidia.com/gpumem", "nvidia.com/gpucores"}
    )
    assert [each.limit for each in found] == [
        "annotation nvidia.com/gpucores has no effect; put it in resources.limits",
        "annotation nvidia.com/gpumem has no effect; put it in resources.limits",
        "annotation gpu-fraction has no effect",
        "annotation other.example/gpu-memory has no effect",
    ]


@pytest.mark.parametrize("pod", [{}, {"metadata": []}, {"metadata": {"annotations": "x"}}])
def test_no_annotations(pod: dict[str, Any]) -> None:
    """A pod without annotations, or with something else there, prefers nothing."""
    assert read(pod, nvidia=True) == PreferenceReading(preferences=Preferences())
    assert without_effect(pod, {"x"}) == ()
