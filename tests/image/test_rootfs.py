"""Tests of what is taken of a system."""

import sys
from pathlib import Path

from image.rootfs import Rootfs, needed, owners


def test_links_on_the_way_to_a_file_stay_links(tmp_path: Path) -> None:
    """A file is copied once, to where it really is, and each link that leads there is one."""
    real, root = tmp_path / "usr/lib", tmp_path / "root"
    real.mkdir(parents=True)
    (real / "libthing.so.1.2").write_text("library")
    (real / "libthing.so.1").symlink_to("libthing.so.1.2")
    (tmp_path / "lib").symlink_to("usr/lib")
    (root).mkdir()
    rootfs = Rootfs(root)
    rootfs.take(tmp_path / "lib/libthing.so.1")
    rootfs.take(tmp_path / "usr/lib/libthing.so.1")
    inside = rootfs.at(tmp_path)
    assert (inside / "lib").readlink() == Path("usr/lib")
    assert (inside / "usr/lib/libthing.so.1").readlink() == Path("libthing.so.1.2")
    assert not (inside / "usr/lib/libthing.so.1.2").is_symlink()
    assert (inside / "lib/libthing.so.1").read_text() == "library"


def test_what_is_for_developers_stays_behind(tmp_path: Path) -> None:
    """Of a standard library its tests, its bytecode and what needs a display are left out."""
    library, root = tmp_path / "library", tmp_path / "root"
    for name in ("json/tool.py", "test/test_json.py", "tkinter/x.py", "json/__pycache__/tool.pyc"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text("")
    root.mkdir()
    rootfs = Rootfs(root)
    rootfs.take_tree(library)
    copied = {path.name for path in rootfs.at(library).rglob("*") if path.is_file()}
    assert copied == {"tool.py"}


def test_loader_and_c_library_are_needed_by_a_program(tmp_path: Path) -> None:
    """The libraries of a program are found, and a file that is no program needs none."""
    (tmp_path / "text").write_text("no program")
    program = Path(sys.executable).resolve()
    found = {path.name for path in needed([program, tmp_path / "text"], tmp_path)}
    assert any(name.startswith("libc.so") for name in found)
    assert any(name.startswith("ld-linux") for name in found)
    assert not set(needed([tmp_path / "text"], tmp_path))


def test_library_of_the_environment_is_not_the_systems(tmp_path: Path) -> None:
    """What an environment brings along is copied with it and not once more."""
    assert not set(needed([Path(sys.executable).resolve()], Path("/")))


def test_owners_of_files_are_packages_alone() -> None:
    """Several may own a file, and a file that was moved aside is told of in another way."""
    told = [
        "libc6:amd64: /usr/lib64/ld-linux-x86-64.so.2",
        "base-files, libc6:amd64: /usr/lib",
        "diversion by libc6 from: /lib64/ld-linux-x86-64.so.2",
        "diversion by libc6 to: /lib64/ld-linux-x86-64.so.2.usr-is-merged",
    ]
    assert list(owners(told)) == ["libc6:amd64", "base-files", "libc6:amd64"]
