"""The agent as a device plugin: what its node's kubelet, pods and administrator see of it."""

import json
import shutil
from collections.abc import Callable, Iterator

import pytest

from hami.plugin.containers import owner_name
from tests.agent.cards import CONTAINER, CardScene, card_scene
from tests.agent.mounts import may_mount
from tests.patience import eventually
from tests.region_user import is_empty, using

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
QUICK = ("--scan-interval-s=0.2", "--xid-recovery-s=0.1")
ILL = "gpus: [{profile: l4, xids: [79]}, {profile: a10}]"
WELL = "gpus: [{profile: l4}, {profile: a10}]"
LOST = "gpus: [{profile: l4, errors: {nvmlDeviceGetMemoryInfo: GPU_IS_LOST}}, {profile: a10}]"


@pytest.fixture
def cards() -> Iterator[CardScene]:
    """Make a node with two GPUs and a kubelet; no agent yet."""
    with card_scene() as made:
        yield made


def unhealthy(cards: CardScene) -> set[str]:
    """Return the GPUs of which kubelet was last told that they are unhealthy."""
    devices = cards.kubelet.lists[-1].devices
    return {each.ID.rpartition("-")[0] for each in devices if each.health == "Unhealthy"}


def announced_ill(cards: CardScene) -> set[str]:
    """Return the GPUs of which the Node says so."""
    return {each["id"] for each in json.loads(cards.register()) if not each.get("health")}


def writes(cards: CardScene) -> list[tuple[str, str]]:
    """Return verb and path of all that agents have written so far."""
    records = cards.stage.control.call(lambda: cards.stage.control.server.requests)
    return [(each.verb, each.path) for each in records if each.verb in WRITES]


def test_a_start_ends_with_kubelet_and_the_node_told(cards: CardScene) -> None:
    """Kubelet has ten parts of each GPU, the Node names both, and one write was enough for it."""
    agent = cards.started()

    first, second = (each.uuid for each in cards.host.gpus)
    ids = {each.ID for each in cards.kubelet.lists[-1].devices}
    assert ids == {f"{uuid}-{number}" for uuid in (first, second) for number in range(10)}
    assert {each["id"] for each in json.loads(cards.register())} == {first, second}
    assert unhealthy(cards) == announced_ill(cards) == set()
    assert [verb for verb, _ in writes(cards)] == ["patch"]
    lines = agent.ask("/readyz")[1].splitlines()
    assert {line for line in lines if line.endswith(": ok")} >= {
        "kubelet: ok",
        "gpus: ok",
        "node: ok",
    }


def test_a_restart_changes_nothing_for_pods_that_run(cards: CardScene) -> None:
    """Region, record and specs stay as they are, and the API server is told nothing."""
    first = cards.started()
    _, uid = cards.hand_out()
    files = (cards.region(uid), cards.record(uid), *cards.host.cdi.iterdir())
    with using(cards.region(uid)):
        before = [(path.stat().st_ino, path.read_bytes()) for path in files]
        written = len(writes(cards))
        assert first.terminate() == 0

        cards.started("--restore-interval-s=0.2")
        name, _ = cards.hand_out(1)

        assert [(path.stat().st_ino, path.read_bytes()) for path in files] == before
        mine = [path for _, path in writes(cards)[written:] if not path.endswith(f"/{name}")]
        # The lock of the node, for the second pod.
        assert {path.rpartition("/")[2] for path in mine} <= {"node-1"}


def test_after_a_reboot_regions_are_there_before_kubelet_is_served(cards: CardScene) -> None:
    """Kubelet starts containers by the answers that it keeps, without asking again."""
    first = cards.started()
    uids = [cards.hand_out(index)[1] for index in (0, 1)]
    first.kill()
    cards.host.reboot()
    shutil.rmtree(cards.host.regions)
    written = len(writes(cards))

    cards.started()

    cards.check_left(*uids)
    assert all(is_empty(cards.region(uid)) for uid in uids)
    assert all(cards.region(uid).parent.is_mount() for uid in uids) is may_mount()
    assert [path.name for path in cards.host.cdi.iterdir()] == ["k8s.gpuslice.io-card.json"]
    assert writes(cards)[written:] == []


def test_another_kubelet_is_told_of_the_plugin(cards: CardScene) -> None:
    """One that starts anew has removed the plugin's socket and knows nobody."""
    cards.started()
    cards.restart_kubelet()

    cards.kubelet.wait_lists(1)
    cards.hand_out()


def test_the_failure_of_one_gpu_leaves_the_other(cards: CardScene) -> None:
    """Kubelet and scheduler hear which one it is, and when it is well again."""
    # The next agent has nothing to write, and so nothing to wait for before it may write.
    cards.started().kill()
    cards.started(*QUICK)
    first = cards.host.gpus[0].uuid

    cards.host.set_gpus(ILL)
    eventually(lambda: unhealthy(cards) == announced_ill(cards) == {first})
    cards.hand_out(1)

    cards.host.set_gpus(WELL)
    eventually(lambda: unhealthy(cards) == announced_ill(cards) == set())
    cards.hand_out()


def test_a_gpu_that_is_lost_is_unhealthy(cards: CardScene) -> None:
    """One of which the driver says nothing any more is not forgotten; it may come back."""
    cards.started().kill()
    cards.started(*QUICK)

    cards.host.set_gpus(LOST)
    first = cards.host.gpus[0].uuid
    eventually(lambda: unhealthy(cards) == announced_ill(cards) == {first})
    cards.hand_out(1)

    cards.host.set_gpus(WELL)
    eventually(lambda: unhealthy(cards) == set())
    cards.hand_out()


def test_what_a_gone_pod_had_goes_after_a_while(cards: CardScene) -> None:
    """A process that still uses the region keeps it, and a pod that is there does."""
    agent = cards.started("--restore-interval-s=0.2", "--container-grace-s=0")
    name, uid = cards.hand_out()
    _, other = cards.hand_out(1)
    with using(cards.region(uid)):
        cards.cluster.delete(name)
        _, last = cards.hand_out(1)
        cards.check_left(uid, other, last)

    agent.wait_logged("container's region removed")
    cards.check_left(other, last)


def event_of_node(cards: CardScene, part: str) -> Callable[[], bool]:
    """Return what tells whether an Event of the Node says *part*."""
    return lambda: any(
        part in each["message"]
        for each in cards.cluster.events()
        if each["involvedObject"]["kind"] == "Node"
    )


def test_a_mistake_in_the_node_configuration_changes_nothing(cards: CardScene) -> None:
    """The last good one holds until it is mended; the Node says what is wrong with the new one."""
    path = cards.host.root / "config.json"
    good = {"nodeconfig": [{"name": "node-1", "devicesplitcount": 4}]}
    path.write_text(json.dumps(good))
    cards.started(f"--node-config={path}").kill()
    cards.started(f"--node-config={path}", *QUICK)
    assert len(cards.kubelet.lists[-1].devices) == 8
    # A busy machine may have said that kubelet does not know the plugin yet.
    assert not event_of_node(cards, "devicesplitc")()

    def replace(text: str) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(path)
        # A change of the Node has the file looked at too, and not only every half a minute.
        cards.cluster.annotate("nodes", "node-1", {"touched": text}, namespace="")

    replace(json.dumps(good).replace("devicesplitcount", "devicesplitcuont"))
    eventually(event_of_node(cards, "devicesplitcuont"))
    cards.hand_out()
    assert len(cards.kubelet.lists[-1].devices) == 8

    replace(json.dumps(good).replace("4", "5"))
    eventually(lambda: len(cards.kubelet.lists[-1].devices) == 10)
    eventually(lambda: {each["count"] for each in json.loads(cards.register())} == {5})


def test_regions_can_lie_where_the_monitor_of_hami_looks(cards: CardScene) -> None:
    """They are made, shown to the container and taken away there, and nowhere else."""
    hook = cards.host.root / "hook"
    agent = cards.started(
        "--hami-layout", f"--hook-path={hook}", "--container-grace-s=0", "--restore-interval-s=0.2"
    )
    name, uid = cards.place()
    answer = cards.allocate()

    region = hook / "vgpu" / "containers" / owner_name(uid, CONTAINER) / "region.cache"
    assert str(region) in {mount.host_path for mount in answer.mounts}
    assert region.is_file()
    assert list(cards.host.regions.glob("*")) == []

    cards.cluster.delete(name)
    eventually(lambda: not region.parent.exists())
    assert agent.exit_code is None


def test_an_external_node_configuration_stands_for_the_other(cards: CardScene) -> None:
    """It counts from the next look on after it has appeared."""
    own, external = cards.host.root / "own.json", cards.host.root / "external.json"
    own.write_text('{"nodeconfig": [{"name": "*", "devicesplitcount": 3}]}')
    cards.started(f"--node-config={own}", f"--external-node-config={external}", *QUICK)
    assert {each["count"] for each in json.loads(cards.register())} == {3}
    external.write_text('{"nodeconfig": [{"name": "*", "devicesplitcount": 5}]}')
    cards.cluster.annotate("nodes", "node-1", {"touched": "yes"}, namespace="")
    eventually(lambda: {each["count"] for each in json.loads(cards.register())} == {5})
