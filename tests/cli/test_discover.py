"""`gpuslice discover`, run as a command on simulated GPUs."""

import argparse
import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from cli import discover

GPUS = """
gpus:
- {profile: l4, uuid: GPU-b, pci: "0000:86:00.0", name: "NVIDIA [bold]L4", numa_node: -1}
- {profile: a30, uuid: GPU-a, pci: "0000:3b:00.0", pcie_root: "pci0000:3a", numa_node: 1,
   mig: [{profile: 1g.6gb, uuid: MIG-a}]}
- {profile: gb10, uuid: GPU-c, pci: "0000:01:00.0"}
- {profile: t4, uuid: GPU-d, pci: "0000:02:00.0", errors: {nvmlDeviceGetName: GPU_IS_LOST}}
"""


def command(*words: str) -> int:
    """Run the command with these words and return its exit status."""
    parser = argparse.ArgumentParser()
    discover.add_parser(parser.add_subparsers())
    args = parser.parse_args(["discover", *words])
    status = args.run(args)
    assert isinstance(status, int)
    return status


@pytest.fixture
def gpus(tmp_path: Path) -> str:
    """Write the GPU file and return its path."""
    path = tmp_path / "gpus.yaml"
    path.write_text(GPUS, encoding="utf-8")
    return str(path)


def test_plain_text_where_no_terminal_is(gpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs stand in bus order with their partitions below them, faults last."""
    assert command("--simulated", gpus) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "driver 580.95.05, CUDA 13.0"
    assert [line.split()[-1] for line in lines[1:-1]] == [
        *("UUID", "GPU-c", "GPU-a", "MIG-a", "GPU-b")
    ]
    assert "NVIDIA [bold]L4" in lines[-2]
    assert "the host's" in lines[2]
    assert lines[-1] == "GPU 0000:02:00.0 cannot be used: nvmlDeviceGetName failed: GPU_IS_LOST"


def test_what_the_driver_advises_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU that can be read but should be reset is not shown as if it were well."""
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{profile: l4, uuid: GPU-a, recovery_action: gpu-reset}]")
    assert command("--simulated", str(path)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "GPU GPU-a gets no new work: the driver asks for a reset of the GPU"
    )
    assert command("--json", "--simulated", str(path)) == 0
    (ailment,) = json.loads(capsys.readouterr().out)["ailments"]
    assert (ailment["uuid"], ailment["code"]) == ("GPU-a", "GpuResetNeeded")


class Terminal(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def test_a_table_on_a_terminal(gpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person gets a table; what looks like markup in a name is printed as it is."""
    monkeypatch.setenv("COLUMNS", "140")
    screen = Terminal()
    with redirect_stdout(screen):
        assert command("--simulated", gpus) == 0
    shown = screen.getvalue()
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" in shown
    assert "NVIDIA [bold]L4" in shown
    assert [uuid for uuid in ("GPU-a", "MIG-a", "GPU-b", "GPU-c") if uuid not in shown] == []


def test_json_carries_the_whole_model(gpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get every field, numbers as numbers and unknowns as null."""
    assert command("--json", "--simulated", gpus) == 0
    found = json.loads(capsys.readouterr().out)
    assert [gpu["uuid"] for gpu in found["gpus"]] == ["GPU-c", "GPU-a", "GPU-b"]
    unified, partitioned, last = found["gpus"]
    assert unified["memory_mib"] is None
    assert (partitioned["pcie_root"], partitioned["numa_node"]) == ("pci0000:3a", 1)
    assert partitioned["mig_devices"][0]["profile"] == "1g.6gb"
    assert (last["numa_node"], last["memory_mib"]) == (None, 23034)
    assert [fault["reason"] for fault in found["faults"]] == ["GPU_IS_LOST"]


def test_no_driver_is_said_with_the_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a driver the command fails and names where it looked."""
    (tmp_path / "root").mkdir()
    assert command("--driver-root", str(tmp_path / "root")) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert str(tmp_path / "root") in output.err
    assert "usr/lib/x86_64-linux-gnu" in output.err
    assert "`--driver-root`" in output.err


def test_a_library_that_cannot_be_loaded_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken installation is told apart from none."""
    library = tmp_path / "lib64/libnvidia-ml.so.1"
    library.parent.mkdir()
    library.write_text("half a library", encoding="utf-8")
    assert command("--driver-root", str(tmp_path)) == 1
    error = capsys.readouterr().err
    assert "LIBRARY_NOT_FOUND" in error
    assert str(library) in error


def test_a_wrong_file_is_said_with_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the GPU file is no traceback."""
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{profile: t5}]", encoding="utf-8")
    assert command("--simulated", str(path)) == 1
    assert "gpus.0.profile" in capsys.readouterr().err


def test_a_node_without_gpus_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No GPU is an answer, not an error."""
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: []", encoding="utf-8")
    assert command("--simulated", str(path)) == 0
    assert "no usable GPU" in capsys.readouterr().out
