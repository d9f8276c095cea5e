"""Checks of a node's directories, driver, sockets and library."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdi.library import make_placeholder
from cdi.store import SpecStore
from cli.doctor.model import Status
from kube.errors import ConnectionFailedError
from sim import driverroot, gpufile
from tests.cli.doctor.nodes import verdict, write

UID = "11111111-2222-3333-4444-555555555555"
ROOT = "/var/lib/kubelet"
SIMULATED = (sys.executable, "-m", "cli.main", "discover", "--json")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return a node with one simulated L4 and its driver."""
    file = tmp_path / "gpus.yaml"
    file.write_text("gpus:\n- profile: l4\n")
    driverroot.build(gpufile.load(file), tmp_path / "host")
    return tmp_path / "host"


def test_driver_is_found(node: Path) -> None:
    """It is searched as the agent does, and its device nodes are there."""
    found = verdict(node, "driver-root")
    assert (found.status, "below /run/nvidia/driver" in found.seen) == (Status.OK, True)
    nodes = verdict(node, "device-nodes")
    assert nodes.seen == "/dev/nvidiactl, /dev/nvidia-uvm and 1 GPU"


def test_device_nodes_that_are_missing(node: Path) -> None:
    """Without nvidia-uvm no CUDA program starts."""
    (node / "dev/nvidia-uvm").unlink()
    (node / "dev/nvidia0").unlink()
    found = verdict(node, "device-nodes")
    assert found.status is Status.FAILED
    assert found.seen == "missing: /dev/nvidia-uvm, /dev/nvidia<number>"


def test_no_driver(node: Path, tmp_path: Path) -> None:
    """On a node with an NVIDIA GPU that is a failure; on one without there is nothing to find."""
    (node / "run/nvidia/driver").rename(tmp_path / "away")
    assert verdict(node, "driver-root").status is Status.FAILED
    pci = "/sys/bus/pci/devices/0000:00:01.0"
    other = write(tmp_path / "o", {f"{pci}/vendor": "0x8086\n", f"{pci}/class": "0x030000\n"})
    for check in ("driver-root", "device-nodes", "nvml"):
        assert verdict(other, check).status is Status.SKIPPED


def test_nvml_lists_gpus(node: Path) -> None:
    """Another process lists them."""
    command = (*SIMULATED, "--simulated", str(node.parent / "gpus.yaml"), "--driver-root")
    found = verdict(node, "nvml", nvml_command=command)
    assert (found.status, found.seen.endswith("1 GPU (NVIDIA L4)")) == (Status.OK, True)


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", Status.FAILED, "ended by signal 11"),
        ("raise SystemExit('error: no module')", Status.FAILED, "NVML cannot be used: no module"),
        ("print('odd')", Status.UNKNOWN, "cannot be read"),
    ],
)
def test_nvml_that_fails(script: str, status: Status, said: str, node: Path) -> None:
    """A library that ends its process ends nothing else."""
    found = verdict(node, "nvml", nvml_command=(sys.executable, "-c", script))
    assert (found.status, said in found.seen) == (status, True)


def test_nvml_of_no_driver_is_no_library(node: Path) -> None:
    """A file that is no library is told in one sentence."""
    found = verdict(node, "nvml")
    assert (found.status, "NVML cannot be used" in found.seen) == (Status.FAILED, True)


def test_cdi_directories(tmp_path: Path) -> None:
    """The agent's own is needed; where /etc/cdi is missing old runtimes stop looking."""
    assert verdict(tmp_path, "cdi-directories").status is Status.FAILED
    (tmp_path / "var/run").mkdir(parents=True)
    assert verdict(tmp_path, "cdi-directories").status is Status.OK
    (tmp_path / "var/run/cdi").mkdir()
    assert verdict(tmp_path, "cdi-directories").status is Status.WARNING
    (tmp_path / "etc/cdi").mkdir(parents=True)
    assert verdict(tmp_path, "cdi-directories").status is Status.OK


def old_spec(root: Path) -> Path:
    """Write a spec of ours that is an hour old."""
    folder = root / "var/run/cdi"
    folder.mkdir(parents=True)
    path = SpecStore(folder).path(UID)
    path.write_text("{}")
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    (folder / "other.json").write_text("{}")
    return path


def test_specs_that_are_left(tmp_path: Path) -> None:
    """The cluster knows which claims there are; without it nothing follows."""
    path = old_spec(tmp_path)
    assert verdict(tmp_path, "cdi-specs-left").status is Status.UNKNOWN
    assert verdict(tmp_path, "cdi-specs-left", claim_uids=lambda: {UID}).status is Status.OK
    found = verdict(tmp_path, "cdi-specs-left", claim_uids=set)
    assert (found.status, found.details) == (Status.WARNING, (path.name,))

    def away() -> set[str]:
        raise ConnectionFailedError("refused")

    assert verdict(tmp_path, "cdi-specs-left", claim_uids=away).status is Status.UNKNOWN
    path.touch()
    assert verdict(tmp_path, "cdi-specs-left", claim_uids=set).seen == "1 spec of ours, all young"


def test_kubelet_root(tmp_path: Path) -> None:
    """A root that was moved is found by its plugins_registry, or by the running kubelet."""
    assert verdict(tmp_path, "kubelet-root").status is Status.FAILED
    (tmp_path / "var/lib/k0s/kubelet/plugins_registry").mkdir(parents=True)
    found = verdict(tmp_path, "kubelet-root")
    assert (found.status, "--kubelet-root=/var/lib/k0s/kubelet" in found.remedy) == (
        Status.FAILED,
        True,
    )
    (tmp_path / "disk/plugins_registry").mkdir(parents=True)
    command = "/usr/bin/kubelet\0--root-dir\0/disk\0"
    write(tmp_path, {"/proc/77/cmdline": command, "/proc/78/cmdline": "bash\0--root-dir=/x\0"})
    assert "--kubelet-root=/disk" in verdict(tmp_path, "kubelet-root").remedy
    (tmp_path / f"{ROOT[1:]}/plugins_registry").mkdir(parents=True)
    found = verdict(tmp_path, "kubelet-root")
    assert "kubelet runs with --root-dir=/disk" in found.seen
    write(tmp_path, {"/proc/77/cmdline": f"kubelet\0--root-dir={ROOT}\0"})
    assert verdict(tmp_path, "kubelet-root").status is Status.OK


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        (Path(name) / "k/plugins_registry").mkdir(parents=True)
        (Path(name) / "k/plugins/gpuslice.io").mkdir(parents=True)
        yield Path(name)


def test_sockets(short: Path) -> None:
    """All of ours are answered, some are left by a killed agent, or all are."""
    assert verdict(short, "registration", kubelet_root="/k").status is Status.WARNING
    registration = short / "k/plugins_registry/gpuslice.io-reg.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(short / "k/plugins/gpuslice.io/dra.sock"))
    assert verdict(short, "registration", kubelet_root="/k").status is Status.FAILED
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(registration))
        alive.listen()
        found = verdict(short, "registration", kubelet_root="/k")
        assert (found.status, found.details) == (
            Status.WARNING,
            ("/k/plugins/gpuslice.io/dra.sock",),
        )
        (short / "k/plugins/gpuslice.io/dra.sock").unlink()
        assert verdict(short, "registration", kubelet_root="/k").status is Status.OK


def test_socket_of_the_device_plugin(short: Path) -> None:
    """A node that serves the device plugin has a socket of that kind alone."""
    (short / "k/device-plugins").mkdir()
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(short / "k/device-plugins/gpuslice-gpu.sock"))
        alive.listen()
        said = "1 socket of ours, all answered"
        assert verdict(short, "registration", kubelet_root="/k").seen == said


def test_plugin_directory(short: Path) -> None:
    """It is there and has room."""
    found = verdict(short, "plugin-directory", kubelet_root="/k")
    assert found.status is Status.OK
    assert "/k/plugins/gpuslice.io is there" in found.seen
    assert verdict(short, "plugin-directory", kubelet_root="/none").status is Status.SKIPPED


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that is mounted read-only, with a directory of CDI specs in it."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "ro"
    (folder / "var/run/cdi").mkdir(parents=True)
    (folder / "k/plugins/gpuslice.io").mkdir(parents=True)
    if not _mounts("mount", "-o", "bind", str(folder), str(folder)):
        pytest.skip("this machine lets nobody mount")
    try:
        assert _mounts("mount", "-o", "remount,bind,ro", str(folder))
        yield folder
    finally:
        _mounts("umount", str(folder))


def _mounts(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603


def test_read_only_file_system(read_only: Path) -> None:
    """It is a failure where it is the host's, and says nothing where the host's root is so here."""
    options = {"kubelet_root": f"{read_only}/k", "cdi_directory": f"{read_only}/var/run/cdi"}
    for check in ("cdi-directories", "plugin-directory"):
        assert verdict(Path("/"), check, **options).status is Status.FAILED
    options = {"kubelet_root": "/k", "cdi_directory": "/var/run/cdi"}
    assert verdict(read_only, "plugin-directory", **options).status is Status.OK
    assert verdict(read_only, "cdi-directories", **options).status is Status.WARNING


def test_library(tmp_path: Path) -> None:
    """None, a missing one, one that is no library, a placeholder: each has its own verdict."""
    assert verdict(tmp_path, "library").status is Status.SKIPPED
    name = "/usr/local/vgpu/libvgpu.so"
    assert verdict(tmp_path, "library", library=name).status is Status.FAILED
    write(tmp_path, {name: "text"})
    found = verdict(tmp_path, "library", library=name)
    assert (found.status, "EnforcementLibraryInvalid" in found.seen) == (Status.FAILED, True)
    make_placeholder(tmp_path / name[1:])
    found = verdict(tmp_path, "library", library=name)
    assert (found.status, "placeholder" in found.seen) == (Status.WARNING, True)


def test_library_without_a_manifest(tmp_path: Path) -> None:
    """A release in the file's name tells what is needed; without one it is assumed."""
    folder = tmp_path / "usr/local/vgpu"
    folder.mkdir(parents=True)
    make_placeholder(folder / "x")
    content = (folder / "x").read_bytes()[:64] + b"something else"
    (folder / "libvgpu.so.v2.8.1").write_bytes(content)
    (folder / "libvgpu.so").symlink_to("libvgpu.so.v2.8.1")
    name = "/usr/local/vgpu/libvgpu.so"
    assert verdict(tmp_path, "library", library=name).seen == f"{name}, release 2.8.1 (by its name)"
    (folder / "libvgpu.so").unlink()
    (folder / "libvgpu.so").write_bytes(content)
    assert verdict(tmp_path, "library", library=name).status is Status.WARNING
    (folder / "libvgpu.so.manifest.json").write_text("{}")
    found = verdict(tmp_path, "library", library=name)
    assert (found.status, "LibraryManifestInvalid" in found.seen) == (Status.FAILED, True)
