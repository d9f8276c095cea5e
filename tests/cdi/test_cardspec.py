"""The file that names the node's GPUs to the runtime."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cdi.cardspec import CardSpecStore, card_name, card_spec, edits_of
from cdi.edits import ContainerEdits, DeviceNode
from cdi.spec import Spec
from gpu.model import GpuUuid
from gpu.refusal import Refusal, RefusedError

FIRST = GpuUuid("GPU-11111111-1111-4111-8111-111111111111")
SECOND = GpuUuid("GPU-22222222-2222-4222-8222-222222222222")
LOST = GpuUuid("GPU-33333333-3333-4333-8333-333333333333")
REFUSAL = Refusal(code="DeviceNodeMissing", field="nvidiaDevRoot", value="/dev/nvidia2")


def node(path: str, minor: int) -> DeviceNode:
    """Return a device node."""
    return DeviceNode(path=path, type="c", major=195, minor=minor, permissions="rw")


def edits(*paths: str) -> ContainerEdits:
    """Return edits that make device nodes."""
    return ContainerEdits(
        device_nodes=tuple(node(path, number) for number, path in enumerate(paths))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What a scan has found."""

    common: ContainerEdits = field(default_factory=lambda: edits("/dev/nvidiactl"))
    by_uuid: Mapping[GpuUuid, ContainerEdits | Refusal]


def two() -> Edits:
    """Return two GPUs that can be had and one that cannot."""
    return Edits(
        by_uuid={SECOND: edits("/dev/nvidia1"), FIRST: edits("/dev/nvidia0"), LOST: REFUSAL}
    )


def test_every_gpu_that_can_be_had_has_its_name(tmp_path: Path) -> None:
    """Under a kind of our own, in a file that the library takes."""
    store = CardSpecStore(tmp_path)
    assert store.ensure(two())
    assert store.path.name == "k8s.gpuslice.io-card.json"
    spec = Spec.parse(store.path.read_bytes())
    assert spec.kind == "k8s.gpuslice.io/card"
    assert [device.name for device in spec.devices] == [FIRST, SECOND]
    assert [node.path for node in spec.container_edits.device_nodes] == ["/dev/nvidiactl"]
    assert card_name(FIRST) == f"k8s.gpuslice.io/card={FIRST}"


def test_file_is_written_when_it_has_to_be(tmp_path: Path) -> None:
    """Because it changes, is gone or was spoiled; else the runtime would read it for nothing."""
    store, found = CardSpecStore(tmp_path / "cdi"), two()
    assert store.ensure(found)
    assert not store.ensure(found)
    assert not store.ensure(two())
    store.path.write_bytes(b"{}")
    assert store.ensure(found)
    store.path.unlink()
    assert store.ensure(found)
    assert store.ensure(Edits(by_uuid={FIRST: edits("/dev/nvidia0")}))
    assert len(Spec.parse(store.path.read_bytes()).devices) == 1


def test_file_goes_with_the_last_gpu(tmp_path: Path) -> None:
    """A spec without devices is none."""
    store = CardSpecStore(tmp_path)
    store.ensure(two())
    assert not store.ensure(Edits(by_uuid={LOST: REFUSAL}))
    assert not store.path.exists()
    assert card_spec(Edits(by_uuid={})) is None


def test_gpu_that_cannot_be_had_says_why() -> None:
    """Its own reason, or that it is gone."""
    assert edits_of(two(), FIRST) == edits("/dev/nvidia0")
    with pytest.raises(RefusedError, match="DeviceNodeMissing"):
        edits_of(two(), LOST)
    with pytest.raises(RefusedError, match="DeviceGone"):
        edits_of(two(), "GPU-4")
    with pytest.raises(RefusedError, match="DeviceNameInvalid"):
        card_name("GPU 1")


def test_edits_that_may_not_be_written_are_refused(tmp_path: Path) -> None:
    """What all our specs are held against holds for this one."""
    common = ContainerEdits(env=("CUDA_VISIBLE_DEVICES=0",))
    with pytest.raises(RefusedError, match="SpecUnfit"):
        CardSpecStore(tmp_path).ensure(Edits(common=common, by_uuid=two().by_uuid))
    assert list(tmp_path.iterdir()) == []
