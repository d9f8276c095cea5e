"""Tests of MIG instances that are made for containers and destroyed with their pods."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdi import faults
from cdi.faults import FaultPoint
from gpu.miginstances import Place, make_compute_instance, make_gpu_instance
from gpu.model import GpuUuid, MigDevice
from gpu.nvml import Nvml
from gpu.refusal import RefusedError
from hami import keys
from hami.containers import all_containers
from hami.devices import MigAllocation, MigPlacement, PodDevice
from hami.migallocations import decode_mig_allocations, encode_mig_allocations
from hami.plugin.claimants import Claimant, Identity
from hami.plugin.granting import Realised
from hami.plugin.partitioning import Partitioner
from hami.plugin.partitionrecord import Partition, PartitionRecord
from hami.plugin.partitions import Partitions
from kube.errors import ConnectionFailedError
from kube.objects import ObjectKey
from tests.agent.crashing import OF_PARTITIONS
from tests.gpu.simulating import simulated

A, B = "GPU-a", "GPU-b"
GPUS = f"""
gpus:
  - {{profile: a100-40gb, uuid: {A}, mig: []}}
  - {{profile: a100-40gb, uuid: {B}, mig: []}}
"""


class Crash(BaseException):
    """The end of the process."""


@dataclass
class World:
    """A node with two GPUs on which MIG is on."""

    session: Nvml
    directory: Path
    boot: str = "boot-1"
    ended: set[str] = field(default_factory=set)
    answers: bool = True
    shows: bool = True

    def partitions(self) -> Partitions:
        """Return what an agent has after its start."""
        record = PartitionRecord(self.directory / "partitions.json", boot_id=self.boot)
        return Partitions(
            Partitioner(lambda: self.session, record),
            record,
            has_ended=self._has_ended,
            shown=self._shown,
        )

    def devices(self) -> list[MigDevice]:
        """Return the MIG devices that are there."""
        return [each for gpu in self.session.inventory().gpus for each in gpu.mig_devices]

    def uuids(self) -> list[str]:
        """Return their UUIDs."""
        return [each.uuid for each in self.devices()]

    def foreign(self, place: Place, *, whole: bool = True) -> None:
        """Make an instance as an administrator does."""
        handle = self.session.handles()[GpuUuid(A)]
        number = make_gpu_instance(self.session.call, handle, place)
        if whole:
            make_compute_instance(self.session.call, handle, place, number)

    def _has_ended(self, partition: Partition) -> bool:
        if not self.answers:
            raise ConnectionFailedError
        return partition.pod_uid in self.ended

    def _shown(self, uuids: frozenset[str]) -> bool:
        return self.shows and uuids <= set(self.uuids())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Yield a node."""
    with simulated(GPUS), Nvml() as session:
        session.inventory()
        yield World(session, tmp_path)
    faults.listen(lambda _point: None)


def place(
    profile: str = "3g.20gb",
    start: int = 4,
    size: int = 4,
    *,
    gpu: str = A,
    container: int = 0,
    device: int = 0,
) -> MigAllocation:
    """Return what the scheduler reserved."""
    return MigAllocation(
        container_index=container,
        device_index=device,
        gpu_uuid=gpu,
        profile=profile,
        placement=MigPlacement(start=start, size=size),
    )


def pod(*places: MigAllocation, uid: str = "uid-1", text: str | None = None) -> Claimant:
    """Return a pod with reserved places."""
    annotation = encode_mig_allocations(places) if text is None else text
    raw = {"spec": {"containers": [{"name": "app-0"}, {"name": "app-1"}]}}
    left = tuple(
        tuple(device(each.gpu_uuid) for each in places if each.container_index == index)
        for index in range(2)
    )
    return Claimant(
        identity=Identity(key=ObjectKey("default", "a"), uid=uid),
        resource_version="1",
        annotations={keys.MIG_ALLOCATIONS: annotation},
        containers=all_containers(raw),
        left=left,
    )


def device(gpu: str = A) -> PodDevice:
    """Return a device of a container."""
    return PodDevice(uuid=gpu, type="NVIDIA", memory_mib=19968, cores=43)


def realised(partitions: Partitions, claimant: Claimant, container: int = 0) -> Realised:
    """Return what a container gets."""
    return partitions.realise(claimant, container, claimant.left[container])


def refused(partitions: Partitions, claimant: Claimant, container: int = 0) -> str:
    """Return the code with which a container is refused."""
    with pytest.raises(RefusedError) as caught:
        realised(partitions, claimant, container)
    return caught.value.refusal.code


def identities(found: Realised) -> list[tuple[Any, ...]]:
    """Return what the pod's annotation says of its instances."""
    told = decode_mig_allocations(found.annotations[keys.MIG_ALLOCATIONS])
    assert isinstance(told, tuple)
    return [(each.mig_uuid, each.gpu_instance_id, each.compute_instance_id) for each in told]


def test_an_instance_is_made_where_it_was_reserved(world: World) -> None:
    """The container has its UUID, and the pod says which it is."""
    found = realised(world.partitions(), pod(place()))
    (made,) = world.devices()
    assert (made.parent_uuid, made.profile) == (A, "3g.20gb")
    (given,) = found.devices
    assert (given.uuid, given.memory_mib, given.cores) == (made.uuid, 19968, 43)
    assert identities(found) == [(made.uuid, made.gpu_instance_id, 0)]
    # The upper half is taken, the lower is not.
    assert refused(world.partitions(), pod(place("1g.5gb", 4, 1), uid="uid-2")) == (
        "PartitionsNotMade"
    )
    realised(world.partitions(), pod(place("3g.20gb", 0, 4), uid="uid-2"))


def test_several_instances_of_a_container(world: World) -> None:
    """Two may be on one GPU; each device has that of its GPU, whatever their order."""
    claimant = pod(
        place("1g.5gb", 6, 1, gpu=B, device=0),
        place("1g.5gb", 5, 1, device=1),
        place("1g.5gb", 6, 1, device=2),
    )
    found = world.partitions().realise(claimant, 0, [device(A), device(A), device(B)])
    parents = {each.uuid: each.parent_uuid for each in world.devices()}
    assert [parents[GpuUuid(each.uuid)] for each in found.devices] == [A, A, B]
    told = identities(found)
    assert [each.uuid for each in found.devices] == [told[1][0], told[2][0], told[0][0]]


def test_the_annotation_tells_of_all_containers(world: World) -> None:
    """What one container got before is there again when the other gets its own."""
    partitions = world.partitions()
    claimant = pod(place("1g.5gb", 6, 1), place("1g.5gb", 5, 1, container=1))
    first = realised(partitions, claimant)
    assert identities(first)[1] == (None, None, None)
    second = realised(partitions, claimant, 1)
    assert identities(second) == [identities(first)[0], identities(second)[1]]
    assert {each[0] for each in identities(second)} == set(world.uuids())


def test_a_second_call_gets_the_same(world: World) -> None:
    """Also after a restart of the agent."""
    claimant = pod(place())
    first = realised(world.partitions(), claimant)
    assert realised(world.partitions(), claimant) == first
    assert len(world.devices()) == 1


def test_an_init_container_shares_the_place(world: World) -> None:
    """The scheduler gives it again to a container that comes after."""
    claimant = pod(place(), place(container=1))
    partitions = world.partitions()
    first, second = realised(partitions, claimant), realised(partitions, claimant, 1)
    assert first.devices == second.devices
    assert [each[0] for each in identities(second)] == world.uuids() * 2
    world.ended.add("uid-1")
    partitions.reconcile()
    assert world.devices() == []


@pytest.mark.parametrize(
    ("claimant", "code"),
    [
        (pod(place(), text=""), "PartitionsNotReserved"),
        (pod(place(), text="[{]"), "PartitionsNotReserved"),
        (pod(place(), text=encode_mig_allocations([place(gpu=B)])), "PartitionsNotReserved"),
        (pod(place(start=1)), "PartitionsNotMade"),
        (pod(place("9g.80gb")), "PartitionsNotMade"),
        (pod(place(gpu="GPU-none")), "PartitionsNotMade"),
    ],
)
def test_what_is_refused(world: World, claimant: Claimant, code: str) -> None:
    """Nothing is made then."""
    partitions = world.partitions()
    assert refused(partitions, claimant) == code
    assert world.devices() == []


def test_all_or_nothing(world: World) -> None:
    """If the second instance cannot be had, the first is taken back."""
    claimant = pod(place("1g.5gb", 6, 1), place("3g.20gb", 4, 4, device=1))
    assert refused(world.partitions(), claimant) == "PartitionsNotMade"
    assert world.devices() == []
    realised(world.partitions(), pod(place(), uid="uid-2"))


def test_an_instance_that_is_not_shown_is_taken_back(world: World) -> None:
    """The container could not be told of it."""
    world.shows = False
    assert refused(world.partitions(), pod(place())) == "PartitionsNotRead"
    assert world.devices() == []


def test_instances_go_with_their_pods(world: World) -> None:
    """One of a pod that lives stays; an error of the API keeps all."""
    partitions = world.partitions()
    realised(partitions, pod(place()))
    (kept,) = realised(partitions, pod(place(gpu=B), uid="uid-2")).devices
    partitions.reconcile()
    assert len(world.devices()) == 2
    world.ended, world.answers = {"uid-1"}, False
    partitions.reconcile()
    assert len(world.devices()) == 2
    world.answers = True
    partitions.reconcile()
    assert world.uuids() == [kept.uuid]


def test_a_place_of_an_ended_pod_is_made_anew(world: World) -> None:
    """The next pod need not wait for the loop, and gets nothing that another had."""
    partitions = world.partitions()
    first = realised(partitions, pod(place()))
    world.ended.add("uid-1")
    second = realised(partitions, pod(place("1g.5gb", 4, 1), uid="uid-2"))
    assert world.uuids() == [second.devices[0].uuid]
    assert second.devices != first.devices


def test_instances_of_others_are_never_touched(world: World) -> None:
    """Neither for room, nor in the loop, nor where there is one at a place that was reserved."""
    world.foreign(Place(slices="3g", start=4, size=4))
    before = world.uuids()
    partitions = world.partitions()
    world.ended.add("uid-1")
    assert refused(partitions, pod(place())) == "PartitionsNotMade"
    assert refused(partitions, pod(place("1g.5gb", 6, 1))) == "PartitionsNotMade"
    partitions.reconcile()
    world.partitions().reconcile()
    assert world.uuids() == before


def test_an_instance_that_another_put_in_place_of_ours(world: World) -> None:
    """The numbers are the same and the UUID is not: it is forgotten, and stays."""
    partitions = world.partitions()
    realised(partitions, pod(place()))
    (ours,) = world.devices()
    call, handle = world.session.call, world.session.handles()[GpuUuid(A)]
    instance = call("nvmlDeviceGetGpuInstanceById", handle, ours.gpu_instance_id)
    call("nvmlComputeInstanceDestroy", call("nvmlGpuInstanceGetComputeInstanceById", instance, 0))
    call("nvmlGpuInstanceDestroy", instance)
    world.foreign(Place(slices="3g", start=4, size=4))
    (other,) = world.devices()
    assert other.gpu_instance_id == ours.gpu_instance_id
    world.ended.add("uid-1")
    partitions.reconcile()
    world.partitions().reconcile()
    assert world.devices() == [other]


def test_another_boot_forgets_everything(world: World) -> None:
    """Whoever made what is there now, it was not this agent."""
    realised(world.partitions(), pod(place()))
    world.boot = "boot-2"
    world.ended.add("uid-1")
    world.partitions().reconcile()
    assert len(world.devices()) == 1


def test_a_record_that_cannot_be_read(world: World) -> None:
    """Nothing is made and nothing destroyed until somebody has looked."""
    realised(world.partitions(), pod(place()))
    (world.directory / "partitions.json").write_text("{", encoding="utf-8")
    world.ended.add("uid-1")
    partitions = world.partitions()
    partitions.reconcile()
    assert refused(partitions, pod(place(gpu=B), uid="uid-2")) == "PartitionRecordUnreadable"
    assert len(world.devices()) == 1


@pytest.mark.parametrize("write", range(1, 7))
def test_a_crash_leaves_nothing_behind(world: World, write: int) -> None:
    """Wherever it comes, the next agent destroys what was made, once the pod has ended."""
    left = write

    def count(point: FaultPoint) -> None:
        nonlocal left
        if point in OF_PARTITIONS:
            left -= 1
            if left == 0:
                # A process that is gone takes nothing back.
                world.session.close()
                raise Crash

    faults.listen(count)
    with pytest.raises(Crash):
        realised(world.partitions(), pod(place()))
    faults.listen(lambda _point: None)
    world.session.open()
    world.session.inventory()
    partitions = world.partitions()
    partitions.prepare()
    partitions.reconcile()
    world.ended.add("uid-1")
    partitions.reconcile()
    assert world.devices() == []
    realised(partitions, pod(place(), uid="uid-2"))
    assert [each.name for each in world.directory.iterdir()] == ["partitions.json"]


@pytest.mark.parametrize(
    "call", ["nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceGetInfo_v2"]
)
def test_half_an_instance_is_taken_back(tmp_path: Path, call: str) -> None:
    """What fails after the GPU instance was made leaves none."""
    text = f"gpus: [{{profile: a100-40gb, uuid: {A}, mig: [], errors: {{{call}: UNKNOWN}}}}]"
    with simulated(text) as path, Nvml() as session:
        session.inventory()
        world = World(session, tmp_path)
        assert refused(world.partitions(), pod(place())) == "PartitionsNotMade"
        path.write_text(text.replace(f"{call}: UNKNOWN", ""), encoding="utf-8")
        realised(world.partitions(), pod(place()))


def test_what_is_in_use_is_destroyed_later(tmp_path: Path) -> None:
    """A program that has not ended yet keeps its instance, and the record of it."""
    busy = "nvmlGpuInstanceDestroy: IN_USE"
    text = f"gpus: [{{profile: a100-40gb, uuid: {A}, mig: [], errors: {{}}}}]"
    with simulated(text) as path, Nvml() as session:
        session.inventory()
        world = World(session, tmp_path, ended={"uid-1"})
        partitions = world.partitions()
        realised(partitions, pod(place()))
        path.write_text(text.replace("errors: {}", f"errors: {{{busy}}}"), encoding="utf-8")
        partitions.reconcile()
        path.write_text(text, encoding="utf-8")
        partitions.reconcile()
        realised(partitions, pod(place(), uid="uid-2"))
