"""Tests of process records."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.process import Records, observe


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    """Return a process that waits to be ended."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def end(child: subprocess.Popen[bytes]) -> int:
    """End *child* and return its status."""
    child.kill()
    child.communicate()
    return child.returncode


def test_recorded_process_is_killed(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A record read back from its file ends the process that it was made of."""
    records = Records(tmp_path / "processes")
    records.add(observe("sleeper", sleeper.pid))
    (record,) = records.read()
    assert record.alive()
    record.kill()
    assert record.wait_ended(10)
    assert end(sleeper) == -9


def test_reused_number_is_spared(sleeper: subprocess.Popen[bytes]) -> None:
    """A process with a recorded number but another start or boot is not the one that was meant."""
    record = observe("sleeper", sleeper.pid)
    for other in (
        dataclasses.replace(record, started_ticks=record.started_ticks - 1),
        dataclasses.replace(record, boot="another"),
    ):
        assert not other.alive()
        other.kill()
    assert sleeper.poll() is None
    assert record.alive()
    end(sleeper)


def test_ended_process_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that has ended but was not collected yet counts as ended."""
    record = observe("sleeper", sleeper.pid)
    sleeper.kill()
    assert record.wait_ended(10)
    record.kill()
    end(sleeper)
    assert not record.alive()
    with pytest.raises(ProcessLookupError):
        observe("sleeper", sleeper.pid)


def test_line_cut_short_is_left_out(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """A record whose writer was killed in the middle does not hide the others."""
    records = Records(tmp_path / "processes")
    assert records.read() == []
    records.add(observe("sleeper", sleeper.pid))
    with (tmp_path / "processes").open("a") as lines:
        lines.write('{"name": "kubelet", "pi')
    assert [record.name for record in records.read()] == ["sleeper"]
    end(sleeper)
