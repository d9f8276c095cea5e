"""Tests of how the GPUs of a node are linked."""

from gpu.links import Link, Nearness, read_links
from gpu.model import GpuUuid
from gpu.nvml import Nvml
from tests.gpu.simulating import simulated

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def pair(of_first: list[str], of_second: list[str]) -> str:
    """Return two GPUs on different CPUs, and what is at the ends of their NVLinks."""
    return f"""
gpus:
  - {{profile: a100-40gb, uuid: GPU-a, pci: "{FIRST}", nvlinks: {of_first}}}
  - {{profile: a100-40gb, uuid: GPU-b, pci: "{SECOND}", nvlinks: {of_second}, numa_node: 1,
     pcie_root: "pci0000:80"}}
"""


def links(text: str) -> dict[str, Link]:
    """Return what is read on a node with these GPUs, by the names of both."""
    with simulated(text), Nvml() as session:
        gpus = session.inventory().gpus
        found = read_links(session.call, gpus, session.handles())
        return {f"{each.one} {each.other}": each for each in found}


def test_nvlinks_of_a_pair() -> None:
    """Links that are up are counted on both sides, and where the paths on the bus meet is told."""
    (found,) = links(pair([SECOND, SECOND, "down", SECOND], [FIRST, FIRST, FIRST])).values()
    assert found == Link(
        one=GpuUuid("GPU-a"),
        other=GpuUuid("GPU-b"),
        nearness=Nearness.CROSS_CPU,
        nvlinks=3,
        nvlinks_back=3,
    )


def test_one_side_only() -> None:
    """A link of which one GPU alone knows is a fault, another number is none."""
    (found,) = links(pair([SECOND, SECOND], ["down", "0000:09:00.0"])).values()
    assert found.is_one_sided
    (found,) = links(pair([SECOND, SECOND], ["down", FIRST])).values()
    assert (found.nvlinks, found.nvlinks_back) == (2, 1)
    assert not found.is_one_sided


def test_switches() -> None:
    """Through a switch two GPUs have as many links as the one with fewer."""
    text = """
gpus:
  - {profile: h100-80gb, uuid: GPU-a, nvlinks: [switch, switch, switch]}
  - {profile: h100-80gb, uuid: GPU-b, nvlinks: [switch, down, switch]}
  - {profile: h100-80gb, uuid: GPU-c, nvlinks: [switch, switch, switch]}
"""
    found = links(text)
    assert {pair: each.nvlinks for pair, each in found.items()} == {
        "GPU-a GPU-b": 2,
        "GPU-a GPU-c": 3,
        "GPU-b GPU-c": 2,
    }
    old = links(f"missing: [nvmlDeviceGetNvLinkRemoteDeviceType]\n{text}")
    assert {each.nvlinks for each in old.values()} == {0}


def test_no_nvlink() -> None:
    """GPUs without NVLink are still more or less near to one another."""
    (found,) = links("gpus: [{profile: t4, count: 2}]").values()
    assert (found.nearness, found.nvlinks) == (Nearness.HOST_BRIDGE, 0)
    text = "missing: [nvmlDeviceGetTopologyCommonAncestor]\ngpus: [{profile: t4, count: 2}]"
    (found,) = links(text).values()
    assert found.nearness is None


def test_a_gpu_that_fails() -> None:
    """Pairs with it are left out, the others are there."""
    text = """
gpus:
  - {profile: t4, uuid: GPU-a, errors: {nvmlDeviceGetNvLinkState: GPU_IS_LOST}}
  - {profile: t4, uuid: GPU-b}
  - {profile: t4, uuid: GPU-c}
"""
    assert list(links(text)) == ["GPU-b GPU-c"]
