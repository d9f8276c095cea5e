"""What a person reads: three typical cases, word by word, and never more than a screen."""

from cli.explain.text import lines_of
from sim.explain.model import Explanation
from tests.sim.explain.world import (
    Json,
    asking,
    claim,
    device_class,
    explained,
    gpu,
    holding,
    node,
    pod,
    published,
    selecting,
)

TAINT = {"key": "gpuslice.io/unhealthy", "value": "Xid79", "effect": "NoSchedule"}
SCREEN = 45

FULL = """\
pod default/trainer is pending: no node can serve it (rules of Kubernetes 1.37)
  kube-scheduler says: 0/5 nodes are available: 5 cannot allocate all claims.
  asked: claim default/want request gpu: 1 device of class share, memory 20Gi, cores 50

nodes (5 of 5 refuse)
  gpu-1: MemoryInsufficient on 1 device; TaintNotTolerated on 1 device
  gpu-2: MemoryInsufficient on 1 device
  cpu-1, cpu-2: NoDevicePublished
  gpu-3: NodeUnschedulable: true

devices of gpu-1
  g0: MemoryInsufficient: asked 20Gi; free 15Gi of 40Gi; held by default/one (pod x) 25Gi
  g1: TaintNotTolerated: gpuslice.io/unhealthy=Xid79:NoSchedule

devices of gpu-2
  g0: MemoryInsufficient: asked 20Gi; free 4Gi of 40Gi; held by default/c0 (pod p0) 9Gi, \
default/c1 (pod p1) 9Gi, default/c2 (pod p2) 9Gi and 1 more

smallest change with which it fits
  node gpu-3 is uncordoned [on gpu-3]
  or: request gpu asks for memory 15Gi instead of 20Gi [on gpu-1]
"""

TYPO = """\
pod default/trainer is pending: something stops it on every node (rules of Kubernetes 1.37)
  asked: claim default/want request gpu: 2 devices of class shares
  ClassMissing: shares; there is no such device class; there are share

smallest change with which it fits
  request gpu asks for class share instead of shares [on a]
"""

FITS = """\
pod default/trainer fits on node a (rules of Kubernetes 1.37)
  asked: claim default/want request gpu: 1 device of class share, memory 1Gi
  gets: claim default/want request gpu: gpu.example.com/a/g0, memory 1Gi, cores 0, shares 1
"""


def text_of(said: Explanation) -> str:
    """Return what is printed where no terminal is."""
    return "".join(f"{line.text}\n" for line in lines_of(said))


def held(name: str, node_name: str, memory: str, by: str) -> Json:
    """Return a claim that holds memory of the first GPU of a node."""
    amounts = {"memory": memory, "shares": "1"}
    return holding(name, node_name, "g0", capacity=amounts, pods=(by,))


def test_a_cluster_without_room() -> None:
    """Nodes with one reason share a line, and the nearest are shown with their devices."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/5 nodes are available: 5 cannot allocate all claims.",
    }
    said = explained(
        *(node(name) for name in ("cpu-1", "cpu-2", "gpu-1", "gpu-2")),
        node("gpu-3", unschedulable=True),
        published("gpu-1", gpu("g0"), gpu("g1", taints=[TAINT])),
        published("gpu-2", gpu("g0")),
        published("gpu-3", gpu("g0")),
        held("one", "gpu-1", "25Gi", "x"),
        *(held(f"c{number}", "gpu-2", "9Gi", f"p{number}") for number in range(4)),
        {**pod(), "status": {"conditions": [condition]}},
        claim(asking(capacity={"memory": "20Gi", "cores": "50"})),
    )
    assert text_of(said) == FULL


def test_a_slip_of_the_pen() -> None:
    """What stops the pod everywhere is told once, without nodes."""
    said = explained(
        node("a"),
        published("a", gpu("g0"), gpu("g1")),
        device_class("share"),
        pod(),
        claim(asking(of="shares", count=2)),
    )
    assert text_of(said) == TYPO


def test_a_pod_that_fits() -> None:
    """Who asks too early reads where the pod would go."""
    said = explained(
        node("a"), published("a", gpu("g0")), pod(), claim(asking(capacity={"memory": "1Gi"}))
    )
    assert text_of(said) == FITS


def test_a_screen_is_enough() -> None:
    """Forty nodes in forty states with sixteen different devices each stay on one screen."""
    items = []
    for number in range(40):
        name = f"n{number:02}"
        devices = [
            gpu(f"g{index}", memory=f"{index + 1}Gi", taints=[TAINT][: index % 2])
            for index in range(16)
        ]
        taints = [{"key": f"taint-{number}", "effect": "NoSchedule"}]
        items += [
            node(name, taints=taints[: number % 2]),
            published(name, *devices[: number % 16 + 1]),
        ]
    long = " && ".join(["device.driver.size() > 0"] * 20)
    requests = [
        asking(f"r{number}", capacity={"memory": "90Gi"}, selectors=selecting(long))
        for number in range(12)
    ]
    said = explained(*items, pod(), claim(*requests))
    lines = text_of(said).splitlines()
    assert len(lines) <= SCREEN
    assert max(len(line) for line in lines) < 400
    assert said.changes == ()
    assert "no single change was found with which it fits" in lines
