"""What a device says about itself, in the form that the API server takes."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.attributes import attributes_of, semver, short_text
from gpu.model import GpuUuid
from tests.dra.gpus import GPU, MIG

STANDARD = "resource.kubernetes.io/"


@pytest.mark.parametrize(
    ("raw", "published"),
    [
        ("580.65.06", "580.65.6"),
        ("580.126.09-grid", "580.126.9"),
        ("8.9", "8.9.0"),
        ("13", "13.0.0"),
        ("470.82.01.02", "470.82.1"),
        ("", "0.0.0"),
        ("R580", "0.0.0"),
        ("99999999999999999999.1", "0.0.0"),
        ("٣.1", "0.0.0"),
    ],
)
def test_versions_become_semver(raw: str, published: str) -> None:
    """A driver's version loses leading zeros, and nonsense becomes 0.0.0."""
    assert semver(raw) == published


@given(st.text(max_size=40))
def test_every_version_is_semver(raw: str) -> None:
    """Whatever the driver reports is published as three plain numbers."""
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", semver(raw))


@given(st.text(max_size=120))
def test_every_text_fits(raw: str) -> None:
    """Texts hold at most 64 bytes and are never empty."""
    published = short_text(raw)
    assert 1 <= len(published.encode()) <= 64


def test_long_names_are_cut_with_a_tail_of_their_own() -> None:
    """Two long names that begin alike stay different, and a cut never splits a character."""
    long = "NVIDIA GeForce RTX Example Super Long Marketing Name Edition With More Than 64"
    first, second = short_text(long + " A"), short_text(long + " B")
    assert first != second
    assert first.startswith("NVIDIA GeForce RTX Example Super")
    assert len(first.encode()) == 64
    assert short_text("é" * 40).startswith("é" * 26 + "-")


def test_own_attributes_are_the_same_set_everywhere() -> None:
    """A GPU, a partition and a GPU that tells nothing carry the same names of ours."""
    mute = replace(
        GPU,
        name="",
        brand="",
        architecture="",
        compute_capability="",
        driver_version="",
        cuda_driver_version="",
        numa_node=None,
        pcie_root=None,
    )
    sets = [
        {key for key in attributes if not key.startswith(STANDARD)}
        for attributes in (
            attributes_of(GPU, "shared"),
            attributes_of(GPU, "mig", MIG),
            attributes_of(mute, "exclusive"),
        )
    ]
    assert sets[0] == sets[1] == sets[2]
    assert attributes_of(mute, "exclusive")["brand"] == {"string": "unknown"}


def test_unknown_topology_is_absent() -> None:
    """No made-up NUMA node or PCIe root can align two devices."""
    lost = replace(GPU, numa_node=-1, pcie_root=None)
    assert STANDARD + "numaNode" not in attributes_of(lost, "shared")
    assert STANDARD + "pcieRoot" not in attributes_of(lost, "shared")
    found = attributes_of(GPU, "shared")
    assert found[STANDARD + "numaNode"] == {"int": 1}
    assert found[STANDARD + "pcieRoot"] == {"string": "pci0000:00"}
    assert found[STANDARD + "pciBusID"] == {"string": "0000:03:00.0"}


def test_a_partition_has_the_topology_of_its_gpu() -> None:
    """A MIG device carries its GPU's place and UUID beside its own."""
    mine = attributes_of(GPU, "mig", MIG)
    assert mine["uuid"] == {"string": MIG.uuid}
    assert mine["parentUUID"] == {"string": GPU.uuid}
    assert mine["profile"] == {"string": "1g.10gb"}
    assert mine[STANDARD + "numaNode"] == {"int": 1}


def test_strangers_share_no_parent() -> None:
    """Two whole GPUs have different parents, so that matching parents keeps them apart."""
    other = replace(GPU, uuid=GpuUuid("GPU-other"))
    ours, theirs = attributes_of(GPU, "shared"), attributes_of(other, "shared")
    assert ours["parentUUID"] != theirs["parentUUID"]
