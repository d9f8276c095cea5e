"""Makes the archive of the image, if there is none of just these sources yet.

Archives are kept in the cache by what they are made of, so that a fresh checkout of what was built
before has its image at once.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from image import base as bases
from image import pipsettings, sources
from image.builders import Builder, Order, find
from image.errors import BuildError, MissingError
from image.places import ARCHIVE, SBOM, cache_folder, key_of

NAME: Final = "gpuslice"
IN_IMAGE: Final = "usr/share/gpuslice/sbom.cdx.json"
_KEPT: Final = 2
_BASE_TAG: Final = "gpuslice-base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What may be said of a build; all of it may be left open."""

    builder: str = ""
    base: str = ""
    """An image; one is made of Debian's packages where none is named."""
    suite: str = bases.SUITE
    """The release of Debian that one is made of."""


def tag(root: Path = sources.ROOT) -> str:
    """Return the name of the image."""
    return f"{NAME}:{sources.version(root)}"


def make(
    wishes: Wishes,
    *,
    archive: Path = ARCHIVE,
    cache: Path | None = None,
    root: Path = sources.ROOT,
) -> Path:
    """Return *archive*, built from the files of *root* first unless it is of these already."""
    cache = cache or cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    state = sources.read(root)
    with _locked(cache / ".lock"):
        own = None if wishes.base else bases.context(cache, wishes.suite)
        based_on = f"{_BASE_TAG}:{bases.digest(own)[:12]}" if own else wishes.base
        key = hashlib.sha256(f"{state.identity} {based_on} {wishes.builder}".encode()).hexdigest()
        kept = cache / f"{NAME}-{key[:24]}.tar"
        if not kept.exists():
            builder = find(wishes.builder, cache)
            if own:
                _build_base(builder, own, based_on)
            _build(builder, state, based_on, kept)
            builder.tidy()
            _forget_old(cache)
        _hand_out(kept, archive, state)
    return archive


def made(archive: Path = ARCHIVE, *, root: Path = sources.ROOT) -> Path:
    """Return *archive* if it is of the files of *root* as they are; else MissingError."""
    key = key_of(archive)
    if not archive.exists() or not key.exists():
        raise MissingError("the image is not built: `make image` builds it")
    if key.read_text(encoding="utf-8") != sources.read(root).digest:
        raise MissingError("the image is of other sources: `make image` builds it anew")
    return archive


def _build_base(builder: Builder, folder: Path, name: str) -> None:
    _say(f"base image {name}")
    builder.build(Order(context=folder, tag=name, dockerfile=folder / "Dockerfile"))


def _build(builder: Builder, state: sources.Sources, based_on: str, path: Path) -> None:
    name = f"{NAME}:{state.version}"
    _say(f"image {name} on {based_on}")
    partial = path.with_name(f".{path.name}")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        order = Order(
            context=state.root,
            tag=name,
            dockerfile=state.root / "Dockerfile",
            arguments={
                "BASE": based_on,
                "VERSION": state.version,
                "REVISION": state.revision,
                "CREATED": state.time,
            },
            secrets=pipsettings.secrets(Path(folder)),
        )
        builder.build(order)
    builder.save(name, partial)
    partial.rename(path)


def _hand_out(kept: Path, archive: Path, state: sources.Sources) -> None:
    """Put what is kept where people look for it; files are linked where that can be done."""
    os.utime(kept)
    archive.parent.mkdir(parents=True, exist_ok=True)
    key = key_of(archive)
    for each in (key, archive):
        each.unlink(missing_ok=True)
    try:
        archive.hardlink_to(kept)
    except OSError:
        shutil.copyfile(kept, archive)
    document = file_of(archive, IN_IMAGE)
    (archive.parent / SBOM.name).write_bytes(document)
    key.write_text(state.digest, encoding="utf-8")


def file_of(archive: Path, name: str) -> bytes:
    """Return a file of the image in *archive*, from the last layer that has it."""
    with tarfile.open(archive) as outer:
        layers = [each for each in outer.getmembers() if each.isfile() and each.size]
        for layer in sorted(layers, key=lambda each: each.size):
            content = outer.extractfile(layer)
            if content is None or not layer.name.endswith(".tar"):
                continue
            with tarfile.open(fileobj=content) as inner:
                if name in inner.getnames():
                    found = inner.extractfile(name)
                    return found.read() if found else b""
    message = f"{archive} has no {name}"
    raise BuildError(message)


def _forget_old(cache: Path) -> None:
    found = sorted(cache.glob(f"{NAME}-*.tar"), key=lambda path: path.stat().st_mtime)
    for path in found[:-_KEPT]:
        path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
