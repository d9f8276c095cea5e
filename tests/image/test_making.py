"""Tests of when the image is built; the builder is a script that writes a small archive."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from image import sources
from image.errors import BuildError, MissingError
from image.making import IN_IMAGE, Wishes, file_of, made, make
from image.places import SBOM
from tests.image.checkouts import checkout

WISHES = Wishes(builder="podman", base="debian")
# `save --format docker-archive --output FILE NAME` copies what is ready; calls are written down.
SCRIPT = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in save) cp {folder}/ready.tar "$5";; esac
"""


def builder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the script the only podman there is."""
    layers = [layer({"other": b"x" * 20000}), layer({IN_IMAGE: b"{}"})]
    with tarfile.open(folder / "ready.tar", "w") as archive:
        for index, content in enumerate(layers):
            add(archive, f"{index}.tar", content)
        add(archive, "manifest.json", json.dumps([{"Layers": ["0.tar", "1.tar"]}]).encode())
    (folder / "podman").write_text(SCRIPT.format(folder=folder))
    (folder / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def layer(files: dict[str, bytes]) -> bytes:
    """Return a layer with *files*."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            add(archive, name, text)
    return content.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file to *archive*."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def calls(folder: Path) -> list[str]:
    """Return what the builder was told."""
    return (folder / "calls").read_text().splitlines()


def test_image_is_built_once_for_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call builds nothing, and neither does one from a checkout without a build folder."""
    builder(tmp_path, monkeypatch)
    root, archive = checkout(tmp_path / "project"), tmp_path / "build/image.tar"
    make(WISHES, archive=archive, cache=tmp_path / "cache", root=root)
    state = sources.read(root)
    build, save = calls(tmp_path)
    assert f"REVISION={state.revision}" in build
    assert "BASE=debian" in build
    assert save.endswith(f" gpuslice:{state.version}")
    assert made(archive, root=root) == archive
    assert (archive.parent / SBOM.name).read_text() == "{}"
    make(WISHES, archive=archive, cache=tmp_path / "cache", root=root)
    archive.unlink()
    make(WISHES, archive=archive, cache=tmp_path / "cache", root=root)
    assert len(calls(tmp_path)) == 2
    assert made(archive, root=root) == archive


def test_another_base_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken from elsewhere is not what was built before; two archives are kept at most."""
    builder(tmp_path, monkeypatch)
    root, cache = checkout(tmp_path / "project"), tmp_path / "cache"
    for base in ("one", "two", "three"):
        wishes = Wishes(builder="podman", base=base)
        make(wishes, archive=tmp_path / "image.tar", cache=cache, root=root)
    assert len(calls(tmp_path)) == 6
    assert len(list(cache.glob("gpuslice-*.tar"))) == 2


def test_no_image_and_another_ones_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for the image is told how to get it, and that the one there is of other files."""
    builder(tmp_path, monkeypatch)
    root, archive = checkout(tmp_path / "project"), tmp_path / "image.tar"
    with pytest.raises(MissingError, match="not built: `make image`"):
        made(archive, root=root)
    make(WISHES, archive=archive, cache=tmp_path / "cache", root=root)
    (root / "gpu/new.py").write_text("NEW = True\n")
    with pytest.raises(MissingError, match="of other sources"):
        made(archive, root=root)


def test_image_without_its_document_is_refused(tmp_path: Path) -> None:
    """An archive that does not say what is in it is no image of ours."""
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "0.tar", layer({"other": b""}))
    with pytest.raises(BuildError, match=r"sbom\.cdx\.json"):
        file_of(path, IN_IMAGE)
