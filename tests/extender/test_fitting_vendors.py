"""Vendors with small rules of their own or none, and pods of several vendors."""

import pytest

from extender.model import Policies
from tests.extender.nodes import (
    container,
    device,
    fit,
    limited,
    node,
    placed,
    pod,
    text,
    uuids,
)
from tests.extender.vendornodes import NOW_NS, devices, made_up

MLU = {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "128"}


def test_cambricons_plugin_is_told_a_profile() -> None:
    """Of the first device of the first container that has one."""
    on = made_up("MLU", "mlu")(MLU)
    whole = placed(fit(on, pod(limited(**{"cambricon.com/vmlu": 1}))))
    assert text(whole, "MLU") == "mlu-cambricon-mlu-1,MLU,16384,100:;"
    assert whole.annotations == {
        "CAMBRICON_DSMLU_PROFILE": "1_100_64",
        "CAMBRICON_DSMLU_ASSIGNED": "false",
    }
    busy = made_up("MLU", "mlu")(MLU, 1)
    second = placed(fit(busy, pod(container("a"), container("b", **{"cambricon.com/vmlu": 1}))))
    assert text(second, "MLU") == ";mlu-cambricon-mlu-0,MLU,16384,100:;"
    assert second.annotations["CAMBRICON_DSMLU_PROFILE"] == "0_100_64"


def test_amds_cores_become_units_of_the_device() -> None:
    """Rounded down, at least one, all without any; the model is written."""
    on = node(*devices("AMD", 1, type="AMD Instinct MI300X", cores=304, memory_mib=1000))
    name = "AMD Instinct MI300X"
    for limits, written in [
        ({"amd.com/gpumem": 100, "amd.com/gpucores": 10}, f"D0,{name},100,30:;"),
        ({"amd.com/gpumem": 100, "amd.com/gpucores": 1}, f"D0,{name},100,3:;"),
        ({}, f"D0,{name},1000,304:;"),
    ]:
        assert text(fit(on, pod(limited(**{"amd.com/gpu": 1} | limits))), "AMD") == written


def test_amds_devices_run_out_of_units() -> None:
    """Units are compared, not percent."""
    (used,) = devices("AMD", 1, cores=304, memory_mib=1000)
    used.used_slots, used.used_mib, used.used_cores = 1, 100, 200
    raw = pod(limited(**{"amd.com/gpu": 1, "amd.com/gpumem": 1, "amd.com/gpucores": 50}))
    assert text(fit(node(used), raw)) == "1/1 CardInsufficientCore"


MTHREADS = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}


def test_containers_on_moore_threads_stay_on_one_device() -> None:
    """And its index, the time and the node are told."""
    part = {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32, "mthreads.com/sgpu-core": 4}
    raw = pod(container("a", **part), container("b", **part))
    found = placed(fit(made_up("Mthreads")(MTHREADS), raw))
    one = "n-mthreads-1,Mthreads,16384,4:;"
    assert text(found, "Mthreads") == one * 2
    assert found.annotations == {
        "mthreads.com/gpu-index": "1",
        "mthreads.com/predicate-time": NOW_NS,
        "mthreads.com/predicate-node": "n",
    }


def test_a_pod_on_moore_threads_does_not_spill_over() -> None:
    """The second container finds the first one's device full, and no other is allowed."""
    part = {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 64, "mthreads.com/sgpu-core": 8}
    raw = pod(container("a", **part), container("b", **part))
    refusal = "1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule"
    assert text(fit(made_up("Mthreads")(MTHREADS), raw)) == refusal


def test_whole_metax_gpus_are_not_shared_by_containers() -> None:
    """Several for one container are given."""
    on = made_up("Metax-GPU")({"metax-tech.com/gpu": "2"})
    assert uuids(fit(on, pod(limited(**{"metax-tech.com/gpu": 2}))), "Metax-GPU") == (
        "n-metax-1 n-metax-0"
    )
    one = {"metax-tech.com/gpu": 1}
    refusal = "1/2 CardNotFoundCustomFilterRule, 1/2 CardTimeSlicingExhausted"
    assert text(fit(on, pod(container("a", **one), container("b", **one)))) == refusal


@pytest.mark.parametrize(
    ("policy", "annotations", "score"),
    [
        ("binpack", {"metax-tech.com/gpu.topology.losses": '{"1":30,"2":70}'}, 1930.0),
        ("spread", {"metax-tech.com/gpu.topology.scores": '{"2":500}'}, -1500.0),
        ("binpack", {"metax-tech.com/gpu.topology.losses": "broken"}, 2000.0),
        ("binpack", {"metax-tech.com/gpu.topology.scores": '{"2":500}'}, 0.0),
    ],
)
def test_metaxs_topology_scores_nodes(
    policy: str, annotations: dict[str, str], score: float
) -> None:
    """By what is lost or won with so many GPUs."""
    on = made_up("Metax-GPU")({"metax-tech.com/gpu": "4"})
    on.annotations = annotations
    raw = pod(limited(**{"metax-tech.com/gpu": 2}))
    assert placed(fit(on, raw, policies=Policies(node_policy=policy))).score == score


@pytest.mark.parametrize(
    ("word", "count", "memory", "cores"),
    [
        ("DCU", "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
        ("HCU", "hygon.com/hcunum", "hygon.com/hcumem", "hygon.com/hcucores"),
        (
            "MR-V100",
            "iluvatar.ai/MR-V100-vgpu",
            "iluvatar.ai/MR-V100.vMem",
            "iluvatar.ai/MR-V100.vCore",
        ),
    ],
)
def test_hygons_and_iluvatars_devices_are_shared_by_the_common_rules(
    word: str, count: str, memory: str, cores: str
) -> None:
    """Memory in their units, cores in percent."""
    factor = 256 if word == "MR-V100" else 1
    on = node(*devices(word, 2, type=f"{word}-model", memory_mib=4096))
    raw = pod(limited(**{count: 1, memory: 4, cores: 60}))
    assert text(fit(on, raw), word) == f"D1,{word},{4 * factor},60:;"
    for used in on.devices[word]:
        used.used_slots, used.used_cores = 1, 50
    assert text(fit(on, raw)) == "2/2 CardInsufficientCore"


def test_a_pod_may_have_devices_of_several_vendors() -> None:
    """Every container has a position in the list of each."""
    mlus = made_up("MLU", "gpu1")(MLU).devices
    on = node(device("G0"))
    on.devices |= mlus
    raw = pod(
        container("a", gpu=1, mem=5),
        container("b", **{"cambricon.com/vmlu": 1}),
        container("c", gpu=1, mem=6, **{"cambricon.com/vmlu": 1}),
        init=[container("i")],
    )
    found = placed(fit(on, raw))
    assert text(found) == ";G0,NVIDIA,5,0:;;G0,NVIDIA,6,0:;"
    mlu = "gpu1-cambricon-mlu-{},MLU,16384,100:;"
    assert text(found, "MLU") == f";;{mlu.format(1)}{mlu.format(0)}"


def test_nodes_without_the_vendor_have_too_few_devices() -> None:
    """As HAMi says it."""
    raw = pod(limited(**{"cambricon.com/vmlu": 1}))
    assert text(fit(node(device("G0")), raw)) == "NodeInsufficientDevice"


class Room:
    """A quota of one vendor's cores."""

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether it is kept; memory is not bounded."""
        del word, memory_mib
        return cores <= 1


@pytest.mark.parametrize(
    ("word", "limits", "refused"),
    [
        ("DCU", {"hygon.com/dcunum": 1, "hygon.com/dcucores": 2}, 1),
        ("DCU", {"hygon.com/dcunum": 1, "hygon.com/dcucores": 1}, 0),
        ("AMD", {"amd.com/gpu": 1, "amd.com/gpucores": 2}, 1),
        ("AMD", {"amd.com/gpu": 1, "amd.com/gpucores": 1}, 0),
        ("kunlun", {"kunlunxin.com/xpu": 1}, 1),
        ("XPU", {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576}, 1),
        ("AWSNeuron", {"aws.amazon.com/neuroncore": 1}, 0),
        ("AWSNeuron", {"aws.amazon.com/neuroncore": 2}, 1),
        ("Enflame", {"enflame.com/drs-gcu": 1}, 1),
        ("Metax-SGPU", {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 2}, 1),
        ("Metax-SGPU", {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 1}, 0),
        ("Biren", {"birentech.com/gpu": 1}, 0),
    ],
)
def test_a_quota_holds_for_every_vendor(word: str, limits: dict[str, int], refused: int) -> None:
    """In what would be booked: units, and bits of masks."""
    custom = {"profiles": {"1g.12gb": "11"}, "maxSlice": 6}
    on = node(*devices(word, 1, custom=custom, cores=3 if word == "AWSNeuron" else 100))
    found = fit(on, pod(limited(**limits)), room=Room())
    assert (str(found) == "1/1 ResourceQuotaNotFit") == bool(refused)
