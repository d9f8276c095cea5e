"""Tests of the folders of test sessions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.places import State
from tests.cluster.process import Records, observe
from tests.cluster.slots import slot


def test_sessions_side_by_side_have_folders_of_their_own(tmp_path: Path) -> None:
    """A folder that is held is not given out again before it is let go."""
    with slot(tmp_path) as first:
        with slot(tmp_path) as second:
            assert first != second
        with slot(tmp_path) as third:
            assert third == second
    with slot(tmp_path) as again:
        assert again == first


def test_leftovers_of_a_killed_session_are_cleared(tmp_path: Path) -> None:
    """What a session recorded and left running is ended before the folder is given out."""
    with slot(tmp_path) as folder:
        pass
    state = State(folder / "cluster")
    state.make()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        Records(state.processes).add(observe("left", child.pid))
        with slot(tmp_path) as again:
            assert again == folder
            assert not state.folder.exists()
            assert child.wait(10) == -9


def test_failing_session_lets_go(tmp_path: Path) -> None:
    """A session that ends by an error leaves no folder behind."""
    with pytest.raises(BlockingIOError), slot(tmp_path) as folder:
        raise BlockingIOError
    assert not folder.exists()
