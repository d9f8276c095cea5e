"""Two pods at a time, in any order: nobody ever gets what is another's."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from protos import deviceplugin_v1beta1_pb2 as api
from tests.fakes.api_server import serving
from tests.hami.plugin.kubelet import Kubelet
from tests.hami.plugin.placed import Cluster, given, parts_of, uuid
from tests.hami.plugin.running import running

TIMES = 1000


@dataclass(slots=True)
class Pod:
    """A pod, what each of its containers was given, and how far kubelet is with it."""

    name: str
    containers: list[list[tuple[int, int]]]
    """Of each container cards and MiB; the first *inits* are init containers."""
    inits: int
    next: int = 0
    is_refused: bool = False

    @property
    def decided(self) -> str:
        """Return the annotation."""
        lists = ("".join(given(card, mib) for card, mib in each) for each in self.containers)
        return "".join(f"{each};" for each in lists)

    def create(self, cluster: Cluster, *, lock: bool) -> None:
        """Have it bound."""
        counts = [len(each) for each in self.containers]
        inits, apps = counts[: self.inits], counts[self.inits :]
        cluster.pod(self.name, self.decided, counts=apps, inits=inits, lock=lock)

    def skip(self) -> bool:
        """Go to the next container that wants devices; tell whether there is one."""
        while self.next < len(self.containers) and not self.containers[self.next]:
            self.next += 1
        return self.next < len(self.containers)

    def expected(self) -> dict[str, str]:
        """Return what the next container has to get."""
        index = self.next
        name = f"init-{index}" if index < self.inits else f"app-{index - self.inits}"
        found = sorted(self.containers[index])
        limits = {
            f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{mib}m" for place, (_, mib) in enumerate(found)
        }
        devices = ",".join(uuid(card) for card, _ in found)
        return {"POD": self.name, "CONTAINER": name, "DEVICES": devices, **limits}


def some_pod(chance: random.Random, name: str) -> Pod:
    """Return a pod of one to three containers, of which one at least has devices."""
    mib = iter(chance.sample(range(1000, 9000), 9))
    sizes = [chance.choice([0, 1, 1, 1, 2]) for _ in range(chance.randint(1, 3))]
    sizes[chance.randrange(len(sizes))] = chance.choice([1, 1, 2])
    containers = [[(card, next(mib)) for card in chance.sample(range(4), size)] for size in sizes]
    return Pod(name, containers, inits=chance.randint(0, len(sizes) - 1))


class Node:
    """The kubelet and the plugin of one node, and how its calls ended."""

    def __init__(self, cluster: Cluster, kubelet: Kubelet) -> None:
        self.cluster, self.kubelet = cluster, kubelet
        self.ended = Counter[str]()

    def try_two(self, chance: random.Random, number: int) -> None:
        """Have two pods bound and their containers started in any order."""
        pods = [some_pod(chance, f"{letter}-{number}") for letter in "ab"]
        holder = chance.choice([None, *pods])
        for pod in pods:
            pod.create(self.cluster, lock=pod is holder)
        waiting = [pod for pod in pods if pod.skip()]
        while waiting:
            pod = chance.choice(waiting)
            if not self.start_next(chance, pod) or not pod.skip():
                waiting.remove(pod)
        for pod in pods:
            if not pod.is_refused:
                self.cluster.delete(pod.name)
        self.kubelet.used.clear()

    def start_next(self, chance: random.Random, pod: Pod) -> bool:
        """Start the next container of *pod*; tell whether it got what it has to get."""
        count = len(pod.containers[pod.next])
        try:
            if chance.random() < 0.6:
                chosen = self.kubelet.choose(count)
            else:
                chosen = chance.sample(self.kubelet.healthy(), count)
            (answer,) = self.kubelet.allocate(chosen)
        except grpc.RpcError as error:
            self.refuse(pod, error)
            return False
        self.check(pod, answer)
        pod.next += 1
        return True

    def refuse(self, pod: Pod, error: grpc.RpcError) -> None:
        """Have a pod gone that cannot be admitted."""
        found: object = getattr(error, "details", str)()
        self.ended[str(found).partition(":")[0]] += 1
        pod.is_refused = True
        self.cluster.delete(pod.name)

    def check(self, pod: Pod, answer: api.ContainerAllocateResponse) -> None:
        """Check that it is the answer to *pod*'s own container."""
        expected = pod.expected()
        assert {name: answer.envs.get(name) for name in expected} == expected
        self.ended["served"] += 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node on which the plugin serves."""
    with serving() as server:
        cluster = Cluster(server)
        with (
            Kubelet(tmp_path / "device-plugins") as kubelet,
            running(tmp_path, parts_of(server.client())),
        ):
            kubelet.wait_lists(1)
            yield Node(cluster, kubelet)


def test_a_thousand_interleavings_swap_nothing(node: Node) -> None:
    """Each container gets its own or an error, also with ids of any other cards."""
    chance = random.Random(86)  # noqa: S311 - the same pods each time
    for number in range(TIMES):
        node.try_two(chance, number)
    refusals = {"PodAmbiguous", "DevicesNotMatched"}
    assert node.ended["served"] > TIMES
    assert set(node.ended) <= {"served", "DeviceNumberNotMatched", "NoBindingPod", *refusals}
    assert all(node.ended[each] for each in refusals)
