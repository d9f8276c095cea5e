"""The thread that reads the inventory: its end, whatever it is doing then, and its next look."""

from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from gpu import driver
from gpu.errors import DriverNotFoundError, StoppedError
from tests.dra.reading import TWO_GPUS, Machine, a_machine
from tests.patience import eventually


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine without a driver yet."""
    with a_machine(tmp_path) as machine:
        yield machine


def open_sessions() -> int:
    """Return how many sessions the simulated library has open."""
    return int(pynvml.nvmlLib.node.sessions)


def test_the_session_ends_with_the_thread(machine: Machine) -> None:
    """Also while it waits for XIDs; the library has no session and no event set then."""
    machine.has(TWO_GPUS)
    with capture_logs() as logged, machine.reading():
        eventually(lambda: machine.seen)
        assert open_sessions() == 1
    assert open_sessions() == 0
    assert pynvml.nvmlLib._events._sets == {}
    assert logged[-1]["event"] == "nvml session closed"


def test_a_look_that_is_under_way_ends_early(machine: Machine) -> None:
    """With a driver that is slow, a whole look may take far longer than the agent has."""
    machine.has("{delays_s: {nvmlDeviceGetName: 0.2}, gpus: [{profile: l4, count: 200}]}")
    with machine.reading() as stop:
        eventually(lambda: open_sessions() == 1)
        stop.set()
    assert machine.seen == []
    assert machine.failures == []
    assert open_sessions() == 0


def test_giving_up_on_a_driver_is_no_failure_of_it(machine: Machine) -> None:
    """An agent that ends while it looks for the driver says nothing about the GPUs."""
    with machine.reading() as stop:
        eventually(lambda: machine.failures)

        def locate() -> driver.DriverRoot:
            stop.set()
            raise DriverNotFoundError([])

        machine.failures.clear()
        machine.reader._problem = ""
        machine.reader._locate = locate
        with pytest.raises(StoppedError):
            machine.reader.read()
    assert machine.failures == []


def test_a_look_that_is_asked_for_comes_soon(machine: Machine) -> None:
    """Whoever makes a MIG device need not wait for the next look, which here is in an hour."""
    machine.has(TWO_GPUS)
    with machine.reading():
        eventually(lambda: machine.seen)
        machine.has("gpus: [{profile: l4, count: 3}]")
        machine.reader.look()
        eventually(lambda: len(machine.seen) == 2)
    assert len(machine.seen[-1].gpus) == 3
