"""Metax: whole GPUs stay together, shared ones know classes, policies and links."""

from typing import Any

import pytest

from extender.model import DeviceUsage, Policies
from hami.deviceconfig import parse
from tests.extender.nodes import (
    container,
    device,
    fit,
    limited,
    node,
    placed,
    pod,
    text,
    usage,
    uuids,
)
from tests.extender.vendornodes import NOW_NS, devices


def sgpus(number: int, **said: Any) -> list[DeviceUsage]:
    """Return Metax's shared GPUs."""
    return devices("Metax-SGPU", number, count=16, memory_mib=65536, **said)


def sgpu(cores: int = 10, memory: int = 1, count: int = 1) -> dict[str, Any]:
    """Return a container with a part of one."""
    names = ("metax-tech.com/sgpu", "metax-tech.com/vcore", "metax-tech.com/vmemory")
    return limited(**dict(zip(names, (count, cores, memory), strict=True)))


CLASS = "metax-tech.com/sgpu-app-class"
QOS = "metax-tech.com/sgpu-qos-policy"


def inhabited(gpu: DeviceUsage, *neighbours: dict[str, str]) -> DeviceUsage:
    """Let pods with these annotations be on a GPU."""
    for number, annotations in enumerate(neighbours):
        gpu.pods[f"neighbour {number}"] = annotations
        gpu.used_slots += 1
        gpu.used_mib += 1024
    return gpu


@pytest.mark.parametrize(
    ("mine", "neighbours", "fits"),
    [
        ("online", ["online"], True),
        ("online", ["offline"], True),
        ("offline", ["offline"], True),
        ("offline", ["online", "offline"], False),
        ("offline", [""], False),
        ("", ["online"], False),
        ("", ["offline"], False),
        ("", [""], True),
        ("online", [], True),
    ],
)
def test_pods_of_a_class_join_their_like_on_metax(
    mine: str,
    neighbours: list[str],
    fits: bool,  # noqa: FBT001
) -> None:
    """Offline pods never where online ones are."""
    (gpu,) = sgpus(1)
    inhabited(gpu, *({CLASS: each} if each else {QOS: "burst-share"} for each in neighbours))
    annotations = ({CLASS: mine} if mine else {}) | {QOS: "burst-share"}
    found = fit(node(gpu), pod(sgpu(), annotations=annotations))
    cores = 0 if mine == "online" else 10
    expected = f"D0,Metax-SGPU,1024,{cores}:;" if fits else "1/1 CardAppClassMismatch"
    assert text(found, "Metax-SGPU") == expected


@pytest.mark.parametrize(
    ("cores", "neighbour", "registered", "expected"),
    [
        (10, "fixed-share", "", "1/1 CardQosPolicyMismatch"),
        (10, "burst-share", "fixed-share", "D0"),
        (10, None, "fixed-share", "D0"),
        (10, "", "fixed-share", "1/1 CardQosPolicyMismatch"),
        (10, "", "", "D0"),
        (100, "fixed-share", "", "1/1 ExclusiveDeviceAllocateConflict"),
    ],
)
def test_pods_of_a_policy_join_their_like_on_metax(
    cores: int, neighbour: str | None, registered: str, expected: str
) -> None:
    """What the neighbours want goes before what the node said; idle GPUs take all."""
    (gpu,) = sgpus(1, custom={"QosPolicy": registered})
    if neighbour is not None:
        inhabited(gpu, {QOS: neighbour} if neighbour else {})
    found = fit(node(gpu), pod(sgpu(cores), annotations={QOS: "burst-share"}))
    assert uuids(found, "Metax-SGPU") == expected


def test_ill_metax_gpus_are_named_in_metaxs_way() -> None:
    """Its reason differs from all others'."""
    assert text(fit(node(*sgpus(1, healthy=False)), pod(sgpu()))) == "1/1 CardUnhealthy"


def test_containers_of_a_pod_share_a_metax_gpu() -> None:
    """An idle GPU's old policy does not stand between them; Metax's plugin is told of each."""
    raw = pod(
        container("a"),
        sgpu(10),
        sgpu(0),
        annotations={QOS: "burst-share", "hami.io/gpu-scheduler-policy": "binpack"},
    )
    found = placed(fit(node(*sgpus(1, custom={"QosPolicy": "fixed-share"})), raw))
    assert uuids(found, "Metax-SGPU") == " | D0 | D0"
    told = '[[],[{"uuid":"D0","compute":10,"vRam":1024}],[{"uuid":"D0","vRam":1024}]]'
    assert found.annotations == {
        "metax-tech.com/gpu-devices-allocated": told,
        "metax-tech.com/predicate-time": NOW_NS,
    }


def test_online_pods_seek_few_of_their_kind() -> None:
    """GPUs with offline pods alone come last; the node's score says the same."""
    four = sgpus(4)
    online, offline = {CLASS: "online"}, {CLASS: "offline"}
    inhabited(four[1], online, offline)
    inhabited(four[2], offline)
    inhabited(four[3], online, online)
    raw = pod(sgpu(), annotations=online)
    assert uuids(fit(node(*four), raw), "Metax-SGPU") == "D0"
    left = placed(fit(node(*four[1:]), raw))
    assert uuids(left, "Metax-SGPU") == "D1"
    assert -221_000 < left.score < -219_000
    spread = placed(fit(node(*four[1:]), raw, policies=Policies(node_policy="spread")))
    assert -221_000 < spread.score < -219_000
    last = placed(fit(node(four[2]), raw))
    assert -1_001_000 < last.score < -999_000


@pytest.mark.parametrize(
    ("zones", "count", "expected"),
    [
        ([1, 1, 1, 2, 2, 0], 2, "D4 D3"),
        ([1, 1, 1, 2, 2, 0], 3, "D2 D1 D0"),
        ([1, 1, 1, 2, 2, 0], 4, "D4 D3 D2 D1"),
        ([0, 0, 1], 2, "D2 D1"),
    ],
)
def test_whole_shares_of_metax_are_linked(zones: list[int], count: int, expected: str) -> None:
    """The smallest zone that is enough, then several zones, then GPUs without links."""
    gpus = [
        usage(
            device(
                f"D{index}",
                index,
                word="Metax-SGPU",
                type="Metax-SGPU",
                custom={"LinkZone": zone},
            )
        )
        for index, zone in enumerate(zones)
    ]
    raw = pod(sgpu(100, count=count), annotations={"metax-tech.com/sgpu-topology-aware": "true"})
    found = placed(fit(node(*gpus), raw))
    assert uuids(found, "Metax-SGPU") == expected


def test_links_that_are_lost_make_a_node_worse() -> None:
    """Two of a zone of three: one link is given, two are lost."""
    raw = pod(sgpu(100, count=2), annotations={"metax-tech.com/sgpu-topology-aware": "true"})
    found = placed(fit(node(*sgpus(3, custom={"LinkZone": 7})), raw))
    assert found.score == (10 * 10 - 20) * 10_000


@pytest.mark.parametrize(
    ("configured", "said", "counts"),
    [
        ("false", None, False),
        ("true", None, True),
        ("true", "false", False),
        ("false", "1", True),
        ("true", "perhaps", True),
    ],
)
def test_links_count_as_the_pod_says_or_as_configured(
    configured: str,
    said: str | None,
    counts: bool,  # noqa: FBT001
) -> None:
    """What a pod says without being true or false says nothing."""
    config = parse(
        "metax: {resourceVCountName: metax-tech.com/sgpu, resourceVCoreName: metax-tech.com/vcore,"
        f" resourceVMemoryName: metax-tech.com/vmemory, sgpuTopologyAware: {configured}}}"
    )
    annotations = {} if said is None else {"metax-tech.com/sgpu-topology-aware": said}
    raw = pod(sgpu(100, count=2), annotations=annotations)
    found = placed(fit(node(*sgpus(2, custom={"LinkZone": 7})), raw, config=config))
    assert (found.score > 0) == counts
