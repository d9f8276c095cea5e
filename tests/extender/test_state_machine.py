"""Two replicas with one API server, and whatever may go wrong between them.

Objects are those of a server; each replica hears of changes in their order, but late. The leader
filters and writes; the last request of a leader that lost the lead may still arrive. However that
goes, a replica counts exactly what pods and promises say, and no device is ever given twice.
"""

import copy
from collections import deque
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from extender.state.audit import Audit, facts, recompute
from extender.state.reading import read_node, read_pod
from hami.containers import JsonObject
from hami.devices import PodDevice  # noqa: TC001 - hypothesis reads annotations
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable
from tests.extender.statemachine import Clocks, World, container, gpu, node, pod

_ALLOCATED = "hami.io/vgpu-devices-allocated"
_MIB, _CORES, _SLOTS = 10_000, 100, 3
_NODES = ("n0", "n1")


def _node(name: str) -> JsonObject:
    gpus = [gpu(f"GPU-{name}-{each}", count=_SLOTS, devmem=_MIB, index=each) for each in range(2)]
    return node(name, gpus)


class Replica:
    """One extender, and what it has not heard yet."""

    def __init__(self, clocks: Clocks) -> None:
        self.world = World(clocks=clocks)
        self.unheard: deque[tuple[str, JsonObject]] = deque()

    def hear(self, number: int) -> None:
        """Take the next changes."""
        for _ in range(min(number, len(self.unheard))):
            kind, item = self.unheard.popleft()
            cluster = self.world.cluster
            if kind == "pod":
                cluster.put_pod(read_pod(item))
            elif kind == "no pod":
                cluster.drop_pod(read_pod(item))
            elif kind == "node":
                cluster.put_node(read_node(item))
            else:
                cluster.drop_node(item["metadata"]["name"])

    def hear_all(self) -> None:
        """Catch up."""
        self.hear(len(self.unheard))


class Replicas(RuleBasedStateMachine):
    """See above."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.clocks = Clocks()
        self.replicas = [Replica(self.clocks), Replica(self.clocks)]
        self.leading = 0
        self.items: dict[str, JsonObject] = {}
        self.nodes: dict[str, JsonObject] = {}
        self.given: dict[str, tuple[PodDevice, ...]] = {}
        """What pods that are bound really have."""
        self.arriving: dict[str, tuple[str, int]] = {}
        """Bindings under way: to which node, and by whom."""
        self.count = 0

    @property
    def leader(self) -> Replica:
        """Return who decides."""
        return self.replicas[self.leading]

    def tell(self, kind: str, item: JsonObject) -> None:
        """Have all replicas hear of something, later."""
        for each in self.replicas:
            each.unheard.append((kind, copy.deepcopy(item)))

    def is_live(self, uid: str) -> bool:
        """Tell whether a pod is there and has not ended."""
        item = self.items.get(uid)
        return item is not None and item["status"]["phase"] in {"Pending", "Running"}

    @initialize()
    def nodes_appear(self) -> None:
        """Begin with all nodes."""
        for name in _NODES:
            self.nodes[name] = _node(name)
            self.tell("node", self.nodes[name])

    @rule(
        target=pods,
        memory_mib=st.sampled_from([3000, 6000, _MIB]),
        cores=st.sampled_from([0, 30, 100]),
        count=st.sampled_from([1, 1, 2]),
        init=st.booleans(),
    )
    def create(self, memory_mib: int, cores: int, count: int, init: bool) -> Any:  # noqa: FBT001
        """Create a pod."""
        self.count += 1
        one = container(gpu=count, gpumem=memory_mib, gpucores=cores)
        inits = [container("init", gpu=1, gpumem=_MIB)] if init else []
        item = pod(f"p{self.count}", one, inits=inits)
        uid = item["metadata"]["uid"]
        self.items[uid] = item
        self.tell("pod", item)
        return multiple(uid)

    @rule(uid=pods, names=st.sampled_from([_NODES, _NODES, ("n0",)]))
    def ask(self, uid: str, names: tuple[str, ...]) -> None:
        """Ask the leader where a pod goes; its scheduler does not while it binds it."""
        waits = self.arriving.get(uid, ("", -1))[1] == self.leading
        if self.is_live(uid) and not self.items[uid]["spec"].get("nodeName") and not waits:
            self.leader.world.filter(copy.deepcopy(self.items[uid]), *names)

    @rule(uid=pods, is_answered=st.booleans(), is_refused=st.booleans())
    def write(self, uid: str, is_answered: bool, is_refused: bool) -> None:  # noqa: FBT001
        """Have the leader write; the server may refuse, or its answer be lost."""
        cluster = self.leader.world.cluster
        promise = cluster.promise(uid)
        item = self.items.get(uid)
        if promise is None:
            return
        if is_refused or item is None or item["spec"].get("nodeName"):
            cluster.drop_promise(uid)
            return
        reservation = promise.reservation
        item["metadata"]["annotations"] |= {
            **reservation.annotations,
            "hami.io/vgpu-node": reservation.placement.node,
            "hami.io/bind-time": str(self.clocks.seconds),
        }
        self.tell("pod", item)
        if is_answered:
            self.arriving[uid] = (reservation.placement.node, self.leading)

    @rule(uid=pods, is_answered=st.booleans(), is_refused=st.booleans())
    def arrive(self, uid: str, is_answered: bool, is_refused: bool) -> None:  # noqa: FBT001
        """Have a binding arrive, be its sender the leader still or not."""
        if uid not in self.arriving:
            return
        where, sender = self.arriving.pop(uid)
        item = self.items.get(uid)
        if item is None or is_refused or item["spec"].get("nodeName"):
            self.replicas[sender].world.cluster.drop_promise(uid)
            return
        item["spec"]["nodeName"] = where
        annotations = item["metadata"]["annotations"]
        slots = decode_pod_devices(annotations.get(_ALLOCATED, ""), None)
        if annotations.get("hami.io/vgpu-node") == where and not isinstance(slots, Undecodable):
            self.given[uid] = slots[-1]
        self.tell("pod", item)
        if is_answered:
            self.replicas[sender].world.cluster.written(uid)

    @rule(uid=consumes(pods), is_heard=st.sampled_from([True, True, False]))
    def delete(self, uid: str, is_heard: bool) -> None:  # noqa: FBT001
        """Delete a pod; the leader may never hear of it."""
        item = self.items.pop(uid, None)
        self.given.pop(uid, None)
        if item is not None:
            self.tell("no pod", item)
            if not is_heard:
                self.leader.unheard.pop()

    @rule(uid=pods)
    def end(self, uid: str) -> None:
        """Have a pod end by itself."""
        if self.is_live(uid) and self.items[uid]["spec"].get("nodeName"):
            self.items[uid]["status"] = {"phase": "Succeeded"}
            self.given.pop(uid, None)
            self.tell("pod", self.items[uid])

    @rule(uid=pods)
    def leave_init(self, uid: str) -> None:
        """Have the init containers of a pod end."""
        if self.is_live(uid) and self.items[uid]["spec"].get("nodeName"):
            done = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
            self.items[uid]["status"] = {"phase": "Running", "initContainerStatuses": [done]}
            self.tell("pod", self.items[uid])

    @rule(uid=pods, text=st.sampled_from(["GPU-n0-0,NVIDIA:;", "GPU-x,NVIDIA,1,1:;"]))
    def spoil(self, uid: str, text: str) -> None:
        """Write nonsense on a pod that has devices; it keeps them."""
        if self.is_live(uid) and self.items[uid]["spec"].get("nodeName"):
            self.items[uid]["metadata"]["annotations"][_ALLOCATED] = text
            self.tell("pod", self.items[uid])

    @rule(name=st.sampled_from(_NODES))
    def go_or_come(self, name: str) -> None:
        """Take a node away, or bring it back."""
        if name in self.nodes:
            self.tell("no node", self.nodes.pop(name))
        else:
            self.nodes[name] = _node(name)
            self.tell("node", self.nodes[name])

    @rule(which=st.integers(0, 1), number=st.integers(1, 9))
    def hear(self, which: int, number: int) -> None:
        """Have a replica hear of some changes."""
        self.replicas[which].hear(number)

    @rule(seconds=st.sampled_from([1, 10, 29, 31]))
    def pass_time(self, seconds: int) -> None:
        """Let time pass, in which watches catch up and requests arrive or fail."""
        for uid in tuple(self.arriving):
            self.arrive(uid, is_answered=True, is_refused=False)
        for each in self.replicas:
            each.hear_all()
        self.clocks.seconds += seconds
        for each in self.replicas:
            each.world.cluster.tick()

    @precondition(lambda self: not self.arriving)
    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        """Begin a replica anew with all there is."""
        fresh = self.replicas[which] = Replica(self.clocks)
        fresh.unheard.extend(("pod", copy.deepcopy(each)) for each in self.items.values())
        fresh.unheard.extend(("node", copy.deepcopy(each)) for each in self.nodes.values())
        fresh.hear_all()

    @rule()
    def change_leader(self) -> None:
        """Have the other replica lead, after it has caught up."""
        self.leader.world.cluster.drop_promises()
        self.leading = 1 - self.leading
        self.leader.world.cluster.drop_promises()
        self.leader.hear_all()

    @rule(which=st.integers(0, 1))
    def audit(self, which: int) -> None:
        """Reckon all use, find nothing wrong, and drop ghosts."""
        replica = self.replicas[which]
        replica.hear_all()
        found = Audit(cluster=replica.world.cluster)
        for _ in found.run():
            pass
        assert (found.nodes, found.namespaces) == ([], [])
        for uid, holder in replica.world.cluster.holders():
            if holder.pod is not None and uid not in self.items:
                replica.world.cluster.drop_pod(holder.pod)

    @invariant()
    def usage_is_what_pods_and_promises_say(self) -> None:
        """Compare kept and reckoned use on every replica."""
        for each in self.replicas:
            cluster = each.world.cluster
            reckoned = {name: facts(usage) for name, usage in recompute(cluster).items()}
            kept = {place.name: facts(place.usage) for place in cluster.places if place.usage}
            assert kept == reckoned

    @invariant()
    def pods_that_run_count_once(self) -> None:
        """Check that nothing is promised any more to a pod that is known to run."""
        for each in self.replicas:
            for _, holder in each.world.cluster.holders():
                assert len(holder.booked) <= (1 if holder.pod and holder.pod.node else 2)

    @invariant()
    def no_device_is_given_twice(self) -> None:
        """Check that what pods really have fits on the devices."""
        found: dict[str, tuple[int, int, int]] = {}
        for uid, devices in self.given.items():
            if self.is_live(uid):
                for each in devices:
                    slots, mib, cores = found.get(each.uuid, (0, 0, 0))
                    found[each.uuid] = (slots + 1, mib + each.memory_mib, cores + each.cores)
        for slots, mib, cores in found.values():
            assert slots <= _SLOTS
            assert mib <= _MIB
            assert cores <= _CORES

    def teardown(self) -> None:
        """Have everything heard: nothing that is gone holds anything."""
        self.pass_time(31)
        for uid in tuple(self.items):
            self.tell("no pod", self.items.pop(uid))
        for each in range(2):
            self.audit(each)
            cluster = self.replicas[each].world.cluster
            self.clocks.seconds += 301
            cluster.tick()
            assert not list(cluster.holders())
            assert cluster.bounds.used() == {}
            assert len(cluster.places) == len(self.nodes)


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
