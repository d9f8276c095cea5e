"""Tests of finding and building the cluster's programs."""

import os
import stat
from pathlib import Path

import pytest

from tests.cluster.assets import READY_MADE, cache_folder, check_system, find
from tests.cluster.build import build_module, command_of
from tests.cluster.errors import BuildError, MissingError
from tests.cluster.go_modules import CNI, ETCD, modules_of

# Stands in for the Go tool: makes files of the names in PROGRAMS, or fails on BROKEN.
_GO = """#!/bin/sh
test "$1" = env && echo go1.99.0 && exit
echo "$@" >> "$LOG"
test -n "$BROKEN" && echo "package x: $BROKEN" >&2 && exit 1
while test "$1" != -o; do shift; done
for name in $PROGRAMS; do echo "#!" > "$2$name"; chmod +x "$2$name"; done
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a Go tool of ours first on the path; its calls are lines of the returned file."""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "go"
    tool.write_text(_GO)
    tool.chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(calls))
    monkeypatch.setenv("PROGRAMS", "server bridge host-local loopback")
    return calls


def test_module_is_built_once(go: Path, tmp_path: Path) -> None:
    """A second build of the same state finds the first one's programs."""
    first = build_module(CNI, tmp_path / "cache")
    assert {path.name for path in first.iterdir()} >= set(CNI.programs)
    assert build_module(CNI, tmp_path / "cache") == first
    assert len(go.read_text().splitlines()) == 1
    assert first.name == f"cni-{CNI.content_hash()}-go1.99.0"


def test_renamed_program_gets_its_name(go: Path, tmp_path: Path) -> None:
    """The program that etcd's module calls server is named etcd."""
    folder = build_module(ETCD, tmp_path / "cache")
    assert os.access(folder / "etcd", os.X_OK)
    assert not (folder / "server").exists()


def test_failed_build_leaves_nothing_to_use(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that fails says what Go said and is tried again the next time."""
    with monkeypatch.context() as broken:
        broken.setenv("BROKEN", "no such thing")
        with pytest.raises(BuildError, match="package x: no such thing"):
            build_module(CNI, tmp_path / "cache")
    assert build_module(CNI, tmp_path / "cache").is_dir()


def test_interrupted_build_is_not_used(go: Path, tmp_path: Path) -> None:
    """What an interrupted build has left is thrown away."""
    partial = tmp_path / "cache" / ".cni.partial"
    partial.mkdir(parents=True)
    (partial / "rest").touch()
    assert not (build_module(CNI, tmp_path / "cache") / "rest").exists()
    assert not partial.exists()


def test_build_without_a_program_fails(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that lacks a program is no build."""
    monkeypatch.setenv("PROGRAMS", "bridge")
    with pytest.raises(BuildError, match="cni built without host-local, loopback"):
        build_module(CNI, tmp_path / "cache")


def test_build_needs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Go is absent the build says so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"no Go here to build cni; install Go 1\.26"):
        build_module(CNI, tmp_path / "cache")


def test_build_command_pins_everything(tmp_path: Path) -> None:
    """A build changes no module file and keeps no paths of the machine."""
    command = command_of(ETCD, "go", tmp_path)
    assert {"-trimpath", "-mod=readonly", "-ldflags=-s -w"} <= set(command)
    assert command[-3:] == ["-o", f"{tmp_path}/", "tool"]


def ready_made(folder: Path, *, flat: bool) -> None:
    """Make a folder of programs, in one heap or by module."""
    for module in modules_of("1.37"):
        for name in module.programs:
            path = folder / name if flat else folder / module.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            path.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("flat", [True, False])
def test_ready_programs_are_taken(tmp_path: Path, *, flat: bool) -> None:
    """A named folder is searched by module and then as a heap."""
    ready_made(tmp_path, flat=flat)
    assets = find("1.37", {READY_MADE: str(tmp_path)})
    assert Path(assets.path("kubelet")).is_relative_to(tmp_path)
    assert Path(assets.cni_folder, "loopback").exists()


def test_ready_folder_without_a_program_is_refused(tmp_path: Path) -> None:
    """A named folder that lacks a program is not completed from elsewhere."""
    ready_made(tmp_path, flat=True)
    (tmp_path / "kubelet").unlink()
    with pytest.raises(MissingError, match=r"has no k8s-1\.37/kubelet and no kubelet"):
        find("1.37", {READY_MADE: str(tmp_path)})


def test_missing_programs_are_told_in_one_line(tmp_path: Path) -> None:
    """An empty cache yields the command that fills it."""
    with pytest.raises(MissingError, match=r"`make cluster K8S=1\.37` builds it") as caught:
        find("1.37", {"XDG_CACHE_HOME": str(tmp_path)})
    assert "\n" not in str(caught.value)


def test_cache_follows_the_base_directories() -> None:
    """The cache lies where the user's other caches are."""
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/gpuslice/cluster")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "/c"}) == Path("/c/gpuslice/cluster")


def test_missing_packages_come_as_one_command() -> None:
    """The distribution's programs that are absent are named by package in one command."""
    which = {"ip": "/sbin/ip", "nsenter": "x", "mount": "x", "busybox": None}
    with pytest.raises(MissingError, match=r"apt-get install .* busybox-static runc$"):
        check_system(which)
    check_system(dict.fromkeys((*which, "runc", "busybox"), "x"))
