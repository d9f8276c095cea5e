"""What a container is limited to, and how kubelet is told."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cdi.compatibility import Compatibility, Source, by_release
from cdi.library import HookLibrary
from cdi.region import RegionLayout
from gpu.refusal import Refusal, RefusedError
from hami.devices import PodDevice
from hami.plugin.granting import check_answer
from hami.plugin.limiting import LimitRules, by_gpu, limits_of
from hami.plugin.model import Grant, Offer
from hami.plugin.responding import LOCK_PATH, Responder
from protos import deviceplugin_v1beta1_pb2 as api
from tests.agent.crashing import needs_mounts
from tests.hami.plugin.responses import (
    POD_UID,
    TOTAL_MIB,
    Node,
    card,
    edits,
    form,
    grant,
    part,
    uuid_of,
    whole,
)

OWNER = f"{POD_UID}_main"
PRELOAD = "/etc/ld.so.preload"


def mounts(answer: api.ContainerAllocateResponse) -> dict[str, tuple[str, bool]]:
    """Return host path and whether it is read-only, by path in the container."""
    found = {each.container_path: (each.host_path, each.read_only) for each in answer.mounts}
    assert len(found) == len(answer.mounts)
    return found


def is_limited(answer: api.ContainerAllocateResponse) -> bool:
    """Tell whether the library is loaded and has limits; it has both or neither."""
    limits = [name for name in answer.envs if "LIMIT" in name or "SHARED_CACHE" in name]
    is_loaded = PRELOAD in mounts(answer)
    assert is_loaded == bool(limits)
    return is_loaded


def test_share_has_its_limits(tmp_path: Path) -> None:
    """Memory and cores of each GPU by its place, one file to write, the library read-only."""
    node = Node(root=tmp_path)
    answer = node.responder().respond(grant(part(0, 3000, 30), part(2, 1024, 0)))
    library = node.library()
    assert dict(answer.envs) == {
        "NVIDIA_VISIBLE_DEVICES": f"{uuid_of(0)},{uuid_of(2)}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/run/gpuslice/region.cache",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT_0": "30",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "1024m",
        "CUDA_DEVICE_SM_LIMIT_1": "100",
    }
    assert mounts(answer) == {
        "/run/gpuslice/region.cache": (f"/host/regions/{OWNER}/region.cache", False),
        "/usr/local/vgpu/libvgpu.so": (f"/host/libraries/{library.sha256}/libvgpu.so", True),
        PRELOAD: (f"/host/libraries/{library.sha256}/ld.so.preload", True),
    }
    assert node.regions.owners() == {OWNER}
    assert (tmp_path / "regions" / OWNER / "region.cache").is_file()


def test_nothing_but_the_region_can_be_written(tmp_path: Path) -> None:
    """No directory of the host's, no lock that all share, and nothing of HAMi's layout."""
    answer = Node(root=tmp_path).responder().respond(grant(part(0)))
    writable = [path for path, (_, read_only) in mounts(answer).items() if not read_only]
    assert writable == ["/run/gpuslice/region.cache"]
    assert (tmp_path / "regions" / OWNER / "region.cache").stat().st_size == 2008953


@pytest.mark.parametrize("device", [whole(1), whole(1, cores=0)])
def test_whole_gpu_has_none(tmp_path: Path, device: PodDevice) -> None:
    """No library in programs that share with nobody, and no files for them."""
    node = Node(root=tmp_path)
    answer = node.responder().respond(grant(device))
    assert not is_limited(answer)
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": uuid_of(1)}
    assert not answer.mounts
    assert sorted(path.name for path in tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "device", [part(1, TOTAL_MIB - 1, 100), part(1, TOTAL_MIB, 99), part(1, 1, 0)]
)
def test_almost_a_whole_gpu_is_a_share(tmp_path: Path, device: PodDevice) -> None:
    """One MiB or one percent less, and somebody else may be there."""
    assert is_limited(Node(root=tmp_path).responder().respond(grant(device)))


def test_scaled_gpu_is_whole_with_all_that_was_registered(tmp_path: Path) -> None:
    """What a node calls the whole decides, not what the GPU has."""
    scaled = Offer(cards=(card(0, cores=200, memory_mib=2 * TOTAL_MIB),))
    responder = Node(root=tmp_path, offer=scaled).responder()
    assert is_limited(responder.respond(grant(part(0, TOTAL_MIB, 100))))
    assert not is_limited(responder.respond(grant(part(0, 2 * TOTAL_MIB, 100))))
    answer = responder.respond(grant(part(0, TOTAL_MIB, 150)))
    assert answer.envs["CUDA_DEVICE_SM_LIMIT_0"] == "100"


def test_share_beside_a_whole_gpu_limits_both(tmp_path: Path) -> None:
    """A GPU without a limit of its own would show no memory at all."""
    answer = Node(root=tmp_path).responder().respond(grant(whole(0), part(1)))
    assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{TOTAL_MIB}m"
    assert answer.envs["CUDA_DEVICE_SM_LIMIT_0"] == "100"
    assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_1"] == "3000m"


def test_partition_has_none(tmp_path: Path) -> None:
    """The hardware limits it; kubelet's own pods of partitions have no name here."""
    uuid = "MIG-11111111-1111-4111-8111-111111111111"
    device = PodDevice(uuid=uuid, type="NVIDIA", memory_mib=4864, cores=14)
    nameless = Grant(pod_uid="", namespace="", pod="", container="", devices=(device,))
    answer = Node(root=tmp_path).responder().respond(nameless)
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": uuid}
    assert not answer.mounts


def test_two_shares_of_one_gpu_are_one_gpu(tmp_path: Path) -> None:
    """Its container sees it once, with the sum of both."""
    devices = (part(1, 1000, 20), part(0, 500, 90), part(1, 2000, 30), part(0, 500, 90))
    answer = Node(root=tmp_path).responder().respond(grant(*devices))
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == f"{uuid_of(1)},{uuid_of(0)}"
    limits = {name: value for name, value in answer.envs.items() if "LIMIT" in name}
    assert limits == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT_0": "50",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "1000m",
        "CUDA_DEVICE_SM_LIMIT_1": "100",
    }
    assert by_gpu(grant(part(0, 1, 20), part(0, 1, 0)))[0].cores == 0


def test_many_devices_do_not_blow_up_the_environment(tmp_path: Path) -> None:
    """Thousands of parts of a few GPUs name each of them once."""
    devices = [part(number % 4, 1, 0) for number in range(4000)]
    answer = Node(root=tmp_path).responder().respond(grant(*devices))
    assert sum(len(f"{name}={value}") + 1 for name, value in answer.envs.items()) < 4096
    check_answer([answer])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, TOTAL_MIB), st.integers(0, 100)),
        min_size=1,
        max_size=6,
    )
)
def test_no_limit_is_ever_nothing(parts: list[tuple[int, int, int]]) -> None:
    """0 is what the library reads as "none"; a container has limits for all GPUs, or for none."""
    granted = grant(*(part(*each) for each in parts))
    cards = {each.uuid: each for each in map(card, range(4))}
    limits = limits_of(granted, cards, LimitRules())
    if limits is None:
        assert all(each.memory_mib >= TOTAL_MIB for each in by_gpu(granted))
        return
    assert len(limits) == len({number for number, _, _ in parts})
    assert all(each.memory_mib > 0 and 0 < each.cores_percent <= 100 for each in limits)


@pytest.mark.parametrize(
    ("namespaces", "limited"),
    [((), True), (("other",), True), (("team",), False), (("*",), False)],
)
def test_opting_out_is_for_namespaces_that_may(
    tmp_path: Path, namespaces: tuple[str, ...], *, limited: bool
) -> None:
    """An unlimited container among limited ones eats their memory; one that may not is told."""
    rules = LimitRules(unlimited_namespaces=frozenset(namespaces))
    responder = Node(root=tmp_path, rules=rules).responder()
    asking = replace(grant(part(0)), disables_control=True)
    with capture_logs() as logs:
        answer = responder.respond(asking)
    assert is_limited(answer) is limited
    said = [each["event"] for each in logs]
    assert said == (["limits kept although the container asks for none"] if limited else [])
    assert is_limited(responder.respond(grant(part(0))))


def test_options_of_the_library_are_the_administrators(tmp_path: Path) -> None:
    """Priority comes with the pod, the rest from the configuration of the moment."""
    node = Node(root=tmp_path)
    responder = node.responder()
    node.rules = LimitRules(log_level=3, core_policy="disable")
    answer = responder.respond(replace(grant(part(0)), priority=0))
    assert answer.envs["CUDA_TASK_PRIORITY"] == "0"
    assert answer.envs["LIBCUDA_LOG_LEVEL"] == "3"
    assert answer.envs["GPU_CORE_UTILIZATION_POLICY"] == "DISABLE"
    node.rules = LimitRules()
    names = responder.respond(grant(part(0))).envs
    assert not {"CUDA_TASK_PRIORITY", "LIBCUDA_LOG_LEVEL"} & set(names)
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_OVERSUBSCRIBE", "LD_PRELOAD"} & set(names)


@pytest.mark.parametrize(
    ("granted", "code"),
    [
        (grant(part(0, 0)), "MemoryLimitInvalid"),
        (grant(PodDevice(uuid="GPU-x", type="NVIDIA", memory_mib=1, cores=1)), "DeviceGone"),
        (grant(part(0), replace(part(0), uuid="GPU-x")), "DeviceGone"),
        (replace(grant(part(0)), priority=7), "PriorityInvalid"),
        (replace(grant(part(0)), pod_uid="../../etc"), "ContainerNameInvalid"),
        (replace(grant(part(0)), container="a/b"), "ContainerNameInvalid"),
        (replace(grant(part(0)), container=""), "ContainerNameInvalid"),
    ],
)
def test_what_cannot_be_limited_is_refused(tmp_path: Path, granted: Grant, code: str) -> None:
    """Before anything is written."""
    with pytest.raises(RefusedError, match=code):
        Node(root=tmp_path).responder().respond(granted)
    assert not (tmp_path / "regions").exists()
    assert not (tmp_path / "containers").exists()


def test_more_gpus_than_the_library_knows_are_refused(tmp_path: Path) -> None:
    """It would write over its own limits."""
    offer = Offer(cards=tuple(card(number) for number in range(17)))
    with pytest.raises(RefusedError, match="TooManyDevices"):
        Node(root=tmp_path, offer=offer).responder().respond(
            grant(*(part(number) for number in range(17)))
        )


def test_share_without_a_library_is_refused(tmp_path: Path) -> None:
    """And a whole GPU is not."""
    node = Node(root=tmp_path)

    def missing() -> HookLibrary:
        raise RefusedError(Refusal(code="LibraryMissing", field="node", value="libvgpu.so"))

    responder = Responder(
        form=node.form,
        rules=lambda: node.rules,
        offers=lambda: node.offer,
        edits=lambda: node.edits,
        specs=node.specs,
        containers=node.containers,
        library=missing,
    )
    with pytest.raises(RefusedError, match="LibraryMissing"):
        responder.respond(grant(part(0)))
    responder.respond(grant(whole(0)))


def test_file_system_that_fails_is_a_refusal(tmp_path: Path) -> None:
    """Kubelet hears the reason."""
    (tmp_path / "containers").touch()
    with pytest.raises(RefusedError, match="NotADirectory"):
        Node(root=tmp_path).responder().respond(grant(part(0)))


def test_region_has_the_size_of_the_librarys_layout(tmp_path: Path) -> None:
    """By its manifest or its release."""
    node = Node(root=tmp_path, compatibility=by_release("v2.8.1"))
    assert by_release("v2.8.1").layout is RegionLayout.V1_1_LONG
    node.responder().respond(grant(part(0)))
    assert (tmp_path / "regions" / OWNER / "region.cache").stat().st_size == 2008985


OLD = Compatibility(source=Source.MANIFEST, layout=RegionLayout.V1_1, needs_lock_directory=True)


@pytest.mark.parametrize(
    ("with_lock", "compatibility"), [(True, None), (False, OLD), (False, by_release("v2.8.0"))]
)
def test_lock_directory_is_the_containers_own(
    tmp_path: Path, compatibility: Compatibility | None, *, with_lock: bool
) -> None:
    """Where the library or the administrator wants one, and only on bounded storage."""
    node = Node(root=tmp_path, with_lock=with_lock, compatibility=compatibility)
    with pytest.raises(RefusedError, match="LockDirectoryUnbounded"):
        node.responder().respond(grant(part(0)))
    assert LOCK_PATH not in mounts(Node(root=tmp_path).responder().respond(grant(part(0))))


@needs_mounts
def test_lock_directory_lies_beside_the_region(tmp_path: Path) -> None:
    """On the same few megabytes, which no other container sees."""
    node = Node(root=tmp_path, with_lock=True, may_mount=True)
    assert LOCK_PATH == "/tmp/vgpulock"  # noqa: S108 - where the library looks
    try:
        answer = node.responder().respond(grant(part(0)))
        assert mounts(answer)[LOCK_PATH] == (f"/host/regions/{OWNER}/lock", False)
        lock = tmp_path / "regions" / OWNER / "lock"
        assert lock.stat().st_mode & 0o777 == 0o777
        assert lock.parent.is_mount()
    finally:
        node.regions.remove(OWNER)


def test_each_container_has_a_region_of_its_own(tmp_path: Path) -> None:
    """Processes of two would take one another for dead."""
    responder = Node(root=tmp_path).responder()
    paths = {
        mounts(responder.respond(grant(part(0), container=name)))["/run/gpuslice/region.cache"]
        for name in ("main", "init-0", "sidecar")
    }
    assert len(paths) == 3


def test_every_form_can_be_had_at_once(tmp_path: Path) -> None:
    """Which of them counts is the runtime's to choose; limits are there once."""
    node = Node(root=tmp_path)
    node.form = form("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
    node.edits = edits()
    answer = node.responder().respond(grant(part(0)))
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"
    assert f"/var/run/nvidia-container-devices/{uuid_of(0)}" in mounts(answer)
    assert len(answer.annotations) == len(answer.cdi_devices) == 1
    assert is_limited(answer)
