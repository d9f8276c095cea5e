"""Golden specs of claims, and the rules that hold for all of them."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdi.claim import claim_spec
from cdi.edits import ContainerEdits, Mount, merge
from cdi.enforcement import DEVICES_MAX, DeviceLimit, Enforcement, enforcement_edits
from cdi.errors import SpecError
from cdi.hooks import COMPAT, NO_HOOKS, NO_NODE_CHANGES, HookStrategy
from cdi.library import HookLibrary
from cdi.names import KIND, device_name
from cdi.nvidia import common_edits, gpu_edits, mig_edits
from cdi.spec import Spec, canonical, render
from gpu.refusal import RefusedError
from tests.cdi.trees import (
    CLAIM,
    NUMBERS,
    driver_root,
    gpu,
    listen,
    mig,
    mig_proc,
    node_edits,
    tree,
    write,
)

GOLDEN = Path(__file__).parent / "golden"
LIBRARY = HookLibrary(
    host_library_path="/var/lib/gpuslice/hooks/0f0f/libvgpu.so",
    host_preload_path="/var/lib/gpuslice/hooks/0f0f/ld.so.preload",
    sha256="0f0f",
    placeholder=False,
)
HOOK = "/usr/bin/nvidia-cdi-hook"
SHARES = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"]


def limits(*pairs: tuple[int, int]) -> ContainerEdits:
    """Return the edits that enforce *pairs* of MiB and percent."""
    return enforcement_edits(
        Enforcement(
            library=LIBRARY,
            region_host_path=f"/run/gpuslice/claims/{CLAIM}/region.cache",
            limits=tuple(DeviceLimit(memory_mib=mib, cores_percent=cores) for mib, cores in pairs),
        )
    )


def assert_golden(name: str, spec: Spec) -> None:
    """Compare what *spec* renders to with the golden file *name*, key by key and byte by byte."""
    written = render(spec)
    golden = (GOLDEN / f"{name}.json").read_bytes()
    assert json.loads(written) == json.loads(golden)
    assert written == render(Spec.parse(golden))


def share(minor: int) -> str:
    """Return the device name of a share of the GPU with *minor*."""
    return device_name(CLAIM, f"gpu-{minor}", SHARES[minor])


def test_share_of_one_gpu(tmp_path: Path) -> None:
    """A share gets its GPU's node, both limits, the region, the library and its preload file."""
    driver = tree(driver_root(tmp_path))
    common = merge([common_edits(driver, NO_HOOKS), limits((8192, 30))])
    spec = claim_spec(CLAIM, common=common, devices={share(0): gpu_edits(driver, gpu())})
    assert_golden("share", spec)


def test_shares_of_two_gpus(tmp_path: Path) -> None:
    """Shares of two GPUs have limits of their own by index, and one region."""
    driver = tree(driver_root(tmp_path))
    common = merge([common_edits(driver, NO_HOOKS), limits((8192, 30), (20480, 100))])
    devices = {share(minor): gpu_edits(driver, gpu(minor)) for minor in (0, 1)}
    assert_golden("two-shares", claim_spec(CLAIM, common=common, devices=devices))


def test_whole_gpu(tmp_path: Path) -> None:
    """A whole GPU has no preload and no limits; its DRM nodes and the services' sockets come."""
    root = driver_root(tmp_path)
    listen(root, "run/nvidia-persistenced/socket")
    listen(root, "tmp/nvidia-mps")
    for name in ("card1", "renderD128", "controlD64"):
        write(root, f"sys/bus/pci/devices/{gpu().pci_bus_id}/drm/{name}/dev")
    numbers = {"dev/dri/card1": (226, 1), "dev/dri/renderD128": (226, 128)}
    driver = tree(root, numbers=NUMBERS | numbers)
    devices = {device_name(CLAIM, "gpu-0"): gpu_edits(driver, gpu())}
    spec = claim_spec(CLAIM, common=common_edits(driver, NO_HOOKS), devices=devices)
    assert_golden("whole", spec)
    assert b"preload" not in render(spec)
    assert b"LIMIT" not in render(spec)


def test_mig_device(tmp_path: Path) -> None:
    """A MIG device gets its parent's node and two capability nodes that the host may lack."""
    root = driver_root(tmp_path)
    mig_proc(root)
    driver = tree(root)
    devices = {device_name(CLAIM, "mig-aa"): mig_edits(driver, gpu(), mig(gpu()))}
    spec = claim_spec(CLAIM, common=common_edits(driver, NO_HOOKS), devices=devices)
    assert_golden("mig", spec)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("hooks", HookStrategy(binary=HOOK)),
        ("hooks-extra", HookStrategy(binary=HOOK, extra=(COMPAT, NO_NODE_CHANGES))),
        ("hooks-ctk", HookStrategy(binary="/usr/local/bin/nvidia-ctk")),
    ],
)
def test_hooks(tmp_path: Path, name: str, strategy: HookStrategy) -> None:
    """With hooks, libraries come under their own names only and links are left to the hooks."""
    driver = tree(driver_root(tmp_path))
    devices = {device_name(CLAIM, "gpu-0"): gpu_edits(driver, gpu())}
    spec = claim_spec(CLAIM, common=common_edits(driver, strategy), devices=devices)
    assert_golden(name, spec)


LIMITS = st.lists(
    st.tuples(st.integers(1, 2**20), st.integers(1, 100)), min_size=1, max_size=DEVICES_MAX
)


@given(LIMITS)
def test_every_device_has_both_limits(pairs: list[tuple[int, int]]) -> None:
    """Each index has both limits, none is 0, and the user's own variables are left alone."""
    spec = claim_spec(CLAIM, common=limits(*pairs), devices={share(0): node_edits()})
    env = dict(text.split("=", 1) for text in spec.container_edits.env)
    for index, (memory_mib, cores_percent) in enumerate(pairs):
        assert env.pop(f"CUDA_DEVICE_MEMORY_LIMIT_{index}") == f"{memory_mib}m"
        assert env.pop(f"CUDA_DEVICE_SM_LIMIT_{index}") == str(cores_percent)
    assert env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/run/gpuslice/region.cache",
    }


@given(LIMITS)
def test_written_claims_pass_the_reader(pairs: list[tuple[int, int]]) -> None:
    """What is written for a claim is what the strict reader reads back."""
    spec = claim_spec(CLAIM, common=limits(*pairs), devices={share(0): node_edits()})
    assert Spec.parse(render(spec)) == canonical(spec)


def test_order_of_inputs_changes_no_byte(tmp_path: Path) -> None:
    """Devices and parts of the common edits may come in any order."""
    driver = tree(driver_root(tmp_path))
    parts = [common_edits(driver, NO_HOOKS), limits((1, 1))]
    names = [share(0), share(1)]
    rendered = {
        render(
            claim_spec(
                CLAIM,
                common=merge(ordered),
                devices={name: node_edits(int(name == share(1))) for name in devices},
            )
        )
        for ordered in permutations(parts)
        for devices in permutations(names)
    }
    assert len(rendered) == 1


def test_only_the_region_is_writable(tmp_path: Path) -> None:
    """No directory of the host is mounted, and of its files only the region can be written."""
    root = driver_root(tmp_path)
    listen(root, "run/nvidia-persistenced/socket")
    driver = tree(root)
    mounts = merge([common_edits(driver, NO_HOOKS), limits((1, 1))]).mounts
    writable = [mount for mount in mounts if "ro" not in mount.options]
    assert sorted(mount.container_path for mount in writable) == [
        "/run/gpuslice/region.cache",
        "/run/nvidia-persistenced/socket",
    ]
    for mount in mounts:
        inner = mount.host_path.removeprefix(driver.host_root).lstrip("/")
        assert not (root / inner).is_dir()
        assert {"nosuid", "nodev"} <= set(mount.options)


def test_version_is_as_low_as_possible() -> None:
    """A claim's file declares 0.5.0, which every runtime with CDI support knows."""
    spec = claim_spec(CLAIM, common=ContainerEdits(), devices={share(0): node_edits()})
    assert spec.cdi_version == "0.5.0"
    grouped = ContainerEdits(additional_gids=(44,))
    assert (
        claim_spec(CLAIM, common=grouped, devices={share(0): node_edits()}).cdi_version == "0.7.0"
    )


def test_kind_is_our_own() -> None:
    """A claim's file never defines NVIDIA's kind."""
    spec = claim_spec(CLAIM, common=ContainerEdits(), devices={share(0): node_edits()})
    assert spec.kind == KIND == "k8s.gpuslice.io/claim"


def test_devices_of_another_claim_are_refused() -> None:
    """A name that another claim's file may define too is not written."""
    with pytest.raises(SpecError, match="not of claim"):
        claim_spec(CLAIM, common=ContainerEdits(), devices={"other-gpu-0": node_edits()})
    with pytest.raises(RefusedError):
        claim_spec("../x", common=ContainerEdits(), devices={"../x-gpu-0": node_edits()})


def test_two_regions_in_one_file_are_refused() -> None:
    """Two edits that disagree on one destination are an error and no matter of order."""
    first, second = (
        ContainerEdits(mounts=(Mount(host_path=path, container_path="/x"),))
        for path in ("/a", "/b")
    )
    with pytest.raises(SpecError, match="twice"):
        claim_spec(CLAIM, common=merge([first, second]), devices={share(0): node_edits()})
