"""Whether a library fits the node."""

from dataclasses import replace
from typing import Any

import pytest

from cdi.compatibility import Manifest
from cdi.library import HookLibrary
from cdi.libraryfit import misfit
from gpu.refusal import Refusal

SHA256 = "ab" * 32


def library(**changes: Any) -> HookLibrary:
    """Return a library with a manifest."""
    document: dict[str, Any] = {
        "format": 1,
        "sha256": SHA256,
        "version": "2.9.0",
        "regionLayout": "v1.2",
        "needsLockDirectory": False,
        "architecture": "x86_64",
        "cuda": {"minimum": "11.4", "maximum": "13.1"},
    }
    return replace(bare(), manifest=Manifest.model_validate(document | changes, strict=False))


def bare() -> HookLibrary:
    """Return a library of which nothing is known."""
    return HookLibrary(
        host_library_path="/host/libvgpu.so",
        host_preload_path="/host/ld.so.preload",
        sha256=SHA256,
        placeholder=False,
    )


@pytest.mark.parametrize("version", ["11.4", "12.8", "13.0", "13.1", ""])
def test_driver_within_the_range_fits(version: str) -> None:
    """Both ends are within; a driver that does not say its CUDA is not judged by it."""
    assert misfit(library(), cuda_driver_version=version, machine="x86_64") is None


@pytest.mark.parametrize("version", ["11.3", "9.2", "13.2", "13.10"])
def test_driver_outside_the_range_does_not(version: str) -> None:
    """Versions are numbers: 13.10 is newer than 13.2."""
    found = misfit(library(), cuda_driver_version=version, machine="x86_64")
    assert isinstance(found, Refusal)
    assert (found.code, found.field) == ("LibraryDoesNotFit", "manifest.cuda")
    assert version in found.limit


def test_range_may_be_open() -> None:
    """What is not said does not bind."""
    assert misfit(library(cuda={}), cuda_driver_version="99.9", machine="x86_64") is None
    newer = library(cuda={"minimum": "12.0"})
    assert misfit(newer, cuda_driver_version="99.9", machine="x86_64") is None
    assert misfit(newer, cuda_driver_version="11.9", machine="x86_64") is not None


def test_library_of_another_machine_does_not_fit() -> None:
    """The loader would skip it, and the container run without limits."""
    found = misfit(library(), cuda_driver_version="12.8", machine="aarch64")
    assert found is not None
    assert (found.field, found.value) == ("manifest.architecture", "x86_64")
