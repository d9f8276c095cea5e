"""The numbers by which a monitor steers the library are stored whole, and harm nobody."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from hami.monitor.regions.fields import (
    STORED_MAX,
    STORED_MIN,
    FeedbackFields,
    feedback_fields,
    release,
)
from hami.monitor.regions.file import UnfitError
from hami.monitor.regions.layouts import V1_2
from tests.hami.monitor.regionfiles import NAMES, placed, poke, said_of


@pytest.mark.parametrize("name", NAMES)
def test_the_three_fields_of_each_layout(name: str, tmp_path: Path) -> None:
    """What is stored is found again, and not one other byte has changed."""
    path = placed(name, tmp_path / "region.cache")
    before = path.read_bytes()
    with feedback_fields(path) as fields:
        assert fields.priority == said_of(name)["priority"]
        found = (fields.recent_kernel, fields.utilization_switch)
        assert found == (said_of(name)["recent_kernel"], 1)
        fields.set_recent_kernel(-1)
        fields.set_utilization_switch(0)
        assert (fields.recent_kernel, fields.utilization_switch) == (-1, 0)
        fields.set_recent_kernel(found[0])
        fields.set_utilization_switch(1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [STORED_MIN, -1, 0, 1, 2, STORED_MAX])
def test_numbers_keep_their_sign(value: int, tmp_path: Path) -> None:
    """All numbers that fit are stored as they are; others are refused."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    with feedback_fields(path) as fields:
        fields.set_recent_kernel(value)
        assert fields.recent_kernel == value
        for wrong in (STORED_MIN - 1, STORED_MAX + 1):
            with pytest.raises(ValueError, match="not stored"):
                fields.set_recent_kernel(wrong)


def test_a_region_cut_under_its_writer_is_an_error_and_no_end(tmp_path: Path) -> None:
    """A container that cuts its region cannot end the agent, which maps it at that moment."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    with feedback_fields(path) as fields:
        os.truncate(path, 0)
        with pytest.raises(OSError, match="Bad address"):
            fields.set_recent_kernel(-1)


@pytest.mark.parametrize("size", [0, 4096, 2008900])
def test_a_cut_region_is_not_written(size: int, tmp_path: Path) -> None:
    """Nothing is stored in what is no region, nor in one that nobody has set up."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    os.truncate(path, size)
    with pytest.raises(UnfitError), feedback_fields(path) as fields:
        fields.set_recent_kernel(-1)
    path.write_bytes(bytes(2008953))
    with pytest.raises(UnfitError), feedback_fields(path):
        pass
    assert not release(path)
    assert path.read_bytes() == bytes(2008953)


def test_a_region_in_reset_is_left_alone(tmp_path: Path) -> None:
    """Whoever resets a region holds a lease, and the writer does not wait for that."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    before = signal.signal(signal.SIGURG, signal.SIG_IGN)
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        with pytest.raises(BlockingIOError), feedback_fields(path):
            pass
        assert not release(path)
    finally:
        os.close(handle)
        signal.signal(signal.SIGURG, before)


def test_release_lets_launches_go_on_and_the_limit_hold(tmp_path: Path) -> None:
    """After it a region is as it is where there is no monitor."""
    path = placed("e_blocked_by_monitor", tmp_path / "region.cache")
    poke(path, V1_2.utilization_switch, 0)
    assert release(path)
    assert fields_of(path) == (0, 1)
    assert not release(path)
    assert not release(tmp_path / "absent")


def fields_of(path: Path) -> tuple[int, int]:
    """Return the two numbers that the monitor stores."""
    with feedback_fields(path) as fields:
        assert isinstance(fields, FeedbackFields)
        return fields.recent_kernel, fields.utilization_switch
