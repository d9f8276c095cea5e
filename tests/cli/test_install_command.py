"""`gpuslice install-library`, as an init container runs it."""

from pathlib import Path

import pytest

from cli.main import main
from tests.agent.mounts import read_only
from tests.cdi.elves import shared_object


def test_it_says_what_it_has_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the container's log: where it is, what it is, and what it needs."""
    (tmp_path / "libvgpu.so.v2.8.0").write_bytes(shared_object())
    node = tmp_path / "node"
    assert main(["install-library", "--from", str(tmp_path), "--to", str(node)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(f"library: {node}/")
    assert "release: 2.8.0 (by the name of its file)\n" in said.out
    assert "region: v1.1\nneeds /tmp/vgpulock: yes\nneeds glibc: 2.17\n" in said.out
    assert (node / "libvgpu.so").read_bytes() == shared_object()


def test_warnings_go_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A library of which nothing is known is installed all the same."""
    (tmp_path / "libvgpu.so").write_bytes(shared_object())
    assert main(["install-library", "--from", str(tmp_path), "--to", str(tmp_path / "node")]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("warning: LibraryUnknown: ")
    assert "release: unknown\n" in said.out


def test_what_is_unfit_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With one line; the init container fails and the pod waits."""
    words = ["install-library", "--from", str(tmp_path), "--to", str(tmp_path / "node")]
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("error: LibraryMissing: --from: ")
    with pytest.raises(SystemExit):
        main([*words, "--oldest-glibc", "old"])
    assert "is no release such as 2.28" in capsys.readouterr().err


def written(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return what is in *directory*, by which file it is and when it was written."""
    found = {path: path.lstat() for path in directory.rglob("*")}
    return {path: (each.st_ino, each.st_mtime_ns) for path, each in found.items()}


def test_a_restarted_init_container_changes_nothing(tmp_path: Path) -> None:
    """It has the image's directory to read alone, and need not write what is there already."""
    source, node = tmp_path / "source", tmp_path / "node"
    source.mkdir()
    (source / "libvgpu.so.v2.8.0").write_bytes(shared_object())
    words = ["install-library", "--from", str(source), "--to", str(node)]
    with read_only(source):
        assert main(words) == 0
        before = written(node)
        assert len(before) == 5
        with read_only(node):
            assert main(words) == 0
    assert written(node) == before
