"""A node whose device plugin answers, with files in a temporary directory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdi.cardspec import CardSpecStore
from cdi.compatibility import Compatibility
from cdi.edits import ContainerEdits, DeviceNode
from cdi.library import HookLibrary, LibraryStore
from cdi.regionstore import RegionStore
from gpu.model import GpuUuid
from gpu.refusal import Refusal
from hami.devices import PodDevice, RegisteredDevice
from hami.plugin.containers import ContainerStore
from hami.plugin.forms import ListStrategy, ResponseForm
from hami.plugin.limiting import LimitRules
from hami.plugin.model import Grant, Offer
from hami.plugin.responding import Responder
from tests.cdi.elves import shared_object

POD_UID = "0a1b2c3d-0000-4000-8000-000000000001"
TOTAL_MIB = 24576


def uuid_of(number: int) -> str:
    """Return the UUID of a GPU; the order of PCI bus ids is another than theirs."""
    return f"GPU-{9 - number}0000000-0000-4000-8000-00000000000{number}"


def card(number: int, *, cores: int = 100, memory_mib: int = TOTAL_MIB) -> RegisteredDevice:
    """Return a GPU of the node."""
    return RegisteredDevice(
        word="GPU",
        uuid=uuid_of(number),
        index=number,
        count=10,
        memory_mib=memory_mib,
        cores=cores,
        type="NVIDIA A10",
        numa=0,
        mode="hami-core",
        healthy=True,
    )


def part(number: int, memory_mib: int = 3000, cores: int = 30) -> PodDevice:
    """Return a part of a GPU."""
    return PodDevice(uuid=uuid_of(number), type="NVIDIA", memory_mib=memory_mib, cores=cores)


def whole(number: int, *, cores: int = 100) -> PodDevice:
    """Return a GPU that nobody else has a part of."""
    return part(number, TOTAL_MIB, cores)


def grant(*devices: PodDevice, container: str = "main") -> Grant:
    """Return a grant to a container of the pod."""
    return Grant(
        pod_uid=POD_UID, namespace="team", pod="trainer", container=container, devices=devices
    )


def nodes(*paths: str) -> ContainerEdits:
    """Return edits that make device nodes, which the host has below a root of their own."""
    return ContainerEdits(
        device_nodes=tuple(
            DeviceNode(
                path=path,
                host_path=f"/run/nvidia/driver{path}",
                type="c",
                major=195,
                minor=number,
                permissions="rw",
            )
            for number, path in enumerate(paths)
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What a scan of the driver's files has found."""

    common: ContainerEdits
    by_uuid: Mapping[GpuUuid, ContainerEdits | Refusal]


def edits(count: int = 4) -> Edits:
    """Return the edits of *count* GPUs."""
    return Edits(
        common=nodes("/dev/nvidiactl", "/dev/nvidia-uvm").model_copy(
            update={"env": ("NVIDIA_VISIBLE_DEVICES=void",)}
        ),
        by_uuid={
            GpuUuid(uuid_of(number)): nodes(f"/dev/nvidia{number}", f"/dev/dri/card{number}")
            for number in range(count)
        },
    )


@dataclass(slots=True, kw_only=True)
class Node:
    """A node with four GPUs; what is changed counts from the next answer on."""

    root: Path
    form: ResponseForm = field(default_factory=ResponseForm)
    rules: LimitRules = field(default_factory=LimitRules)
    offer: Offer | None = field(default_factory=lambda: Offer(cards=tuple(map(card, range(4)))))
    edits: Edits | None = field(default_factory=edits)
    compatibility: Compatibility | None = None
    with_lock: bool = False
    may_mount: bool = False

    @property
    def regions(self) -> RegionStore:
        """Where regions are kept."""
        return RegionStore(self.root / "regions", "/host/regions", may_mount=self.may_mount)

    @property
    def containers(self) -> ContainerStore:
        """What is kept of containers, as after a start."""
        return ContainerStore(self.root / "containers", self.regions, grace_s=0.0)

    @property
    def specs(self) -> CardSpecStore:
        """The node's CDI spec."""
        return CardSpecStore(self.root / "cdi")

    def library(self) -> HookLibrary:
        """Return the library of the node."""
        store = LibraryStore(self.root / "libraries", "/host/libraries")
        kept = store.keep(shared_object(), None)
        if self.compatibility is None:
            return kept
        return replace(kept, compatibility=self.compatibility)

    def responder(self) -> Responder:
        """Return what answers for this node."""
        return Responder(
            form=self.form,
            rules=lambda: self.rules,
            offers=lambda: self.offer,
            edits=lambda: self.edits,
            specs=self.specs,
            containers=self.containers,
            library=self.library,
            with_lock=self.with_lock,
        )


def form(*strategies: str, **more: Any) -> ResponseForm:
    """Return a form of *strategies*."""
    return ResponseForm(strategies=frozenset(map(ListStrategy, strategies)), **more)
