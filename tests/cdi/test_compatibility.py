"""What is known of a build of HAMi-core, and the manifest that says it."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdi.compatibility import (
    ASSUMED,
    KNOWN_RELEASES,
    Compatibility,
    Manifest,
    Source,
    by_manifest,
    by_release,
    manifest_path,
    release_in_name,
)
from cdi.errors import SpecError
from cdi.region import REGION_SIZE, RegionLayout

WHOLE: dict[str, Any] = {
    "format": 1,
    "sha256": "ab" * 32,
    "version": "v2.8.1",
    "regionLayout": "v1.1-long",
    "needsLockDirectory": False,
    "architecture": "x86_64",
    "cuda": {"minimum": "11.0", "maximum": "13.1"},
    "libc": {"name": "glibc", "minimum": "2.17"},
}


def written(**changes: Any) -> bytes:
    """Return a manifest with *changes*; a value of `...` leaves the key out."""
    document = {key: value for key, value in (WHOLE | changes).items() if value is not ...}
    return json.dumps(document).encode()


def test_manifest_says_what_its_library_needs() -> None:
    """Each field counts, and what is written is read again as the same."""
    manifest = Manifest.parse(written())
    assert manifest.cuda.minimum == "11.0"
    assert manifest.libc is not None
    assert manifest.libc.minimum == "2.17"
    assert by_manifest(manifest) == Compatibility(
        source=Source.MANIFEST,
        version="v2.8.1",
        layout=RegionLayout.V1_1_LONG,
        needs_lock_directory=False,
    )
    assert Manifest.parse(manifest.render()) == manifest


def test_ranges_may_be_left_out() -> None:
    """Of which CUDA and which libc it wants, a builder may know nothing."""
    manifest = Manifest.parse(written(cuda=..., libc=...))
    assert (manifest.cuda.minimum, manifest.libc) == (None, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": 2}, "format"),
        ({"format": ...}, "format"),
        ({"sha256": "AB" * 32}, "sha256"),
        ({"sha256": "ab" * 32 + "\n"}, "sha256"),
        ({"version": ""}, "version"),
        ({"version": "a b"}, "version"),
        ({"version": 2}, "version"),
        ({"regionLayout": "1.2"}, "regionLayout"),
        ({"regionLayout": ...}, "regionLayout"),
        ({"needsLockDirectory": "no"}, "needsLockDirectory"),
        ({"needsLockDirectory": 0}, "needsLockDirectory"),
        ({"architecture": "i686"}, "architecture"),
        ({"cuda": {"minimum": "12"}}, "cuda.minimum"),
        ({"cuda": {"minimum": 12.1}}, "cuda.minimum"),
        ({"cuda": {"minimum": "12.10", "maximum": "12.9"}}, "cuda"),
        ({"cuda": {"from": "12.1"}}, "cuda.from"),
        ({"libc": {"name": "musl", "minimum": "1.2"}}, "libc.name"),
        ({"libc": {"name": "glibc"}}, "libc.minimum"),
        ({"needsVgpulock": True}, "needsVgpulock"),
        ({"region_layout": "v1.2"}, "region_layout"),
    ],
)
def test_manifest_that_cannot_be_meant_is_refused(changes: dict[str, Any], field: str) -> None:
    """The first wrong field is named; nothing is guessed and nothing is skipped."""
    with pytest.raises(SpecError) as caught:
        Manifest.parse(written(**changes))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"format": 1, "format": 1}',
        written() + b" " * 70_000,
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """No JSON, a key twice, and more than anybody would write."""
    with pytest.raises(SpecError):
        Manifest.parse(data)


@pytest.mark.parametrize(
    ("version", "layout", "locks", "size"),
    [
        ("v2.4.0", RegionLayout.V0, True, 1197897),
        ("2.5.3", RegionLayout.V1_1, True, 2008953),
        ("v2.8.0", RegionLayout.V1_1, True, 2008953),
        ("v2.8.1", RegionLayout.V1_1_LONG, False, 2008985),
        ("v2.8.2", RegionLayout.V1_2, False, 2008953),
        ("v2.9.0", RegionLayout.V1_2, False, 2008953),
    ],
)
def test_release_tells_layout_and_locks(
    version: str, layout: RegionLayout, *, locks: bool, size: int
) -> None:
    """The library of each release of HAMi's is known."""
    found = by_release(version)
    assert (found.source, found.layout, found.needs_lock_directory, found.region_size) == (
        Source.RELEASE,
        layout,
        locks,
        size,
    )


@pytest.mark.parametrize("version", ["", "v2.10.0", "v2.8", "v2.8.1-rc1", "2.8.1\n", "latest"])
def test_release_that_is_not_known_is_assumed_to_be_a_usual_one(version: str) -> None:
    """No lock, the size of most, and that it was assumed."""
    assert by_release(version) == ASSUMED
    assert (ASSUMED.source, ASSUMED.needs_lock_directory) == (Source.ASSUMED, False)
    assert (ASSUMED.layout, ASSUMED.region_size) == (None, REGION_SIZE)


def test_releases_up_to_v2_8_0_want_locks_and_no_others() -> None:
    """Those stall without a directory for locks."""
    lockers = {version for version, (_, locks) in KNOWN_RELEASES.items() if locks}
    assert lockers == {
        version for version in KNOWN_RELEASES if tuple(map(int, version.split("."))) <= (2, 8, 0)
    }


def test_release_stands_in_the_name_of_hamis_files() -> None:
    """As its images have them; and the manifest beside each has its name."""
    assert release_in_name("libvgpu.so.v2.9.0") == "v2.9.0"
    assert release_in_name("libvgpu.so") == ""
    beside = manifest_path(Path("/k8s-vgpu/lib/nvidia/libvgpu.so.v2.9.0"))
    assert str(beside) == "/k8s-vgpu/lib/nvidia/libvgpu.so.v2.9.0.manifest.json"
