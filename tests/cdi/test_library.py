"""Tests of adopting HAMi-core's library."""

import platform
import stat
import sys
import sysconfig
from pathlib import Path

import pytest

from cdi import elf
from cdi.library import PLACEHOLDER_LABEL, LibraryStore, make_placeholder
from gpu.refusal import RefusedError

HOST = "/var/lib/gpuslice/hooks"


def refused(root: Path, content: bytes | None) -> str:
    """Return what is said when a library of *content* is adopted."""
    path = root / "libvgpu.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RefusedError) as caught:
        LibraryStore(root / "kept", HOST).adopt(path)
    assert not (root / "kept").exists()
    return str(caught.value)


def test_placeholder_is_known_as_one(tmp_path: Path) -> None:
    """A placeholder is adopted, flagged, and kept under its hash with a preload file."""
    make_placeholder(tmp_path / "libvgpu.so")
    library = LibraryStore(tmp_path / "kept", HOST).adopt(tmp_path / "libvgpu.so")
    assert library.placeholder
    assert library.host_library_path == f"{HOST}/{library.sha256}/libvgpu.so"
    assert library.host_preload_path == f"{HOST}/{library.sha256}/ld.so.preload"
    kept = tmp_path / "kept" / library.sha256
    assert (kept / "libvgpu.so").read_bytes().endswith(PLACEHOLDER_LABEL)
    assert (kept / "ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()}
    assert modes == {"libvgpu.so": 0o644, "ld.so.preload": 0o644}


def real_library() -> Path:
    """Return a shared object that this interpreter has loaded."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = [
        module.__file__
        for module in list(sys.modules.values())
        if (getattr(module, "__file__", None) or "").endswith(suffix)
    ]
    return Path(str(files[0]))


def test_real_library_is_no_placeholder(tmp_path: Path) -> None:
    """A shared object that the loader takes is adopted as the real thing."""
    library = LibraryStore(tmp_path, HOST).adopt(real_library())
    assert not library.placeholder
    assert (tmp_path / library.sha256 / "libvgpu.so").read_bytes() == real_library().read_bytes()


def test_replaced_library_leaves_the_old_copy(tmp_path: Path) -> None:
    """A library that changes on the host gets a copy of its own; the same one does not."""
    source = tmp_path / "libvgpu.so"
    store = LibraryStore(tmp_path / "kept", HOST)
    make_placeholder(source)
    first = store.adopt(source)
    copy = tmp_path / "kept" / first.sha256 / "libvgpu.so"
    inode = copy.stat().st_ino
    assert store.adopt(source) == first
    source.write_bytes(real_library().read_bytes())
    second = store.adopt(source)
    assert second.sha256 != first.sha256
    assert copy.stat().st_ino == inode


def test_damaged_copy_is_repaired(tmp_path: Path) -> None:
    """A copy that is not what its hash says is written again."""
    make_placeholder(tmp_path / "libvgpu.so")
    store = LibraryStore(tmp_path / "kept", HOST)
    copy = tmp_path / "kept" / store.adopt(tmp_path / "libvgpu.so").sha256 / "libvgpu.so"
    copy.write_bytes(b"")
    store.adopt(tmp_path / "libvgpu.so")
    assert copy.read_bytes() == (tmp_path / "libvgpu.so").read_bytes()


def test_missing_library_is_refused(tmp_path: Path) -> None:
    """Without the library there is a reason instead of a container without limits."""
    assert refused(tmp_path, None).startswith("EnforcementLibraryMissing")
    (tmp_path / "libvgpu.so").mkdir()
    assert refused(tmp_path, None).startswith("EnforcementLibraryUnreadable")


def header(**changes: int) -> bytes:
    """Return an empty shared object with bytes changed at offsets named `at<offset>`."""
    content = bytearray(elf.empty_header() + PLACEHOLDER_LABEL)
    for name, value in changes.items():
        content[int(name.removeprefix("at"))] = value
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes"),
        (b"\x7fELF", "4 bytes"),
        (b"#!/bin/sh\n" * 20, "no ELF"),
        (header(at4=1), "64-bit"),
        (header(at5=2), "64-bit"),
        (header(at16=2), "no shared object"),
        (header(at18=3), "not built for"),
        (header(at56=1, at32=64), "cut short"),
        (header(at60=1, at40=64), "cut short"),
    ],
)
def test_what_the_loader_would_skip_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """A file that is no whole shared object for this machine is refused, and says why."""
    text = refused(tmp_path, content)
    assert text.startswith("EnforcementLibraryInvalid")
    assert said in text


def test_truncated_library_is_refused(tmp_path: Path) -> None:
    """Half a real library is noticed by its headers."""
    content = real_library().read_bytes()
    assert "cut short" in refused(tmp_path, content[: len(content) // 2])


def test_huge_file_is_refused(tmp_path: Path) -> None:
    """A file far beyond a library's size is not read to its end."""
    with (tmp_path / "libvgpu.so").open("wb") as file:
        file.truncate(2**40)
    assert "64 MiB" in refused(tmp_path, None)


def test_unexpected_hash_is_refused(tmp_path: Path) -> None:
    """Where a hash is configured, no other library is taken."""
    path = tmp_path / "libvgpu.so"
    make_placeholder(path)
    store = LibraryStore(tmp_path / "kept", HOST)
    library = store.adopt(path)
    assert store.adopt(path, expected_sha256=library.sha256) == library
    with pytest.raises(RefusedError, match="EnforcementLibraryChanged"):
        store.adopt(path, expected_sha256="0" * 64)


def test_headers_name_the_machine() -> None:
    """A header is for one machine only, ours unless another is named."""
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    assert elf.problem(elf.empty_header()) is None
    assert elf.problem(elf.empty_header(other)) is not None
    assert elf.problem(elf.empty_header(other), other) is None
