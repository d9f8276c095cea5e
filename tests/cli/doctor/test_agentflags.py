"""How the doctor finds out with which flags the agent beside it runs."""

from pathlib import Path

from cli.doctor.node.agentflags import agent_flags


def run(proc: Path, number: int, *words: str) -> None:
    """Have a process run with these words."""
    (proc / f"{number}").mkdir()
    (proc / f"{number}" / "cmdline").write_bytes(b"".join(f"{word}\0".encode() for word in words))


def test_flags_of_the_agent_with_the_same_view(tmp_path: Path) -> None:
    """Both forms are read, and no other process is asked, whatever its flags are."""
    (tmp_path / "self").mkdir()
    (tmp_path / "7").mkdir()
    run(tmp_path, 1, "systemd", "--host-root=/host")
    run(tmp_path, 2, "python", "gpuslice", "node-agent", "--host-root=/", "--kubelet-root=/no")
    words = ("--monitor", "--host-root", "/host", "--kubelet-root=/k", "--kubelet-root=/data/k")
    run(tmp_path, 3, "python", "gpuslice", "node-agent", *words)
    found = agent_flags(Path("/host"), proc=tmp_path)
    assert found["kubelet-root"] == "/data/k"
    assert "cdi-directory" not in found


def test_without_an_agent_there_are_none(tmp_path: Path) -> None:
    """Also where processes cannot be listed."""
    assert agent_flags(Path("/host"), proc=tmp_path) == {}
    assert agent_flags(Path("/host"), proc=tmp_path / "none") == {}
