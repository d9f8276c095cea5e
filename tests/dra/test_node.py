"""The node as calls see it."""

import threading

import pytest

from dra.node import NodeState
from gpu.refusal import RefusedError
from tests.dra.builders import a_gpu, a_view


def test_a_call_before_the_first_view_says_what_is_missing() -> None:
    """Kubelet shows the reason and tries again."""
    state = NodeState()
    state.fail("no NVIDIA driver below /run/nvidia/driver")
    with pytest.raises(RefusedError, match="NodeNotReady") as caught:
        state.current(wait_s=0.0)
    assert "no NVIDIA driver below /run/nvidia/driver" in str(caught.value)
    assert state.problem() == "no NVIDIA driver below /run/nvidia/driver"


def test_a_call_waits_for_the_first_view() -> None:
    """It may come while kubelet already calls."""
    state, view = NodeState(), a_view(a_gpu())
    thread = threading.Timer(0.01, state.set, [view])
    thread.start()
    assert state.current(wait_s=20.0) is view
    thread.join()


def test_an_earlier_view_outlives_a_failure() -> None:
    """What is prepared can still be answered and restored, but the failure is not hidden."""
    state, view = NodeState(), a_view(a_gpu())
    assert not state.is_known()
    state.set(view)
    assert state.problem() is None
    state.fail("lost")
    assert state.current(wait_s=0.0) is view
    assert state.is_known()
    assert state.problem() == "lost"
    state.set(view)
    assert state.problem() is None


def test_a_missing_library_is_refused_with_its_reason() -> None:
    """A share must not run without limits because of it."""
    with pytest.raises(RefusedError, match="LibraryMissing") as caught:
        a_view(a_gpu(), library=None).require_library()
    assert "no HAMi-core library is configured" in str(caught.value)
