"""A plugin that is killed while it hands out, before and after each of its requests."""

import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.hami.plugin.faulty import Fault, FaultyWay
from tests.hami.plugin.kubelet import DEADLINE_S, Kubelet
from tests.hami.plugin.launcher import Plugin
from tests.hami.plugin.placed import Cluster, given, uuid

REQUESTS = 6
"""Of a call for a pod that has the lock."""


def until(condition: Callable[[], object]) -> None:
    """Wait for *condition*."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.KILLED_AFTER])
def test_the_next_pod_is_served_by_the_next_plugin(
    cluster: Cluster, tmp_path: Path, fault: Fault
) -> None:
    """The lock is free soon, and a pod that kubelet did not give up can still be served."""
    with FaultyWay(cluster.server) as way, Kubelet(tmp_path / "device-plugins") as kubelet:
        plugin = Plugin(tmp_path, way.url, way.token)
        kubelet.wait_lists(1)
        for number in range(REQUESTS):
            # At its start the plugin looks whether an earlier one left the lock behind.
            until(lambda: way.count > 0 and not cluster.locked_by())
            name = f"pod-{number}"
            cluster.pod(name, f"{given(0)};")
            way.kill = plugin.kill
            way.break_at(number, fault)
            with pytest.raises(grpc.RpcError):
                kubelet.allocate([f"{uuid(0)}-{number % 4}"])
            assert plugin.was_killed()
            way.heal()
            if cluster.left(name) == [[uuid(0)]]:
                assert (cluster.phase(name), cluster.locked_by()) == ("allocating", name)
            else:
                assert cluster.phase(name) == "success"
            plugin = Plugin(tmp_path, way.url, way.token)
            kubelet.wait_lists(number + 2)
            cluster.set_status(name, {"phase": "Failed"})
        until(lambda: way.count > 0 and not cluster.locked_by())
        cluster.pod("last", f"{given(1, 1234)};")
        (answer,) = kubelet.allocate(kubelet.choose(1))
        assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1234m"
        plugin.kill()
        assert plugin.was_killed()


def test_a_kubelet_that_was_not_answered_asks_again(cluster: Cluster, tmp_path: Path) -> None:
    """Both ended at once; the pod gets what is its own."""
    with FaultyWay(cluster.server) as way:
        for number in range(REQUESTS - 2):
            way.heal()
            plugin = Plugin(tmp_path, way.url, way.token)
            name = f"pod-{number}"
            with Kubelet(tmp_path / "device-plugins") as kubelet:
                kubelet.wait_lists(1)
                until(lambda: way.count > 0)
                cluster.pod(name, f"{given(number, 1000 + number)};")
                way.kill = plugin.kill
                way.break_at(number, Fault.KILLED)
                with pytest.raises(grpc.RpcError):
                    kubelet.allocate([f"{uuid(number)}-0"])
                assert plugin.was_killed()
            way.heal()
            plugin = Plugin(tmp_path, way.url, way.token)
            with Kubelet(tmp_path / "device-plugins") as kubelet:
                kubelet.wait_lists(1)
                (answer,) = kubelet.allocate(kubelet.choose(1))
                assert answer.envs["POD"] == name
                assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{1000 + number}m"
                assert (cluster.phase(name), cluster.locked_by()) == ("success", "")
            plugin.kill()
            assert plugin.was_killed()
