"""Another process writes while a region is read: nothing is torn, and nothing waits."""

import os
import signal
import time
from pathlib import Path

import pytest

from hami.monitor.regions.layouts import (
    V1_1_LONG,
    V1_1_SEQLOCK,
    V1_2,
    Layout,
)
from hami.monitor.regions.model import Region
from hami.monitor.regions.reading import read_region
from tests.hami.monitor.regionfiles import placed, poke, writing
from tests.patience import DEADLINE_S


def everyone(_pid: int, _host_pid: int) -> bool:
    """Take every process for alive."""
    return True


def read(path: Path) -> Region:
    """Read a region that can be read."""
    found = read_region(path, is_alive=everyone)
    assert isinstance(found, Region), found
    return found


@pytest.mark.parametrize("layout", [V1_2, V1_1_LONG, V1_1_SEQLOCK], ids=lambda each: each.name)
def test_no_read_is_torn(layout: Layout, tmp_path: Path) -> None:
    """While another process writes all the time, a thousand reads find only what was whole."""
    name = {V1_2: "old/b69b1ea", V1_1_LONG: "old/e200da2", V1_1_SEQLOCK: "old/1988c5d"}[layout]
    path = placed(name, tmp_path / "region.cache")
    seen: set[int] = set()
    reads = 0
    deadline_s = time.monotonic() + DEADLINE_S
    with writing(path, layout):
        # On a busy machine the writer may stand still for many reads.
        while reads < 1000 or len(seen) < 100:
            assert time.monotonic() < deadline_s
            reads += 1
            (process,) = read(path).processes
            for use in process.used or ():
                values = {
                    *(use.context_bytes, use.module_bytes, use.data_bytes),
                    *(use.offset_bytes, use.total_bytes),
                }
                assert len(values) == 1, values
            if process.used is not None:
                assert len({use.total_bytes for use in process.used}) == 1
                seen.add(process.used[0].total_bytes)


def test_a_read_that_trusted_everything_would_be_torn(tmp_path: Path) -> None:
    """The writer of these tests does tear what is read without its sequence number."""
    path = placed("old/b69b1ea", tmp_path / "region.cache")
    start = V1_2.slots + V1_2.slot.used
    deadline_s = time.monotonic() + DEADLINE_S
    with writing(path), path.open("rb") as file:
        raw = bytes(104)
        while raw[:8] == raw[96:104]:
            assert time.monotonic() < deadline_s
            raw = os.pread(file.fileno(), 104, start)


def test_a_killed_writer_stops_nobody(tmp_path: Path) -> None:
    """A sequence number that stays odd makes the usage unknown, soon, and hides nothing else."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    poke(path, V1_2.slots + 1936, 13, size=8)
    began_s = time.monotonic()
    region = read(path)
    assert time.monotonic() - began_s < 5.0
    assert [each.used for each in region.processes] == [None]
    assert region.used_bytes(0) is None
    assert region.utilization_percent(0) is None
    assert len(region.devices) == 2


def test_a_writer_killed_while_it_writes_stops_nobody(tmp_path: Path) -> None:
    """A real one, stopped and killed at any moment, leaves a region that is read all the same."""
    path = placed("old/b69b1ea", tmp_path / "region.cache")
    for _ in range(10):
        with writing(path) as child:
            time.sleep(0.01)
            child.send_signal(signal.SIGSTOP)
            read(path)
        region = read_region(path, is_alive=lambda _pid, _host_pid: False)
        assert isinstance(region, Region)
        assert region.used_bytes(0) == 0


def test_many_stuck_slots_share_an_allowance(tmp_path: Path) -> None:
    """A container that makes every slot look written to cannot hold up its reader."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    poke(path, V1_2.process_count, 1024)
    for number in range(1024):
        start = V1_2.slots + number * V1_2.slot.size
        poke(path, start, 25842)
        poke(path, start + V1_2.slot.status, 1)
        poke(path, start + 1936, 1, size=8)
    region = read(path)
    assert len(region.processes) == 1024
    assert {each.used for each in region.processes} == {None}
