"""Libraries that are delivered with a manifest, and those that nobody uses any more."""

import hashlib
import mmap
import os
from pathlib import Path

import pytest

from cdi.compatibility import ASSUMED, Libc, Manifest, Source, manifest_path
from cdi.library import LibraryStore
from cdi.region import RegionLayout
from gpu.refusal import RefusedError
from tests.cdi.elves import shared_object

HOST = "/var/lib/gpuslice/libraries"
OLD, NEW = shared_object(tail=b"old"), shared_object(tail=b"new")


def sha256_of(content: bytes) -> str:
    """Return the name under which *content* is kept."""
    return hashlib.sha256(content).hexdigest()


def manifest(content: bytes, *, locks: bool = False) -> Manifest:
    """Return a manifest of *content*."""
    return Manifest.parse(
        Manifest(
            format=1,
            sha256=sha256_of(content),
            version="v2.8.1",
            regionLayout=RegionLayout.V1_1_LONG,
            needsLockDirectory=locks,
            architecture="x86_64",
            libc=Libc(minimum="2.17"),
        ).render()
    )


def store_at(root: Path) -> LibraryStore:
    """Return a store below *root*."""
    return LibraryStore(root / "libraries", HOST)


def old(store: LibraryStore, content: bytes) -> Path:
    """Make the copy of *content* two hours old, and return it."""
    copy = store.directory / sha256_of(content)
    os.utime(copy, (copy.stat().st_atime, copy.stat().st_mtime - 7200))
    return copy


def test_manifest_is_kept_beside_the_copy(tmp_path: Path) -> None:
    """Whoever adopts the copy later finds it there."""
    store, said = store_at(tmp_path), manifest(NEW, locks=True)
    library = store.deliver(NEW, said)
    assert library.manifest == said
    assert library.compatibility.source is Source.MANIFEST
    assert library.compatibility.needs_lock_directory
    assert library.compatibility.region_size == 2008985
    assert store.adopt(store.directory / "libvgpu.so") == library
    assert store.keep(NEW, None) == library
    kept = store.directory / library.sha256
    assert sorted(path.name for path in kept.iterdir()) == [
        "ld.so.preload",
        "libvgpu.so",
        "libvgpu.so.manifest.json",
    ]


def test_manifest_beside_a_library_is_read_when_that_is_adopted(tmp_path: Path) -> None:
    """Through a link too, for the administrator may have several beside one another."""
    file = tmp_path / "libvgpu.so.v2.7.0"
    file.write_bytes(NEW)
    manifest_path(file).write_bytes(manifest(NEW).render())
    (tmp_path / "libvgpu.so").symlink_to(file.name)
    assert store_at(tmp_path).adopt(tmp_path / "libvgpu.so").manifest == manifest(NEW)


def test_without_a_manifest_the_name_tells_the_release(tmp_path: Path) -> None:
    """And without a release in the name what is usual is assumed."""
    file = tmp_path / "libvgpu.so.v2.7.0"
    file.write_bytes(NEW)
    found = store_at(tmp_path).adopt(file).compatibility
    assert (found.source, found.needs_lock_directory) == (Source.RELEASE, True)
    (tmp_path / "libvgpu.so").write_bytes(OLD)
    assert store_at(tmp_path).adopt(tmp_path / "libvgpu.so").compatibility == ASSUMED


def test_manifest_of_another_library_is_refused(tmp_path: Path) -> None:
    """A library that was replaced alone is not taken for what the manifest speaks of."""
    file = tmp_path / "libvgpu.so"
    file.write_bytes(NEW)
    manifest_path(file).write_bytes(manifest(OLD).render())
    with pytest.raises(RefusedError, match="LibraryManifestOfAnother"):
        store_at(tmp_path).adopt(file)
    manifest_path(file).write_bytes(b"{}")
    with pytest.raises(RefusedError, match=r"LibraryManifestInvalid: manifest\.format"):
        store_at(tmp_path).adopt(file)
    assert not store_at(tmp_path).directory.exists()


def test_delivery_leads_to_the_newest(tmp_path: Path) -> None:
    """The link is replaced in one step; earlier copies stay where they are."""
    store = store_at(tmp_path)
    link = store.directory / "libvgpu.so"
    store.deliver(OLD, None)
    assert link.read_bytes() == OLD
    before = link.lstat().st_ino
    store.deliver(OLD, None)
    assert link.lstat().st_ino == before
    store.deliver(NEW, None)
    assert link.read_bytes() == NEW
    assert str(link.readlink()) == f"{sha256_of(NEW)}/libvgpu.so"
    assert (store.directory / sha256_of(OLD) / "libvgpu.so").read_bytes() == OLD


def test_mapped_library_is_the_same_after_another_delivery(tmp_path: Path) -> None:
    """A process that has the library mapped sees the bytes that it was loaded from."""
    store = store_at(tmp_path)
    store.deliver(OLD, None)
    with (store.directory / "libvgpu.so").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    store.deliver(NEW, manifest(NEW))
    store.deliver(OLD, manifest(OLD))
    store.sweep([], young_s=-60)
    assert bytes(mapped) == OLD
    mapped.close()


def test_sweep_takes_what_nobody_names(tmp_path: Path) -> None:
    """Not what is delivered, what is named, what is young, and what is no copy."""
    store = store_at(tmp_path)
    named, young, gone = (shared_object(tail=word) for word in (b"named", b"young", b"gone"))
    for content in (named, young, gone, NEW):
        store.deliver(content, manifest(content))
    for content in (named, gone, NEW):
        old(store, content)
    (store.directory / "notes").mkdir()
    assert store.sweep([sha256_of(named)]) == {sha256_of(gone)}
    assert {path.name for path in store.directory.iterdir()} == {
        "libvgpu.so",
        "notes",
        *(sha256_of(content) for content in (named, young, NEW)),
    }
    assert store.sweep([sha256_of(named)]) == set()


def test_library_that_a_process_has_mapped_stays(tmp_path: Path) -> None:
    """Even if nobody names it: a record may be lost, a process is there."""
    store = store_at(tmp_path)
    store.deliver(OLD, None)
    store.deliver(NEW, None)
    copy = old(store, OLD)
    with (copy / "libvgpu.so").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert store.sweep([]) == set()
    mapped.close()
    assert store.sweep([]) == {sha256_of(OLD)}
    assert not copy.exists()


def test_nothing_is_swept_where_nothing_was_kept(tmp_path: Path) -> None:
    """The directory need not be there."""
    assert store_at(tmp_path).sweep([]) == set()
