"""Tests of the edits for NVIDIA devices."""

from pathlib import Path

import pytest

from cdi.edits import ContainerEdits
from cdi.hooks import NO_HOOKS, HookStrategy
from cdi.nvidia import Surroundings, common_edits, gpu_edits, mig_edits, scan
from gpu.refusal import RefusedError
from tests.cdi.trees import (
    HOST_ROOT,
    NUMBERS,
    PROC_DEVICES,
    VERSION,
    driver_root,
    gpu,
    listen,
    mig,
    mig_proc,
    tree,
    write,
)


def mounted(edits: ContainerEdits) -> dict[str, str]:
    """Return the host's path by the container's."""
    return {mount.container_path: mount.host_path for mount in edits.mounts}


@pytest.mark.parametrize("missing", ["dev/nvidiactl", "dev/nvidia-uvm"])
def test_required_common_nodes_are_required(tmp_path: Path, missing: str) -> None:
    """A node without which CUDA cannot start is refused by its host path before a pod starts."""
    numbers = {path: pair for path, pair in NUMBERS.items() if path != missing}
    driver = tree(driver_root(tmp_path), numbers=numbers)
    with pytest.raises(RefusedError) as caught:
        common_edits(driver, NO_HOOKS)
    assert caught.value.refusal.code == "DeviceNodeMissing"
    assert caught.value.refusal.value == f"/{missing}"


def test_optional_nodes_are_optional(tmp_path: Path) -> None:
    """Nodes that only some drivers have are left out where they are missing."""
    numbers = {path: NUMBERS[path] for path in ("dev/nvidiactl", "dev/nvidia-uvm")}
    edits = common_edits(tree(driver_root(tmp_path), numbers=numbers), NO_HOOKS)
    assert {node.path for node in edits.device_nodes} == {"/dev/nvidiactl", "/dev/nvidia-uvm"}


def test_missing_gpu_node_is_refused(tmp_path: Path) -> None:
    """A GPU is known by its minor number, and refused where that has no node."""
    driver = tree(driver_root(tmp_path))
    assert gpu_edits(driver, gpu(1)).device_nodes[0].path == "/dev/nvidia1"
    with pytest.raises(RefusedError, match="/dev/nvidia7"):
        gpu_edits(driver, gpu(7))
    with pytest.raises(RefusedError, match="/dev/nvidia7"):
        mig_edits(driver, gpu(7), mig(gpu(7)))


def test_nodes_of_another_dev_root_say_so(tmp_path: Path) -> None:
    """Where the host has its nodes elsewhere, the container's path stays the usual one."""
    root = driver_root(tmp_path)
    around = Surroundings(
        local_dev_root=root,
        host_dev_root="/run/nvidia/driver",
        proc_root=root / "proc",
        device_numbers=lambda _: (195, 0),
    )
    mig_proc(root)
    driver = scan(root, host_root=HOST_ROOT, surroundings=around)
    nodes = mig_edits(driver, gpu(), mig(gpu())).device_nodes
    assert [node.host_path for node in nodes] == [
        f"/run/nvidia/driver{node.path}" for node in nodes
    ]


def test_links_are_resolved_inside_the_root(tmp_path: Path) -> None:
    """A library that is a link is mounted from where it ends, in the host's view."""
    root = driver_root(tmp_path)
    real = write(root, "opt/nvidia/libnvidia-cfg.real")
    link = root / f"usr/lib64/libnvidia-cfg.so.{VERSION}"
    link.symlink_to("/opt/nvidia/libnvidia-cfg.real")
    dangling = root / f"usr/lib64/libnvidia-gone.so.{VERSION}"
    dangling.symlink_to("/missing")
    mounts = mounted(common_edits(tree(root), NO_HOOKS))
    assert mounts[f"/usr/lib64/{link.name}"] == f"{HOST_ROOT}/opt/nvidia/{real.name}"
    assert f"/usr/lib64/{dangling.name}" not in mounts


def test_libraries_of_others_stay_away(tmp_path: Path) -> None:
    """Only the driver's version is mounted, with nvvm70 as the one exception."""
    root = driver_root(tmp_path)
    write(root, "usr/lib64/libcuda.so.470.1.2")
    write(root, "usr/lib64/libnvidia-nvvm70.real")
    (root / "usr/lib64/libnvidia-nvvm70.so.4").symlink_to("libnvidia-nvvm70.real")
    edits = common_edits(tree(root), NO_HOOKS)
    mounts = mounted(edits)
    assert len(mounts) == len(edits.mounts)
    assert mounts["/usr/lib64/libnvidia-nvvm70.so.4"].endswith("libnvidia-nvvm70.real")
    assert not any("470" in path or "libc.so" in path for path in mounts)
    assert "/usr/lib64/libunrelated.so.1" not in mounts


def test_programs_find_libraries_without_hooks(tmp_path: Path) -> None:
    """Without hooks every name that programs load is a mount, also where ldconfig never ran."""
    root = driver_root(tmp_path)
    for link in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ml.so"):
        (root / "usr/lib64" / link).unlink()
    mounts = mounted(common_edits(tree(root), NO_HOOKS))
    cuda = f"{HOST_ROOT}/usr/lib64/libcuda.so.{VERSION}"
    assert mounts["/usr/lib64/libcuda.so.1"] == mounts["/usr/lib64/libcuda.so"] == cuda
    assert mounts["/usr/lib64/libnvidia-ml.so.1"].endswith(f"libnvidia-ml.so.{VERSION}")
    assert mounts["/usr/lib64/libnvidia-ptxjitcompiler.so.1"].endswith(VERSION)


def test_hooks_replace_links(tmp_path: Path) -> None:
    """With hooks no library is mounted twice."""
    hooks = HookStrategy(binary="/usr/bin/nvidia-cdi-hook")
    edits = common_edits(tree(driver_root(tmp_path)), hooks)
    assert "/usr/lib64/libcuda.so.1" not in mounted(edits)
    assert [hook.args[1] for hook in edits.hooks] == ["create-symlinks", "update-ldcache"]


def test_host_mps_is_never_passed_on(tmp_path: Path) -> None:
    """Sockets of the driver's services come; that of a host-wide MPS daemon does not."""
    root = driver_root(tmp_path)
    listen(root, "var/run/nvidia-persistenced/socket")
    listen(root, "run/nvidia-fabricmanager/socket")
    listen(root, "tmp/nvidia-mps/control")
    write(root, "run/nvidia-persistenced/socket")
    mounts = mounted(common_edits(tree(root), NO_HOOKS))
    assert not any("mps" in path.removeprefix("/usr/bin") for path in mounts)
    assert "/run/nvidia-fabricmanager/socket" in mounts
    assert "/var/run/nvidia-persistenced/socket" in mounts


def test_linked_run_directory_gives_one_socket(tmp_path: Path) -> None:
    """Where /var/run is a link to /run, a socket comes once and by its real path."""
    root = driver_root(tmp_path)
    listen(root, "run/nvidia-persistenced/socket")
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    sockets = [path for path in mounted(common_edits(tree(root), NO_HOOKS)) if "socket" in path]
    assert sockets == ["/run/nvidia-persistenced/socket"]


def test_mig_minors_are_read_from_the_list_too(tmp_path: Path) -> None:
    """Without the capabilities directory the numbers come from mig-minors."""
    root = driver_root(tmp_path)
    write(root, "proc/devices", PROC_DEVICES)
    lines = ["config 1", "monitor 2", "gpu0/gi7/access 66", "gpu0/gi7/ci0/access 67"]
    lines += ["gpu1/gi7/access 201", "gpu10/gi7/access 900"]
    write(root, "proc/driver/nvidia-caps/mig-minors", "\n".join(lines) + "\n")
    nodes = mig_edits(tree(root), gpu(), mig(gpu())).device_nodes[1:]
    told = [(node.path, node.major, node.minor, node.file_mode) for node in nodes]
    assert told == [
        ("/dev/nvidia-caps/nvidia-cap66", 237, 66, 0o444),
        ("/dev/nvidia-caps/nvidia-cap67", 237, 67, 0o444),
    ]


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("proc/devices", "Character devices:\n234 nvidia-caps-imex-channels\n"),
        ("proc/devices", "Character devices:\n\nBlock devices:\n237 nvidia-caps\n"),
        ("proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", "DeviceFileMode: 292\n"),
        (
            "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access",
            f"DeviceFileMinor: {'9' * 5000}\n",
        ),
        ("proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access", None),
    ],
)
def test_unknown_mig_numbers_are_refused(tmp_path: Path, inner: str, text: str | None) -> None:
    """Where the kernel does not tell a number, none is guessed and the file is named."""
    root = driver_root(tmp_path)
    mig_proc(root)
    if text is None:
        (root / inner).unlink()
    else:
        write(root, inner, text)
    with pytest.raises(RefusedError) as caught:
        mig_edits(tree(root), gpu(), mig(gpu()))
    assert caught.value.refusal.code == "MigCapabilityMissing"
    assert caught.value.refusal.value == str(root / inner)


def test_mig_numbers_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 count as a file that is not there."""
    root = driver_root(tmp_path)
    mig_proc(root)
    (root / "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access").write_bytes(b"\xff\xfe")
    with pytest.raises(RefusedError) as caught:
        mig_edits(tree(root), gpu(), mig(gpu()))
    assert caught.value.refusal.code == "MigCapabilityMissing"
