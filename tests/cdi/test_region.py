"""Tests of the region file."""

import os
import stat
from pathlib import Path

import pytest

from cdi.errors import StoreError
from cdi.region import REGION_SIZE, RegionLayout, create_region, reset_region


def test_region_is_a_sparse_file_for_all(tmp_path: Path) -> None:
    """The region has HAMi-core's size, takes no space and is writable by any user."""
    before = os.umask(0o077)
    try:
        path = create_region(tmp_path)
    finally:
        os.umask(before)
    found = path.stat()
    assert found.st_size == REGION_SIZE == 2008953
    assert found.st_blocks == 0
    assert stat.S_IMODE(found.st_mode) == 0o666
    assert list(tmp_path.iterdir()) == [path]


def test_directory_is_not_writable_for_all(tmp_path: Path) -> None:
    """A directory that is made for the region lets only its owner write."""
    path = create_region(tmp_path / "claims" / "a")
    assert not path.parent.stat().st_mode & 0o022


def test_region_in_use_is_kept(tmp_path: Path) -> None:
    """A region of the right size stays the same file with the same content."""
    path = create_region(tmp_path)
    path.write_bytes(b"x" * REGION_SIZE)
    inode = path.stat().st_ino
    assert create_region(tmp_path) == path
    assert path.stat().st_ino == inode
    assert path.read_bytes()[:1] == b"x"


@pytest.mark.parametrize("size", [0, 5, REGION_SIZE + 1])
def test_region_of_another_size_stays_the_same_file(tmp_path: Path, size: int) -> None:
    """A container has it mounted: a second file would be a second account of the same share."""
    path = tmp_path / "region.cache"
    path.write_bytes(b"x" * size)
    inode = path.stat().st_ino
    assert create_region(tmp_path) == path
    assert (path.stat().st_ino, path.stat().st_size) == (inode, REGION_SIZE)
    assert path.read_bytes()[:5] == (b"x" * size)[:5].ljust(5, b"\0")


@pytest.mark.parametrize("layout", list(RegionLayout))
def test_region_that_its_library_has_made_grow_stays(tmp_path: Path, layout: RegionLayout) -> None:
    """Readers know its layout by its size; only who knows the layout asks for another."""
    path = tmp_path / "region.cache"
    path.write_bytes(b"x" * layout.file_size)
    create_region(tmp_path)
    assert path.stat().st_size == layout.file_size
    create_region(tmp_path, size=RegionLayout.V1_2.file_size)
    assert path.stat().st_size == REGION_SIZE


def test_link_is_replaced(tmp_path: Path) -> None:
    """What it leads to is not ours."""
    path = tmp_path / "region.cache"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * REGION_SIZE)
    path.symlink_to(elsewhere)
    assert not create_region(tmp_path).is_symlink()
    assert elsewhere.read_bytes() == b"x" * REGION_SIZE


def test_left_over_temporary_file_is_no_obstacle(tmp_path: Path) -> None:
    """A start that was killed in the middle does not stop the next one."""
    (tmp_path / ".region.cache.tmp").touch()
    assert list(tmp_path.iterdir()) != [create_region(tmp_path)]
    assert [path.name for path in tmp_path.iterdir()] == ["region.cache"]


def test_reset_zeroes_in_place(tmp_path: Path) -> None:
    """A reset keeps the file that containers have mounted, and clears it."""
    path = create_region(tmp_path)
    path.write_bytes(b"x" * REGION_SIZE)
    inode = path.stat().st_ino
    reset_region(path)
    assert path.stat().st_ino == inode
    assert path.read_bytes() == bytes(REGION_SIZE)


def test_failures_are_named(tmp_path: Path) -> None:
    """A directory that cannot be made and a region that is not there are store errors."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        create_region(tmp_path / "file")
    with pytest.raises(StoreError):
        reset_region(tmp_path / "missing")
