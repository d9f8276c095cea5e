"""The library's way from an image onto the node."""

import hashlib
import json
import mmap
from pathlib import Path
from typing import Any

import pytest

from cdi import elf
from cdi.compatibility import Manifest, Source
from cdi.errors import StoreError
from cdi.library import LibraryStore
from cdi.region import RegionLayout
from gpu.refusal import RefusedError
from hami.delivery.installing import Installed, install
from tests.cdi.elves import shared_object

LIBRARY = shared_object(["GLIBC_2.17", "GLIBC_2.28"])


def image(root: Path, *files: str, content: bytes = LIBRARY) -> Path:
    """Return a directory that an image has filled with *files*."""
    directory = root / "image"
    directory.mkdir(exist_ok=True)
    for name in files:
        (directory / name).write_bytes(content)
    return directory


def manifest(content: bytes = LIBRARY, **changes: Any) -> bytes:
    """Return a builder's manifest of *content*."""
    document = {
        "format": 1,
        "sha256": hashlib.sha256(content).hexdigest(),
        "version": "own-build",
        "regionLayout": "v1.1-seqlock",
        "needsLockDirectory": True,
        "architecture": elf.machine_of(content),
        "libc": {"minimum": "2.28"},
    }
    return json.dumps(document | changes).encode()


def codes(installed: Installed) -> list[str]:
    """Return what is warned about."""
    return [warning.code for warning in installed.warnings]


def test_library_is_installed_by_its_hash(tmp_path: Path) -> None:
    """The agent's setting names a link that leads to it; the release is in the file's name."""
    installed = install(image(tmp_path, "libvgpu.so.v2.8.1"), tmp_path / "node")
    sha256 = hashlib.sha256(LIBRARY).hexdigest()
    assert (tmp_path / "node" / sha256 / "libvgpu.so").read_bytes() == LIBRARY
    adopted = LibraryStore(tmp_path / "node", str(tmp_path / "node")).adopt(
        tmp_path / "node" / "libvgpu.so"
    )
    assert adopted == installed.library
    assert adopted.compatibility.layout is RegionLayout.V1_1_LONG
    assert adopted.compatibility.version == "2.8.1"
    assert adopted.manifest is not None
    assert adopted.manifest.libc is not None
    assert adopted.manifest.libc.minimum == "2.28"
    assert codes(installed) == []


def test_builders_manifest_wins(tmp_path: Path) -> None:
    """Over what the name says."""
    directory = image(tmp_path, "libvgpu.so.v2.9.0")
    (directory / "libvgpu.so.v2.9.0.manifest.json").write_bytes(manifest())
    found = install(directory, tmp_path / "node").library.compatibility
    assert (found.source, found.version) == (Source.MANIFEST, "own-build")
    assert found.needs_lock_directory


def test_manifest_may_be_elsewhere(tmp_path: Path) -> None:
    """As in a ConfigMap, since most images have none."""
    (tmp_path / "said.json").write_bytes(manifest())
    installed = install(
        image(tmp_path, "libvgpu.so"), tmp_path / "node", manifest=tmp_path / "said.json"
    )
    assert installed.library.manifest == Manifest.parse(manifest())


def test_library_of_which_nothing_is_known_is_taken_with_a_warning(tmp_path: Path) -> None:
    """And with what is usual."""
    installed = install(image(tmp_path, "libvgpu.so"), tmp_path / "node")
    assert codes(installed) == ["LibraryUnknown"]
    assert installed.library.compatibility.source is Source.ASSUMED


def test_plain_name_comes_first(tmp_path: Path) -> None:
    """HAMi's script leaves both on a node."""
    directory = image(tmp_path, "libvgpu.so.v2.7.0", "libvgpu.so.v2.8.0")
    (directory / "libvgpu.so").write_bytes(shared_object(tail=b"plain"))
    assert install(directory, tmp_path / "node").found.path.name == "libvgpu.so"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ((), "LibraryMissing"),
        (("libvgpu.so.v2.8.0.manifest.json",), "LibraryMissing"),
        (("libvgpu.so.v2.7.0", "libvgpu.so.v2.8.0"), "LibraryAmbiguous"),
    ],
)
def test_none_and_several_are_refused(tmp_path: Path, files: tuple[str, ...], code: str) -> None:
    """Nothing is chosen for the administrator."""
    with pytest.raises(RefusedError, match=code):
        install(image(tmp_path, *files), tmp_path / "node")
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sha256": "0" * 64}, "sha256"),
        ({"architecture": "wrong"}, "architecture"),
        ({"libc": {"minimum": "2.17"}}, "libc.minimum"),
    ],
)
def test_manifest_that_the_library_belies_is_refused(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    """What can be read from the library itself is compared."""
    if field == "architecture":
        ours = elf.machine_of(LIBRARY)
        changes = {"architecture": "aarch64" if ours == "x86_64" else "x86_64"}
    directory = image(tmp_path, "libvgpu.so")
    (directory / "libvgpu.so.manifest.json").write_bytes(manifest(**changes))
    with pytest.raises(RefusedError, match=rf"LibraryManifestUntrue: manifest\.{field}"):
        install(directory, tmp_path / "node")
    assert not (tmp_path / "node").exists()


def test_library_that_is_too_new_for_the_images_is_refused(tmp_path: Path) -> None:
    """Every program of such an image would end as it starts."""
    directory = image(tmp_path, "libvgpu.so")
    with pytest.raises(RefusedError, match=r"LibraryNeedsNewerLibc.*needs glibc 2\.28"):
        install(directory, tmp_path / "node", oldest_glibc="2.17")
    install(directory, tmp_path / "node", oldest_glibc="2.28")
    install(directory, tmp_path / "node", oldest_glibc="2.31")


def test_private_symbols_are_warned_about(tmp_path: Path) -> None:
    """Old builds ask for one that glibc has dropped since."""
    content = shared_object(["GLIBC_2.17", "GLIBC_PRIVATE"])
    installed = install(image(tmp_path, "libvgpu.so.v2.4.1", content=content), tmp_path / "node")
    assert codes(installed) == ["LibcPrivate"]


def test_library_that_tells_nothing_of_its_libc_is_warned_about(tmp_path: Path) -> None:
    """It may be stripped of all that says so."""
    content = elf.empty_header() + b"whatever"
    installed = install(image(tmp_path, "libvgpu.so.v2.9.0", content=content), tmp_path / "node")
    assert codes(installed) == ["LibcUnknown"]


def test_library_that_is_none_is_refused(tmp_path: Path) -> None:
    """The loader would skip it."""
    with pytest.raises(RefusedError, match="EnforcementLibraryInvalid"):
        install(image(tmp_path, "libvgpu.so", content=b"x" * 100), tmp_path / "node")


def test_what_runs_is_not_touched_by_another_installation(tmp_path: Path) -> None:
    """Neither by a newer library, nor by the same one again, nor by an older one's return."""
    node = tmp_path / "node"
    first = install(image(tmp_path, "libvgpu.so.v2.8.0"), node)
    with Path(first.library.host_library_path).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    inode = Path(first.library.host_library_path).stat().st_ino
    newer = shared_object(tail=b"newer")
    (tmp_path / "image" / "libvgpu.so.v2.8.0").unlink()
    second = install(image(tmp_path, "libvgpu.so.v2.9.0", content=newer), node)
    assert (node / "libvgpu.so").read_bytes() == newer
    assert second.library.sha256 != first.library.sha256
    (tmp_path / "image" / "libvgpu.so.v2.9.0").unlink()
    assert install(image(tmp_path, "libvgpu.so.v2.8.0"), node).library == first.library
    assert bytes(mapped) == LIBRARY
    assert Path(first.library.host_library_path).stat().st_ino == inode
    mapped.close()


def test_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A file stands where it would be."""
    (tmp_path / "node").touch()
    with pytest.raises(StoreError):
        install(image(tmp_path, "libvgpu.so"), tmp_path / "node")
