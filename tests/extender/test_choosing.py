"""The best node is found without looking at all, and every other node hears why it is not."""

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.choosing import Best
from extender.choosing_reasons import Told
from extender.model import Ask, Policies
from extender.parts import Chosen, Failed, NotAsked, Unfit
from extender.wire import Names, SentNode
from hami.containers import JsonObject
from tests.extender.statemachine import REGISTER, World, container, gpu, node, pod

_MODELS = ("NVIDIA-Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA H100")
_PROFILES = [
    {
        "name": "1g.5gb",
        "memoryMB": 4864,
        "core": 15,
        "sliceCount": 1,
        "placements": [{"start": each, "size": 1} for each in range(3)],
    },
    {
        "name": "3g.20gb",
        "memoryMB": 19968,
        "core": 45,
        "sliceCount": 3,
        "placements": [{"start": 0, "size": 4}],
    },
]


@st.composite
def _gpus(draw: st.DrawFn, name: str) -> list[JsonObject]:
    number = draw(st.sampled_from([0, 1, 1, 2, 2, 3, 4, 9]))
    return [_gpu(draw, f"GPU-{name}-{index}", index) for index in range(number)]


def _gpu(draw: st.DrawFn, uuid: str, index: int) -> JsonObject:
    mode = draw(st.sampled_from(["hami-core"] * 5 + ["mig"]))
    return gpu(
        uuid,
        index=index,
        count=draw(st.sampled_from([10, 10, 2, 1, 0])),
        devmem=draw(st.sampled_from([16384, 16384, 40960, 0, 2**31 - 1])),
        devcore=draw(st.sampled_from([100, 100, 100, 200, 0])),
        type=draw(st.sampled_from(_MODELS)),
        numa=draw(st.integers(0, 1)),
        mode=mode,
        migProfiles=_PROFILES if mode == "mig" else [],
        health=draw(st.sampled_from([True] * 6 + [False])),
    )


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    world = World(
        policies=Policies(
            node_policy=draw(st.sampled_from(["binpack", "spread"])),
            gpu_policy=draw(st.sampled_from(["spread", "binpack", "mutex", "topology-aware"])),
        )
    )
    number = draw(st.integers(0, 9))
    for each in range(number):
        name = f"n{each}"
        gpus = draw(_gpus(name))
        cordoned = ",".join(draw(st.lists(st.sampled_from([one["id"] for one in gpus] or [""]))))
        world.put_nodes(node(name, gpus, hami_io__device_cordon=cordoned))
        _fill(draw, world, name, [one["id"] for one in gpus])
    if draw(st.booleans()):
        world.put_quota("team", gpumem=draw(st.sampled_from(["0", "9000", "40000"])))
    if draw(st.booleans()):
        world.put_quota("team", gpucores=draw(st.sampled_from(["0", "60", "150"])))
    return world


def _fill(draw: st.DrawFn, world: World, name: str, uuids: list[str]) -> None:
    """Put some pods on a node, seldom one that uses a GPU which the node does not have."""
    if not uuids:
        return
    known = st.sampled_from([*uuids * 6, "GPU-elsewhere"])
    sizes = st.sampled_from(["1000,10", "8000,0", "16384,100", "3000,50"])
    for number, (uuid, size) in enumerate(draw(st.lists(st.tuples(known, sizes), max_size=5))):
        holder = pod(f"{name}-{number}", container(gpu=1), namespace="others")
        holder["metadata"]["annotations"] = {
            "hami.io/vgpu-node": name,
            "hami.io/vgpu-devices-allocated": f"{uuid},NVIDIA,{size}:;",
        }
        holder["spec"]["nodeName"] = name
        world.put_pods(holder)


@st.composite
def _containers(draw: st.DrawFn) -> JsonObject:
    limits = {"gpu": draw(st.sampled_from([1, 1, 1, 2, 3, 5]))}
    limits |= draw(
        st.sampled_from(
            [{"gpumem": 1000}, {"gpumem": 9000}, {"gpumem": 20000}, {"gpumem_percentage": 30}, {}]
        )
    )
    limits |= draw(st.sampled_from([{}, {"gpucores": 10}, {"gpucores": 60}, {"gpucores": 100}]))
    return container(draw(st.text("abc", min_size=1)), **limits)


@st.composite
def _pods(draw: st.DrawFn) -> JsonObject:
    inits = draw(st.lists(_containers(), max_size=1)) if draw(st.booleans()) else []
    wishes = {
        "nvidia.com/use-gputype": st.sampled_from(["T4", "A100,H100"]),
        "nvidia.com/nouse-gputype": st.just("Tesla"),
        "nvidia.com/use-gpuuuid": st.sampled_from(["GPU-n1-0", "GPU-n2-0,GPU-n3-1"]),
        "nvidia.com/nouse-gpuuuid": st.just("GPU-n0-0,GPU-n1-0"),
        "nvidia.com/numa-bind": st.just("true"),
        "nvidia.com/vgpu-mode": st.sampled_from(["mig", "hami-core"]),
        "hami.io/gpu-scheduler-policy": st.sampled_from(["mutex", "binpack", "numa,spread"]),
        "hami.io/node-scheduler-policy": st.sampled_from(["binpack", "spread"]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(wishes)), max_size=2, unique=True))
    annotations = {key: draw(wishes[key]) for key in chosen}
    containers = draw(st.lists(_containers(), min_size=1, max_size=2))
    return pod("asking", *containers, inits=inits, annotations=annotations)


def _answers(world: World, asking: JsonObject, names: Names) -> tuple[Best | Told, Best | Told]:
    ask = world.chooser.read(asking)
    assert isinstance(ask, Ask), ask
    return world.chooser.decide(ask, names), world.chooser.scan(ask, Names(names.raw))


@settings(max_examples=120, deadline=None)
@given(world=_worlds(), asking=_pods(), data=st.data())
def test_choice_is_that_of_a_full_scan(world: World, asking: JsonObject, data: Any) -> None:
    """Whatever the cluster, the ask and the names, both ways come to the same node and devices."""
    known = [f"n{each}" for each in range(10)]
    asked = data.draw(st.lists(st.sampled_from(known), unique=True))
    padding = [f"far-{each}" for each in range(data.draw(st.sampled_from([0, 600])))]
    quick, exact = _answers(world, asking, Names.of(asked + padding))
    if isinstance(exact, Best):
        assert isinstance(quick, Best)
        assert quick.placement == exact.placement
        return
    assert isinstance(quick, Told), quick
    texts, expected = quick.texts(), exact.texts()
    assert texts.keys() == expected.keys()
    assert all(texts.values())
    if world.cluster.room("team").is_endless:
        assert texts == expected


@st.composite
def _tight_worlds(draw: st.DrawFn) -> World:
    """Two nodes of one GPU that is nearly full of whatever can run out."""
    world = World()
    for name in ("n0", "n1"):
        uuid = f"GPU-{name}-0"
        only = gpu(
            uuid,
            count=draw(st.integers(1, 3)),
            devcore=draw(st.sampled_from([100, 200])),
            mode=draw(st.sampled_from(["hami-core", "hami-core", "mig"])),
            migProfiles=_PROFILES,
        )
        world.put_nodes(node(name, [only]))
        if draw(st.booleans()):
            _fill(draw, world, name, [uuid])
    return world


@settings(max_examples=150, deadline=None)
@given(
    world=_tight_worlds(),
    count=st.sampled_from([1, 1, 2]),
    memory_mib=st.sampled_from([1000, 8384, 16384]),
    cores=st.sampled_from([0, 10, 90, 100]),
)
def test_what_runs_out_is_told_as_exactly(
    world: World, count: int, memory_mib: int, cores: int
) -> None:
    """Where slots, memory or cores run out, the node and each reason are those of a full scan."""
    asking = pod("asking", container(gpu=count, gpumem=memory_mib, gpucores=cores))
    quick, exact = _answers(world, asking, Names.of(["n0", "n1"]))
    if isinstance(exact, Best):
        assert isinstance(quick, Best)
        assert quick.placement == exact.placement
        return
    assert isinstance(quick, Told)
    assert quick.texts() == exact.texts()


@settings(max_examples=150, deadline=None)
@given(
    free=st.lists(
        st.tuples(st.sampled_from([0, 2000, 5000, 9000, 12000]), st.sampled_from([0, 40, 100])),
        min_size=1,
        max_size=4,
    ),
    asked=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([1000, 2500, 4000]), st.sampled_from([0, 20])),
        min_size=1,
        max_size=3,
    ),
    has_init=st.booleans(),
    numa_bind=st.booleans(),
    over_booked=st.booleans(),
)
def test_containers_together_and_numa_nodes_exclude_no_node_that_fits(
    free: list[tuple[int, int]],
    asked: list[tuple[int, int, int]],
    has_init: bool,  # noqa: FBT001
    numa_bind: bool,  # noqa: FBT001
    over_booked: bool,  # noqa: FBT001
) -> None:
    """Several containers, or GPUs of one NUMA node, are refused only where they do not fit."""
    world = World()
    gpus = [gpu(f"GPU-{row}", index=row, devmem=12000, numa=row % 2) for row in range(len(free))]
    world.put_nodes(node("n", gpus))
    for row, (memory_mib, cores) in enumerate(free):
        used = 130 if over_booked and not cores else 100 - cores
        holder = pod(f"h{row}", container(gpu=1), namespace="others")
        holder["metadata"]["annotations"] = {
            "hami.io/vgpu-node": "n",
            "hami.io/vgpu-devices-allocated": f"GPU-{row},NVIDIA,{12000 - memory_mib},{used}:;",
        }
        world.put_pods(holder)
    containers = [
        container(f"c{each}", gpu=count, gpumem=memory_mib, gpucores=cores)
        for each, (count, memory_mib, cores) in enumerate(asked)
    ]
    inits = containers[1:2] if has_init else []
    wish = {"nvidia.com/numa-bind": "true"} if numa_bind else {}
    asking = pod("asking", *containers, inits=inits, annotations=wish)
    quick, exact = _answers(world, asking, Names.of(["n"]))
    assert isinstance(quick, Best) == isinstance(exact, Best)
    if isinstance(exact, Told):
        assert isinstance(quick, Told)
        assert quick.texts() == exact.texts()


def test_all_cores_of_a_scaled_gpu_may_be_joined() -> None:
    """Where a GPU has more than 100 cores, a pod that asks for 100 is not alone on it."""
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a", devcore=200)]))
    world.place(pod("first", container(gpu=1, gpumem=100, gpucores=50)))
    answer = world.filter(pod("second", container(gpu=1, gpumem=100, gpucores=100)))
    assert isinstance(answer, Chosen)


def test_one_numa_node_with_enough_gpus_is_enough() -> None:
    """Two GPUs of one NUMA node are found whichever the node's other GPUs hang on."""
    world = World()
    gpus = [gpu(f"GPU-{each}", index=each, numa=numa) for each, numa in enumerate([0, 0, 1])]
    world.put_nodes(node("n", gpus), node("m", gpus[1:]))
    asking = pod("p", container(gpu=2), annotations={"nvidia.com/numa-bind": "true"})
    assert isinstance(world.filter(asking, "n", "m"), Chosen)
    refused = world.filter(asking, "m")
    assert isinstance(refused, Unfit)
    assert list(refused.failed) == ["m"]


def test_names_are_not_decoded_for_a_common_pod() -> None:
    """The best of many named nodes is found in the bytes of their names."""
    world = World()
    names = [f"node-{each:04d}-of-a-cluster" for each in range(300)]
    world.put_nodes(*(node(each, [gpu(f"GPU-{each}")]) for each in names))
    sent = Names(json.dumps(names).encode())
    answer = world.chooser.choose(pod("p", container(gpu=1)), sent)
    assert isinstance(answer, Chosen)
    assert sent._listed is None


def test_few_named_of_many_that_fit_are_found() -> None:
    """A single named node is found although all others score better."""
    world = World(policies=Policies(node_policy="binpack"))
    world.put_nodes(*(node(f"n{each}", [gpu(f"GPU-{each}")]) for each in range(40)))
    for each in range(39):
        world.place(pod(f"p{each}", container(gpu=1, gpumem=100)), f"n{each}")
    answer = world.filter(pod("last", container(gpu=1)), "n39", *(f"far-{x}" for x in range(900)))
    assert isinstance(answer, Chosen)
    assert answer.node == "n39"


def test_refusals_say_hamis_words() -> None:
    """Each named node hears why, in HAMi's tokens; nodes unknown or without GPUs as well."""
    world = World()
    world.put_nodes(
        node("cpu"),
        node("full", [gpu("GPU-a"), gpu("GPU-b", health=False)]),
        node("other", [gpu("GPU-c", type="NVIDIA H100")]),
    )
    wish = {"nvidia.com/use-gputype": "T4"}
    asking = pod("p", container(gpu=1, gpumem=20000), annotations=wish)
    answer = world.filter(asking, "cpu", "full", "other", "nowhere")
    assert isinstance(answer, Unfit)
    assert answer.failed == {
        "cpu": "node unregistered",
        "full": "1/2 CardInsufficientMemory, 1/2 CardNotHealth",
        "other": "1/1 CardTypeMismatch",
        "nowhere": "node unregistered",
    }
    assert answer.reasons == {
        "CardInsufficientMemory": 1,
        "CardNotHealth": 1,
        "CardTypeMismatch": 1,
        "node unregistered": 2,
    }


def test_more_gpus_than_a_node_has_is_a_reason_of_the_node() -> None:
    """Three GPUs on nodes of two are refused in HAMi's words."""
    world = World()
    world.put_nodes(node("n", [gpu("GPU-a"), gpu("GPU-b")]))
    answer = world.filter(pod("p", container(gpu=3)), "n")
    assert isinstance(answer, Unfit)
    assert answer.failed == {"n": "NodeInsufficientDevice"}


def test_quota_refuses_on_all_nodes() -> None:
    """A namespace whose quota is used up is refused everywhere, another one is not."""
    world = World()
    world.put_nodes(*(node(f"n{each}", [gpu(f"GPU-{each}")]) for each in range(3)))
    world.put_quota("team", gpumem="5000")
    world.place(pod("first", container(gpu=1, gpumem=4000)))
    answer = world.filter(pod("second", container(gpu=1, gpumem=2000)))
    assert isinstance(answer, Unfit)
    assert set(answer.failed.values()) == {"1/1 ResourceQuotaNotFit"}
    other = pod("third", container(gpu=1, gpumem=2000), namespace="rich")
    assert isinstance(world.filter(other), Chosen)


def test_reasons_that_name_pods_are_one_token() -> None:
    """A closed node says which pod closes it, and counts under a word known beforehand."""
    world = World()
    bad = pod("bad", container(gpu=1), annotations={"hami.io/vgpu-node": "n"})
    bad["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "GPU-a,NVIDIA:;"
    bad["spec"]["nodeName"] = "n"
    world.put_nodes(node("n", [gpu("GPU-a")]))
    world.put_pods(bad)
    answer = world.filter(pod("p", container(gpu=1)), "n")
    assert isinstance(answer, Unfit)
    assert "team/bad: cannot read its allocation" in answer.failed["n"]
    assert answer.reasons == {"node closed": 1}


def test_pod_that_asks_for_nothing_is_passed_on() -> None:
    """A pod without devices is nobody's decision."""
    world = World()
    assert world.filter(pod("p", container()), "n") == NotAsked()


def test_pod_that_cannot_be_read_fails_with_the_reason() -> None:
    """A pod that admission would refuse is not placed."""
    answer = World().filter(pod("p", container(gpu=1, gpucores=101)), "n")
    assert isinstance(answer, Failed)
    assert "101" in answer.reason


def test_simulation_takes_nodes_as_empty_and_changes_nothing() -> None:
    """Nodes that were sent count as empty, whatever is known of them."""
    world = World()
    full = node("n", [gpu("GPU-a", count=1)])
    world.put_nodes(full)
    world.place(pod("holder", container(gpu=1)))
    before = world.used("n")
    sent = [
        SentNode(
            name=name,
            annotations=each["metadata"]["annotations"],
            labels={},
            capacity={},
            allocatable={},
            raw=b"",
        )
        for name, each in {"n": full, "cpu": node("cpu")}.items()
    ]
    answer = world.chooser.simulate(pod("p", container(gpu=1)), sent)
    assert isinstance(answer, Chosen)
    assert (answer.node, dict(answer.failed)) == ("n", {"cpu": "node unregistered"})
    assert world.used("n") == before
    assert world.cluster.promise("uid-p") is None


def test_scores_rank_what_fits_from_one_to_ten() -> None:
    """The best node gets 10, the worst that fits 1, and what does not fit nothing."""
    world = World(policies=Policies(node_policy="binpack"))
    world.put_nodes(*(node(each, [gpu(f"GPU-{each}")]) for each in ("empty", "half", "most")))
    world.place(pod("p", container(gpu=1, gpumem=8000)), "half")
    world.place(pod("q", container(gpu=1, gpumem=15000)), "most")
    asking = pod("r", container(gpu=1, gpumem=1000))
    scores = world.chooser.scores(asking, Names.of(["most", "cpu", "empty", "half"]))
    assert not isinstance(scores, Failed)
    found = dict(scores)
    assert (found["most"], found["empty"], found["cpu"]) == (10, 1, 0)
    assert 1 < found["half"] < 10


def test_other_vendors_are_scanned() -> None:
    """A pod for another vendor's devices finds the node that registers them."""
    world = World()
    amd = [gpu("AMD-1", type="MI300", devmem=65536)]
    other = node("amd")
    other["metadata"]["annotations"]["hami.io/node-amd-register"] = json.dumps(amd)
    other["status"] |= {"capacity": {"amd.com/gpu": "1"}, "allocatable": {"amd.com/gpu": "1"}}
    world.put_nodes(node("nvidia", [gpu("GPU-a")]), other)
    asking = pod("p", {"name": "c", "resources": {"limits": {"amd.com/gpu": "1"}}})
    answer = world.filter(asking, "nvidia", "amd")
    assert isinstance(answer, Chosen)
    assert (answer.node, answer.words) == ("amd", ("AMD",))
    refused = world.filter(asking | {"metadata": {"name": "q", "uid": "q"}}, "nvidia")
    assert isinstance(refused, Unfit)
    assert refused.failed == {"nvidia": "NodeInsufficientDevice"}


def test_columns_grow_with_nodes_and_gpus_and_are_used_again() -> None:
    """More nodes than at first, nodes with more GPUs, and nodes in the place of others are seen."""
    world = World()
    for each in range(200):
        world.put_nodes(node(f"n{each}", [gpu(f"GPU-{each}", devmem=1000 + each)]))
    world.put_nodes(node("large", [gpu(f"GPU-l{each}", devmem=500) for each in range(20)]))
    assert isinstance(world.filter(pod("p", container(gpu=20, gpumem=400))), Chosen)
    world.cluster.drop_node("n199")
    world.put_nodes(node("late", [gpu("GPU-late", devmem=5000)]))
    answer = world.filter(pod("q", container(gpu=1, gpumem=4000)))
    assert isinstance(answer, Chosen)
    assert answer.node == "late"
    assert len(world.chooser.columns) == 201
    assert REGISTER not in world.usage("late").labels
    assert np.count_nonzero(world.chooser.columns.rows.is_open) == 201
