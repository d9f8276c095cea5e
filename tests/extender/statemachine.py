"""A cluster in memory as the extender's state sees it: objects in, decisions out, time by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from extender.choosing import NodeChooser
from extender.model import NodeUsage, Policies
from extender.parts import Answer, Chosen, Reservation
from extender.state.cluster import Cluster
from extender.state.reading import read_node, read_pod, read_quota
from extender.wire import Names
from hami.containers import JsonObject
from hami.deviceconfig import DeviceConfig

REGISTER = "hami.io/node-nvidia-register"
_START = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass(slots=True)
class Clocks:
    """Both clocks of a state, moved by hand."""

    seconds: float = 1000.0

    def now_s(self) -> float:
        """Return the seconds."""
        return self.seconds

    def wall(self) -> datetime:
        """Return the same as a time of day."""
        return _START + timedelta(seconds=self.seconds)


def gpu(uuid: str, **said: Any) -> JsonObject:
    """Return one entry of NVIDIA's register."""
    return {
        "id": uuid,
        "count": 10,
        "devmem": 16384,
        "devcore": 100,
        "type": "NVIDIA-Tesla T4",
        "mode": "hami-core",
        "health": True,
    } | said


def node(
    name: str, gpus: Sequence[JsonObject] = (), *, allocatable: int = 10, **annotations: str
) -> JsonObject:
    """Return a node that registers *gpus*; of keys in *annotations* `__` is `/`, `_` is `-`."""
    found = {key.replace("__", "/").replace("_", "-"): said for key, said in annotations.items()}
    if gpus:
        found[REGISTER] = json.dumps(list(gpus))
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": found},
        "status": {"allocatable": {"nvidia.com/gpu": str(allocatable)}},
    }


def container(name: str = "main", **limits: int) -> JsonObject:
    """Return a container; *limits* are gpu, gpumem, gpumem_percentage, gpucores."""
    said = {f"nvidia.com/{key.replace('_', '-')}": str(value) for key, value in limits.items()}
    return {"name": name, "resources": {"limits": said}}


def pod(
    name: str,
    *containers: JsonObject,
    inits: Sequence[JsonObject] = (),
    annotations: Mapping[str, str] | None = None,
    namespace: str = "team",
    uid: str = "",
) -> JsonObject:
    """Return a pod that is bound to no node."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "annotations": dict(annotations or {}),
        },
        "spec": {"containers": list(containers), "initContainers": list(inits)},
        "status": {"phase": "Pending"},
    }


def written(pod: JsonObject, reservation: Reservation, *, node: str | None = None) -> JsonObject:
    """Return *pod* with a decision written on it, bound to *node* where one is named."""
    found = json.loads(json.dumps(pod))
    found["metadata"]["annotations"] |= {
        **reservation.annotations,
        "hami.io/vgpu-node": reservation.placement.node,
    }
    if node is not None:
        found["spec"]["nodeName"] = node
    return dict(found)


@dataclass(slots=True)
class World:
    """A state with its chooser; *put* and *drop* are what watches would tell."""

    config: DeviceConfig = field(default_factory=DeviceConfig)
    policies: Policies = field(default_factory=Policies)
    clocks: Clocks = field(default_factory=Clocks)
    cluster: Cluster = field(init=False)
    chooser: NodeChooser = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.cluster = Cluster(self.config, clock=self.clocks.now_s, wall=self.clocks.wall)
        self.chooser = NodeChooser(self.cluster, self.policies)

    def put_nodes(self, *nodes: JsonObject) -> None:
        """Tell of nodes."""
        for each in nodes:
            self.cluster.put_node(read_node(each))

    def put_pods(self, *pods: JsonObject) -> None:
        """Tell of pods."""
        for each in pods:
            self.cluster.put_pod(read_pod(each))

    def drop_pod(self, pod: JsonObject) -> None:
        """Tell that a pod is gone."""
        self.cluster.drop_pod(read_pod(pod))

    def put_quota(self, namespace: str, **hard: str) -> None:
        """Tell of a quota on gpumem and gpucores."""
        said = {f"limits.nvidia.com/{key}": value for key, value in hard.items()}
        quota = {"metadata": {"namespace": namespace, "name": "quota"}, "spec": {"hard": said}}
        self.cluster.put_quota(read_quota(quota))

    def pass_time(self, seconds: float) -> None:
        """Let time pass and have the state notice."""
        self.clocks.seconds += seconds
        self.cluster.tick()

    def filter(self, pod: JsonObject, *names: str) -> Answer:
        """Ask where a pod goes; without *names* among all nodes."""
        known = [place.name for place in self.cluster.places if place.node is not None]
        return self.chooser.choose(pod, Names.of(names or known))

    def place(self, pod: JsonObject, *names: str) -> Reservation:
        """Have a pod placed and return what it was promised."""
        answer = self.filter(pod, *names)
        assert isinstance(answer, Chosen), answer
        promise = self.cluster.promise(pod["metadata"]["uid"])
        assert promise is not None
        return promise.reservation

    def usage(self, name: str) -> NodeUsage:
        """Return a node as decisions see it."""
        place = self.cluster.places.get(name)
        assert place is not None
        assert place.usage is not None
        return place.usage

    def used(self, name: str) -> dict[str, tuple[int, int, int]]:
        """Return slots, MiB and cores used of each GPU that has any."""
        return {
            each.device.uuid: (each.used_slots, each.used_mib, each.used_cores)
            for each in self.usage(name).devices["NVIDIA"]
            if each.used_slots or each.used_mib or each.used_cores
        }
