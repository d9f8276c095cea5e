"""Who holds what, by the words of claims, pods, annotations and kubelet."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dra.record import PreparedClaim
from gpu.model import GpuUuid
from hami.devices import MigAllocation, MigPlacement, PodDevice
from hami.migallocations import encode_mig_allocations
from hami.monitor.holders import ALLOCATED, HeldDevice, Holder, Mode, Regions, holders, told_by
from hami.monitor.places import Owner, PluginRegions, directory_of, owner_of
from hami.monitor.podresources import ContainerResources, HeldClaim, HeldClaimDevice
from hami.monitor.pods import ClaimUse, NodeContainer, NodePod, read_node_pod
from hami.poddevices import encode_pod_devices
from tests.hami.monitor.nodes import GPU, GPU_B, claim, pod, pod_uid, prepared_device, told

ROOT = Path("/regions")


def found(
    pods: Iterable[NodePod],
    claims: Iterable[PreparedClaim] = (),
    said: Iterable[ContainerResources] = (),
    limited: Iterable[Owner] = (),
) -> tuple[Holder, ...]:
    """Return the holders; *limited* containers of the plugin's have a region."""
    owners = frozenset(limited)
    regions = Regions(
        lambda uid: ROOT / uid,
        lambda owner: ROOT / directory_of(owner) if owner in owners else None,
    )
    plugin = frozenset({"nvidia.com/gpu"})
    return holders(pods, claims, told_by(said), regions=regions, resources=plugin)


def test_a_share_by_a_claim() -> None:
    """By the pod's spec alone, as an older kubelet tells nothing of claims."""
    (holder,) = found([pod(claim="claim-1")], [claim()])
    assert (holder.container, holder.claim, holder.running) == ("main", "claim-1", True)
    assert holder.region == ROOT / "claim-1"
    assert holder.devices == (
        HeldDevice(
            uuid=GPU,
            parent_uuid=GPU,
            mode=Mode.SHARE,
            share_id="share-1",
            memory_mib=3000,
            cores_percent=30,
        ),
    )


def test_kinds_of_devices() -> None:
    """A whole GPU, a partition and administrative access are granted without a size."""
    mig = GpuUuid("MIG-aa000000-1111-2222-3333-000000bb0000")
    devices = (
        prepared_device(dedicated=True, share_id=None),
        prepared_device(uuid=mig, parent_uuid=GpuUuid(GPU), dedicated=True, share_id=None),
        prepared_device(admin=True, share_id=None),
    )
    (holder,) = found([pod(claim="claim-1")], [claim(devices=devices, limits=(), options=None)])
    assert [each.mode for each in holder.devices] == [Mode.WHOLE, Mode.MIG, Mode.ADMIN]
    assert {each.memory_mib for each in holder.devices} == {None}
    assert {each.parent_uuid for each in holder.devices} == {GPU}
    assert holder.region is None


def two_requests(*requests: str | None) -> tuple[NodePod, PreparedClaim]:
    """Return a pod that uses a claim of two requests in these ways."""
    devices = (
        prepared_device(request="one"),
        prepared_device(uuid=GPU_B, request="two", share_id="share-2"),
    )
    uses = tuple(ClaimUse(claim="claim-1", request=each) for each in requests)
    container = NodeContainer(name="main", running=True, claims=uses)
    return replace(pod(), containers=(container,)), claim(devices=devices)


def test_a_container_may_use_one_request_of_a_claim() -> None:
    """Its spec says which, by name or by an alternative's; without a name it has all."""
    for requests, uuids in (
        (("two",), [GPU_B]),
        (("two/large",), [GPU_B]),
        ((None,), [GPU, GPU_B]),
        (("one", "two"), [GPU, GPU_B]),
        (("three",), []),
    ):
        user, prepared = two_requests(*requests)
        held = [each.uuid for holder in found([user], [prepared]) for each in holder.devices]
        assert held == uuids


def kubelet_says(
    *devices: tuple[str, str | None], driver: str = "gpuslice.io"
) -> ContainerResources:
    """Return kubelet's word on the claim of a container."""
    held = tuple(
        HeldClaimDevice(driver=driver, pool="node-1", device=device, share_id=share)
        for device, share in devices
    )
    return ContainerResources(
        namespace="team",
        pod="pod-1",
        container="main",
        device_ids={},
        claims=(HeldClaim(namespace="team", name="claim-1", devices=held),),
    )


def test_kubelet_knows_best_which_devices() -> None:
    """What it has given is what counts, and what it tells of another driver does not."""
    user, prepared = two_requests(None)
    said = kubelet_says((GPU_B.lower(), "share-2"))
    (holder,) = found([user], [prepared], [said])
    assert [each.uuid for each in holder.devices] == [GPU_B]
    said = kubelet_says((GPU_B.lower(), "share-2"), driver="gpu.example.com")
    (holder,) = found([user], [prepared], [said])
    assert len(holder.devices) == 2


def test_kubelet_knows_claims_that_no_spec_names() -> None:
    """One that the scheduler made for an extended resource."""
    (holder,) = found([pod()], [claim()], [kubelet_says((GPU.lower(), "share-1"))])
    assert holder.claim == "claim-1"


def test_an_earlier_claim_of_the_same_name() -> None:
    """It is still being taken back while the pod of the next one starts."""
    earlier = claim(1, uid="earlier", pod_uids=(pod_uid(77),))
    (holder,) = found([pod(claim="claim-1")], [earlier, claim()])
    assert holder.region == ROOT / "claim-1"
    assert found([pod(2, claim="claim-1")], [earlier, claim()]) == ()


def annotated(*slots: tuple[PodDevice, ...], **more: str) -> dict[str, str]:
    """Return the annotations of a pod that was given these devices."""
    return {ALLOCATED: encode_pod_devices(slots), **more}


def given(uuid: str = GPU, memory_mib: int = 3000, cores: int = 30) -> PodDevice:
    """Return a device as an annotation has it."""
    return PodDevice(uuid=uuid, type="NVIDIA", memory_mib=memory_mib, cores=cores)


def test_a_share_from_the_plugin() -> None:
    """By the annotation, in the place of the container; kubelet's id may be of another GPU."""
    owner = Owner(pod_uid(1), "main")
    init = NodeContainer(name="init", running=False)
    user = pod(annotations=annotated((), (given(),)))
    user = replace(user, containers=(init, *user.containers))
    said = told("pod-1", "main", {"nvidia.com/gpu": [f"{GPU_B}-3"]})
    (holder,) = found([user], said=[said], limited=[owner])
    assert (holder.container, holder.claim) == ("main", "")
    assert holder.region == ROOT / directory_of(owner)
    (device,) = holder.devices
    assert (device.uuid, device.mode, device.memory_mib) == (GPU, Mode.SHARE, 3000)


def test_a_whole_gpu_from_the_plugin() -> None:
    """It has no region, and is known by its annotation, or else by kubelet's id."""
    (holder,) = found([pod(annotations=annotated((given(memory_mib=24000, cores=100),)))])
    assert [each.mode for each in holder.devices] == [Mode.WHOLE]
    said = told("pod-1", "main", {"nvidia.com/gpu": [f"{GPU}-0", f"{GPU}-1"], "other/x": ["1"]})
    (holder,) = found([pod()], said=[said])
    assert [(each.uuid, each.mode) for each in holder.devices] == [(GPU, Mode.WHOLE)]
    spoiled = pod(annotations={ALLOCATED: "nothing that can be read"})
    (holder,) = found([spoiled], said=[said])
    assert [each.uuid for each in holder.devices] == [GPU]
    assert found([pod()]) == ()


def test_a_partition_from_the_plugin() -> None:
    """Its UUID is in an annotation of its own."""
    mig = "MIG-aa000000-1111-2222-3333-000000bb0000"
    allocation = MigAllocation(
        container_index=0,
        device_index=0,
        gpu_uuid=GPU,
        profile="1g.5gb",
        placement=MigPlacement(start=0, size=1),
        mig_uuid=mig,
        gpu_instance_id=7,
        compute_instance_id=0,
    )
    text = encode_mig_allocations([allocation])
    more = {"hami.io/vgpu-mig-allocations": text}
    (holder,) = found([pod(annotations=annotated((given(),)) | more)])
    (device,) = holder.devices
    assert (device.uuid, device.parent_uuid, device.mode) == (mig, GPU, Mode.MIG)
    assert device.instance == allocation
    (holder,) = found([pod(annotations=annotated((given(uuid=f"{GPU}[1-0]"),)))])
    (device,) = holder.devices
    assert (device.uuid, device.mode) == (GPU, Mode.MIG)


def test_names_of_directories() -> None:
    """A UID and a container's name, and nothing else."""
    owner = Owner(pod_uid(1), "a-b")
    assert owner_of(directory_of(owner)) == owner
    for name in ("x_main", f"{pod_uid(1)}", f"{pod_uid(1)}_", f"{pod_uid(1)}_a_b", "..", ".tmp"):
        assert owner_of(name) is None


def test_regions_of_the_plugin(tmp_path: Path) -> None:
    """The agent's own name first, else a cache as HAMi's layout has it, and never a link."""
    regions, owner = PluginRegions(tmp_path), Owner(pod_uid(1), "main")
    assert PluginRegions(None).owners() == ()
    assert PluginRegions(tmp_path / "absent").owners() == ()
    assert regions.region(owner) is None
    directory = tmp_path / directory_of(owner)
    directory.mkdir()
    (tmp_path / f"{pod_uid(2)}_main").symlink_to(directory)
    (tmp_path / "notes").mkdir()
    assert regions.owners() == (owner,)
    assert regions.region(owner) is None
    (directory / "link.cache").symlink_to("/etc/passwd")
    (directory / "x.libvgpu.so.cache").touch()
    (directory / ".region.cache.tmp").touch()
    assert regions.region(owner) is None
    (directory / "b.cache").touch()
    (directory / "c.cache").touch()
    assert regions.region(owner) == directory / "b.cache"
    (directory / "region.cache").touch()
    assert regions.region(owner) == directory / "region.cache"


def raw_pod(**status: Any) -> dict[str, Any]:
    """Return a pod as the API server tells it."""
    return {
        "metadata": {"uid": "u", "namespace": "team", "name": "p", "annotations": {"a": "b"}},
        "spec": {
            "initContainers": [{"name": "init"}],
            "containers": [
                {
                    "name": "main",
                    "resources": {"claims": [{"name": "gpu", "request": "one"}, {"name": "gone"}]},
                },
                {"name": "side"},
            ],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "direct"},
                {"name": "gone", "resourceClaimTemplateName": "t"},
            ],
        },
        "status": status,
    }


def test_a_pod_as_the_server_tells_it() -> None:
    """Its containers in order, which of them run, and the claims that they use."""
    statuses = [{"name": "main", "state": {"running": {}}}, {"name": "side", "state": {}}]
    read = read_node_pod(
        raw_pod(
            phase="Running",
            containerStatuses=statuses,
            resourceClaimStatuses=[{"name": "gone", "resourceClaimName": "made"}],
            extendedResourceClaimStatus={
                "resourceClaimName": "extended",
                "requestMappings": [
                    {"containerName": "side", "resourceName": "x/gpu", "requestName": "r0"}
                ],
            },
        )
    )
    assert [(each.name, each.running) for each in read.containers] == [
        ("init", False),
        ("main", True),
        ("side", False),
    ]
    assert read.containers[1].claims == (
        ClaimUse(claim="direct", request="one"),
        ClaimUse(claim="made"),
    )
    assert read.containers[2].claims == (ClaimUse(claim="extended", request="r0"),)
    assert read.annotations == {"a": "b"}
    assert read.reference().uid == "u"
    ended = read_node_pod(raw_pod(phase="Succeeded", containerStatuses=statuses))
    assert not any(each.running for each in ended.containers)
    bare = read_node_pod({"metadata": {"uid": "u", "name": "p"}})
    assert bare.containers == ()
