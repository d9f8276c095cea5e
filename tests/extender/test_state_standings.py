"""Which nodes take pods with devices, as metrics."""

from prometheus_client import CollectorRegistry, generate_latest

from extender.state.reading import pod_reader
from extender.state.standings import Standings
from hami.containers import JsonObject
from tests.extender.statemachine import REGISTER, World, container, gpu, node, pod

_READ = pod_reader({"nvidia.com/gpu"}, {"nvidia.com/gpu"})


def _runs_unknown() -> JsonObject:
    """Return a pod that runs with devices of which nothing is written."""
    found = pod("p", container(gpu=1))
    found["spec"]["nodeName"] = "closed"
    found["status"]["phase"] = "Running"
    return found


def _exported(standings: Standings) -> list[str]:
    registry = CollectorRegistry()
    registry.register(standings)
    lines = generate_latest(registry).decode().splitlines()
    return [line.removeprefix("gpuslice_extender_") for line in lines if line[0] != "#"]


def test_nodes_are_counted_and_those_in_trouble_are_named() -> None:
    """A node that registers nothing is no trouble: it has no devices."""
    world = World()
    unreadable = node("unreadable", [gpu("GPU-c")])
    unreadable["metadata"]["annotations"][REGISTER] = "[{"
    world.put_nodes(
        node("usable", [gpu("GPU-a")]), node("closed", [gpu("GPU-b")]), node("plain"), unreadable
    )
    world.cluster.put_pod(_READ(_runs_unknown()))
    standings = Standings()
    for _ in standings.look(tuple(world.cluster.places)):
        pass
    assert _exported(standings) == [
        'nodes{state="usable"} 1.0',
        'nodes{state="without_devices"} 1.0',
        'nodes{state="left_out"} 1.0',
        'nodes{state="closed"} 1.0',
        'node_refused{node="closed",state="closed"} 1.0',
        'node_refused{node="unreadable",state="left_out"} 1.0',
    ]


def test_before_the_first_look_nothing_is_said() -> None:
    """No number would be right."""
    assert _exported(Standings()) == []
