"""Tests of finding a driver on disk."""

import os
import platform
import stat
from pathlib import Path

import pytest

from cdi.nvidia import scan
from cdi.tree import DriverTree, Surroundings, character_device
from gpu.refusal import RefusedError
from tests.cdi.trees import HOST_ROOT, VERSION, driver_root, write


def code(root: Path, driver_version: str | None = None) -> str:
    """Return the code with which a scan of *root* is refused."""
    with pytest.raises(RefusedError) as caught:
        scan(root, host_root=HOST_ROOT, driver_version=driver_version)
    return caught.value.refusal.code


@pytest.mark.parametrize(
    "directory",
    [
        "usr/lib64",
        "lib64",
        f"usr/lib/{platform.machine()}-linux-gnu",
        f"usr/lib/{platform.machine()}-linux-gnu/nvidia/current",
    ],
)
def test_driver_is_found_where_distributions_put_it(tmp_path: Path, directory: str) -> None:
    """Version and directory come from the libraries' names."""
    found = scan(driver_root(tmp_path, library_dir=directory), host_root=HOST_ROOT)
    assert (found.driver_version, found.library_dirs) == (VERSION, (f"/{directory}",))


def test_linked_directories_count_once(tmp_path: Path) -> None:
    """A `/lib64` that is a link to `/usr/lib64` is not a second directory."""
    root = driver_root(tmp_path)
    (root / "lib64").symlink_to("/usr/lib64")
    assert scan(root, host_root=HOST_ROOT).library_dirs == ("/usr/lib64",)


def test_search_path_can_be_set(tmp_path: Path) -> None:
    """A driver in an odd place is found by a configured path, and only by it."""
    root = driver_root(tmp_path, library_dir="opt/driver/lib")
    assert code(root) == "DriverLibrariesMissing"
    found = scan(root, host_root=HOST_ROOT, library_search_path=["/opt/driver/lib", "/missing"])
    assert found.library_dirs == ("/opt/driver/lib",)


def test_missing_driver_names_what_was_searched(tmp_path: Path) -> None:
    """Without libraries the refusal lists the directories, so that one can be added."""
    with pytest.raises(RefusedError, match=r"DriverLibrariesMissing.*/usr/lib64"):
        scan(tmp_path, host_root=HOST_ROOT)
    assert code(tmp_path / "missing") == "DriverLibrariesMissing"


def test_libraries_of_another_version_are_refused(tmp_path: Path) -> None:
    """Files that do not match the loaded module are refused before a container gets them."""
    root = driver_root(tmp_path)
    assert scan(root, host_root=HOST_ROOT, driver_version=VERSION).driver_version == VERSION
    assert code(root, "999.1.2") == "DriverVersionMismatch"


def test_left_over_libraries_do_not_confuse(tmp_path: Path) -> None:
    """Of two versions the one that libcuda.so.1 names is taken; without it none is guessed."""
    root = driver_root(tmp_path)
    write(root, "usr/lib64/libcuda.so.470.1.2")
    assert scan(root, host_root=HOST_ROOT).driver_version == VERSION
    (root / "usr/lib64/libcuda.so.1").unlink()
    assert code(root) == "DriverVersionAmbiguous"
    assert scan(root, host_root=HOST_ROOT, driver_version=VERSION).driver_version == VERSION


def test_surroundings_are_kept(tmp_path: Path) -> None:
    """Where devices are is passed on as given, and is the node's own by default."""
    root = driver_root(tmp_path)
    around = Surroundings(
        local_dev_root=tmp_path / "d",
        host_dev_root="/h",
        proc_root=tmp_path / "p",
        sys_root=tmp_path / "s",
        device_numbers=lambda _: (1, 2),
    )
    found = scan(root, host_root=HOST_ROOT, surroundings=around)
    names = ("local_dev_root", "host_dev_root", "proc_root", "sys_root", "device_numbers")
    assert all(getattr(found, name) == getattr(around, name) for name in names)
    plain: DriverTree = scan(root, host_root=HOST_ROOT)
    assert plain.proc_root == Path("/proc")
    assert plain.host_dev_root == "/"


def test_character_devices_have_numbers(tmp_path: Path) -> None:
    """Numbers come from character devices only."""
    assert character_device(Path("/dev/null")) == (1, 3)
    assert character_device(write(tmp_path, "plain")) is None
    assert character_device(tmp_path / "missing") is None
    os.mknod(tmp_path / "pipe", stat.S_IFIFO | 0o600)
    assert character_device(tmp_path / "pipe") is None
