"""Use beyond what was granted is said once, on whom it concerns."""

import os
from pathlib import Path

import pytest

from hami.monitor.excess import uses
from hami.monitor.notices import ABOVE_GRANT, OVER_S, WITHOUT_SHARE
from hami.monitor.podresources import ContainerResources, HeldClaim, HeldClaimDevice
from hami.monitor.processes import HostProcesses
from hami.monitor.regions.layouts import V1_2
from tests.hami.monitor.nodes import (
    GPU,
    GPU_B,
    NODE,
    Node,
    claim,
    gpu_process,
    pod,
    pod_uid,
    prepared_device,
    scraped,
    told,
    usage,
)
from tests.hami.monitor.regionfiles import poke
from tests.hami.monitor.test_processes import Proc, slice_of

MIB = 2**20


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a node without pods."""
    return Node(tmp_path / "node")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """Return the processes of the host, as far as they are on a GPU."""
    return Proc(tmp_path / "proc")


def use(path: Path, mib: int) -> None:
    """Have the process of a region use so much of its first GPU."""
    poke(path, V1_2.slots + V1_2.slot.used + 32, mib * MIB, size=8)


def test_more_than_was_granted_is_said_once(node: Node) -> None:
    """In the second look that sees it, not again while it lasts, and again when it comes back."""
    path = node.share()
    monitor = node.monitor(feedback=False)
    use(path, 3001)
    monitor.look()
    assert node.events.said == []
    for _ in range(10):
        node.now_s += 5
        monitor.look()
    ((regarding, reason, message),) = node.events.said
    assert (regarding.kind, regarding.uid, reason) == ("Pod", pod_uid(1), ABOVE_GRANT)
    assert message == f"container main uses 3001 MiB of GPU {GPU} and was granted 3000 MiB"
    assert scraped(monitor).of("gpuslice_share_memory_above_grant_bytes") == [MIB]
    # A moment below is no end of it.
    use(path, 100)
    monitor.look()
    assert scraped(monitor).of("gpuslice_share_memory_above_grant_bytes") == [0]
    use(path, 3001)
    node.now_s += OVER_S
    monitor.look()
    monitor.look()
    assert len(node.events.said) == 1
    use(path, 100)
    node.now_s += OVER_S + 1
    monitor.look()
    use(path, 3001)
    monitor.look()
    monitor.look()
    assert len(node.events.said) == 2


def test_a_moment_above_is_nothing(node: Node) -> None:
    """One look sees it, the next does not."""
    path = node.share()
    monitor = node.monitor(feedback=False)
    for mib in (3001, 100, 3001, 100):
        use(path, mib)
        node.now_s += 5
        monitor.look()
    assert node.events.said == []


def test_a_margin_is_not_said(node: Node) -> None:
    """An administrator who lives with a little more is not told of it; the figure stays."""
    path = node.share()
    monitor = node.monitor(feedback=False, margin_mib=64)
    use(path, 3064)
    monitor.look()
    monitor.look()
    assert node.events.said == []
    assert scraped(monitor).of("gpuslice_share_memory_above_grant_bytes") == [64 * MIB]


def test_the_driver_sees_what_the_library_does_not(node: Node, proc: Proc) -> None:
    """Memory of pools and arrays, and of programs that left the library out."""
    path = node.share()
    use(path, 500)
    proc.add(5001, 7, cgroup=slice_of(pod_uid(1)))
    proc.add(5002, 9, cgroup=slice_of(pod_uid(1)))
    node.gpus = (usage(processes=(gpu_process(5001, 2000), gpu_process(5002, 1500))),)
    monitor = node.monitor(feedback=False, proc=proc.root)
    monitor.look()
    monitor.look()
    ((_, reason, message),) = node.events.said
    assert reason == ABOVE_GRANT
    assert "uses 3500 MiB" in message
    assert scraped(monitor).of("gpuslice_gpu_processes", owner="share") == [2]


def test_two_shares_of_a_pod_on_one_gpu_are_told_apart_by_the_library_alone(
    node: Node, proc: Proc
) -> None:
    """The driver's figure is that of the pod, and would be held against each of them."""
    devices = (prepared_device(), prepared_device(share_id="share-2"))
    node.pods = [pod(claim="claim-1")]
    node.claims = [claim(devices=devices, limits=(), options=None)]
    proc.add(5001, 7, cgroup=slice_of(pod_uid(1)))
    node.gpus = (usage(processes=(gpu_process(5001, 5000),)),)
    monitor = node.monitor(feedback=False, proc=proc.root)
    monitor.look()
    monitor.look()
    assert node.events.said == []
    snapshot = monitor.snapshot()
    assert snapshot is not None
    assert list(uses(snapshot)) == []


def strays_said(node: Node, proc: Proc, **options: object) -> list[tuple[str, str, str]]:
    """Return kind, name and message of what is said after three looks."""
    monitor = node.monitor(feedback=False, proc=proc.root, **options)
    for _ in range(3):
        monitor.look()
    assert {reason for _, reason, _ in node.events.said} <= {WITHOUT_SHARE}
    return [(about.kind, about.name, message) for about, _, message in node.events.said]


def test_a_pod_without_a_share_is_told(node: Node, proc: Proc) -> None:
    """Once for the GPU, however many processes it has there."""
    node.share(1)
    assert node.pods is not None
    node.pods.append(pod(2))
    for pid in (5001, 5002):
        proc.add(pid, 7, cgroup=slice_of(pod_uid(2)))
    node.gpus = (usage(processes=(gpu_process(5001), gpu_process(5002))),)
    ((kind, name, message),) = strays_said(node, proc)
    assert (kind, name) == ("Pod", "pod-2")
    assert GPU in message
    assert "(python3)" in message


def test_a_share_of_another_gpu_is_no_share_of_this_one(node: Node, proc: Proc) -> None:
    """The pod was given a part of one GPU and computes on the other."""
    node.share(1)
    proc.add(5001, 7, cgroup=slice_of(pod_uid(1)))
    node.gpus = (usage(GPU_B, processes=(gpu_process(5001),)), usage())
    ((kind, name, _),) = strays_said(node, proc)
    assert (kind, name) == ("Pod", "pod-1")


def test_a_process_of_no_pod_is_told_of_the_node(node: Node, proc: Proc) -> None:
    """Unless it is a program that the administrator knows."""
    proc.add(5001, cgroup="system.slice/x.service")
    node.gpus = (usage(processes=(gpu_process(5001),)),)
    assert strays_said(node, proc, ignored_processes=frozenset({"python3"})) == []
    ((kind, name, message),) = strays_said(node, proc)
    assert (kind, name) == (NODE.kind, NODE.name)
    assert "process 5001 (python3) of no pod" in message


def test_who_has_been_given_the_gpu_is_no_stray(node: Node, proc: Proc) -> None:
    """By a claim, also before the container is known to run; by any device plugin; or not known."""
    node.pods = [pod(1, claim="claim-1", running=False), pod(2), pod(3)]
    node.claims = [claim(1)]
    node.held = (
        told("pod-2", "main", {"example.com/whole-gpu": [GPU]}),
        ContainerResources(
            namespace="team",
            pod="pod-3",
            container="main",
            device_ids={},
            claims=(
                HeldClaim(
                    namespace="team",
                    name="c",
                    devices=(
                        HeldClaimDevice(
                            driver="gpu.example.com", pool="n", device="gpu-0", share_id=None
                        ),
                    ),
                ),
            ),
        ),
    )
    for number in (1, 2, 3):
        proc.add(5000 + number, 7, cgroup=slice_of(pod_uid(number)))
    node.gpus = (usage(processes=tuple(gpu_process(5000 + number) for number in (1, 2, 3))),)
    monitor = node.monitor(feedback=False, proc=proc.root)
    monitor.look()
    monitor.look()
    assert node.events.said == []
    series = scraped(monitor)
    assert series.of("gpuslice_gpu_processes", owner="share") == [2]
    assert series.of("gpuslice_gpu_processes", owner="unknown") == [1]


def test_nobody_is_accused_while_pods_are_not_known(node: Node, proc: Proc) -> None:
    """A process of a pod belongs to whom it may; one of no pod does not depend on that."""
    node.pods = None
    proc.add(5001, 7, cgroup=slice_of(pod_uid(1)))
    proc.add(5002, cgroup="system.slice/x.service")
    node.gpus = (usage(processes=(gpu_process(5001), gpu_process(5002))),)
    ((kind, _, message),) = strays_said(node, proc)
    assert kind == "Node"
    assert "5002" in message


def test_the_hosts_processes_are_read_where_they_are() -> None:
    """This process is in no pod of a cluster that is not there."""
    assert HostProcesses().pod_of(os.getpid()) == ""
