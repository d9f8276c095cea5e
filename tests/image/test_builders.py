"""Tests of what builders are told; one that is not here is told nothing."""

from pathlib import Path

import pytest

from image import builders
from image.builders import Builder, Order, find
from image.errors import BuildError, MissingError

ORDER = Order(
    context=Path("/project"),
    tag="gpuslice:1.2",
    dockerfile=Path("/project/Dockerfile"),
    arguments={"BASE": "debian"},
    secrets={"pip.conf": Path("/secret")},
)


def program(folder: Path, name: str, script: str) -> None:
    """Put a program into *folder*."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("name", builders.KNOWN)
def test_every_builder_is_told_the_same(name: str) -> None:
    """Dockerfile, name, base, secrets and context reach each builder in its words."""
    command = Builder(name, [name]).build_command(ORDER)
    told = " ".join(command)
    assert command[0] == "build"
    assert command[-1] == "/project"
    assert "--file /project/Dockerfile --tag gpuslice:1.2" in told
    assert "--build-arg BASE=debian" in told
    assert "--secret id=pip.conf,src=/secret" in told
    assert str(builders.TIME_S) in told


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_archive_is_written_in_the_form_of_docker_save(name: str) -> None:
    """What podman and docker write can be imported as what buildah writes can."""
    command = Builder(name, [name]).save_command("gpuslice:1.2", Path("/image.tar"))
    assert command[0] == "save"
    assert command[-3:] == ["--output", "/image.tar", "gpuslice:1.2"]
    assert ("docker-archive" in command) == (name == "podman")


def test_missing_builder_is_told_with_what_brings_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has no builder is told how to get one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="apt-get install"):
        find("", tmp_path)
    with pytest.raises(MissingError, match="podman"):
        find("podman", tmp_path)


def test_first_that_is_here_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word on it, whichever builder is here builds."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "docker", "exit 0")
    assert find("", tmp_path).name == "docker"
    program(tmp_path, "podman", "exit 0")
    assert find("", tmp_path).name == "podman"
    assert find("docker", tmp_path).name == "docker"


def test_buildah_copies_whole_files_where_none_can_be_laid_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without overlays gets the driver that works anywhere; all of it in the cache."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "buildah", 'case "$*" in *overlay*) exit 125;; esac')
    found = find("buildah", tmp_path / "cache")
    assert found.options[-1] == "vfs"
    assert str(tmp_path / "cache/store") in found.options
    program(tmp_path, "buildah", "echo broken >&2; exit 125")
    with pytest.raises(MissingError, match="broken"):
        find("buildah", tmp_path / "cache")


def test_failed_build_is_an_error(tmp_path: Path) -> None:
    """A builder that fails has said why; that it failed is told."""
    program(tmp_path, "podman", "exit 3")
    with pytest.raises(BuildError, match="podman build ended with 3"):
        Builder("podman", [str(tmp_path / "podman")]).build(ORDER)


def test_store_that_has_grown_is_tidied(tmp_path: Path) -> None:
    """What is kept for later builds has a bound; a store of podman or docker is its owner's."""
    program(tmp_path, "buildah", f'echo "$@" >> {tmp_path}/calls')
    (tmp_path / "store").mkdir()
    (tmp_path / "store/layer").write_bytes(b"x" * (1 << 21))
    buildah = [str(tmp_path / "buildah")]
    Builder("buildah", buildah, (), tmp_path).tidy(limit_mib=10)
    Builder("podman", buildah).tidy(limit_mib=1)
    assert not (tmp_path / "calls").exists()
    Builder("buildah", buildah, (), tmp_path).tidy(limit_mib=1)
    assert (tmp_path / "calls").read_text() == "rmi --prune\n"
