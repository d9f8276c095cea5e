"""HAMi's metrics."""

import asyncio
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families as parsed

from extender import figures
from extender.metrics import Metrics
from extender.model import DeviceUsage, NodeUsage
from extender.parts import PodFigure, QuotaFigure
from extender.state.view import ClusterView
from hami.containers import JsonObject
from hami.devices import MigAllocation, MigPlacement, PodDevice, RegisteredDevice
from tests.extender.standins import MemoryState
from tests.extender.statemachine import World, container, gpu, node, pod

_MIB = 1 << 20


def _device(uuid: str = "GPU-0", word: str = "NVIDIA", cores: int = 100) -> RegisteredDevice:
    return RegisteredDevice(
        word=word,
        uuid=uuid,
        index=3,
        count=10,
        memory_mib=40960,
        cores=cores,
        type='NVIDIA "A100"',
        numa=0,
        mode="hami-core",
        healthy=True,
    )


def _node(name: str, *devices: DeviceUsage) -> NodeUsage:
    return NodeUsage(
        name=name, devices={"NVIDIA": list(devices)}, annotations={}, labels={}, capacity={}
    )


def _rendered(state: MemoryState) -> str:
    async def render() -> bytes:
        return b"".join([piece async for piece in figures.render(state, Metrics())])

    return asyncio.run(render()).decode()


def _samples(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sample.labels.items()): sample.value
        for family in parsed(text)
        for sample in family.samples
        if sample.name == name
    }


def _one(text: str, name: str) -> tuple[dict[str, str], float]:
    ((labels, value),) = _samples(text, name).items()
    return dict(labels), value


def test_a_device_has_hamis_names_and_labels() -> None:
    """Every name of HAMi's, with the constant zone."""
    usage = DeviceUsage(device=_device(), used_slots=2, used_mib=10240, used_cores=30)
    text = _rendered(MemoryState(figures=[_node("gpu1", usage)]))
    base = {
        "node": "gpu1",
        "device_uuid": "GPU-0",
        "device_index": "3",
        "device_type": 'NVIDIA "A100"',
        "zone": "vGPU",
    }
    cores = {**base, "device_cores": "100"}
    assert _one(text, "hami_gpu_memory_limit_bytes") == (base, 40960 * _MIB)
    assert _one(text, "hami_gpu_core_limit_ratio") == (base, 100)
    assert _one(text, "hami_gpu_memory_allocated_bytes") == (cores, 10240 * _MIB)
    assert _one(text, "hami_gpu_shared_count") == (base, 2)
    assert _one(text, "hami_gpu_core_allocated_ratio") == (base, 30)
    overview = {**cores, "device_memory_limit": "40960"}
    assert _one(text, "hami_node_gpu_overview") == (overview, 10240 * _MIB)
    assert _one(text, "hami_node_gpu_memory_allocated_ratio") == (base, 0.25)
    assert not _samples(text, "hami_node_gpu_mig_instance_info")


def test_compute_units_become_percent() -> None:
    """AMD's devices count units."""
    usage = DeviceUsage(device=_device(word="AMD", cores=304), used_cores=100)
    text = _rendered(MemoryState(figures=[_node("n", usage)]))
    assert _one(text, "hami_gpu_core_limit_ratio")[1] == 100
    assert _one(text, "hami_gpu_core_allocated_ratio")[1] == 33


def test_devices_without_memory_have_no_ratio() -> None:
    """Nothing is divided by nothing."""
    device = RegisteredDevice(
        word="AMD",
        uuid="x",
        index=0,
        count=0,
        memory_mib=0,
        cores=0,
        type="",
        numa=0,
        mode="",
        healthy=False,
    )
    text = _rendered(MemoryState(figures=[_node("n", DeviceUsage(device=device))]))
    assert not _samples(text, "hami_node_gpu_memory_allocated_ratio")
    assert _one(text, "hami_gpu_core_allocated_ratio")[1] == 0


def test_only_instances_that_were_made_are_shown() -> None:
    """A device plugin fills their ids in."""

    def mig(mig_uuid: str | None, start: int) -> MigAllocation:
        return MigAllocation(
            container_index=0,
            device_index=0,
            gpu_uuid="GPU-0",
            profile="1g.5gb",
            placement=MigPlacement(start=start, size=1),
            mig_uuid=mig_uuid,
            gpu_instance_id=7 if mig_uuid else None,
            compute_instance_id=0 if mig_uuid else None,
        )

    usage = DeviceUsage(device=_device(), mig=[mig("MIG-1", 6), mig(None, 5)])
    labels, value = _one(
        _rendered(MemoryState(figures=[_node("n", usage)])), "hami_node_gpu_mig_instance_info"
    )
    assert value == 1
    assert labels["mig_uuid"] == "MIG-1"
    assert (labels["gpu_instance_id"], labels["compute_instance_id"]) == ("7", "0")
    assert (labels["placement_start"], labels["placement_size"]) == ("6", "1")


def test_quotas_and_pods() -> None:
    """A limit is shown only where there is one."""
    device = PodDevice(uuid="GPU-0", type="NVIDIA", memory_mib=2, cores=30)
    state = MemoryState(
        quota_figures=[
            QuotaFigure(namespace="a", name="nvidia.com/gpumem", used=5, limit=9),
            QuotaFigure(namespace="b", name="nvidia.com/gpumem", used=7, limit=None),
        ],
        pod_figures=[PodFigure(namespace="a", name="p", node="n", device=device)],
    )
    text = _rendered(state)
    assert set(_samples(text, "hami_resource_quota_used").values()) == {5, 7}
    labels, limit = _one(text, "hami_resource_quota_limit")
    assert (labels["namespace"], labels["quota_name"], limit) == ("a", "nvidia.com/gpumem", 9)
    labels, value = _one(text, "hami_vgpu_memory_allocated_bytes")
    assert value == 2 * _MIB
    assert labels == {
        "namespace": "a",
        "node": "n",
        "pod": "p",
        "container_index": "0",
        "device_uuid": "GPU-0",
        "zone": "vGPU",
    }
    assert _one(text, "hami_vgpu_core_allocated_ratio")[1] == 30


def test_others_have_their_turn_while_a_big_cluster_is_written() -> None:
    """Every few hundred lines; what changes meanwhile breaks nothing."""
    nodes = [
        _node(f"n{each}", *(DeviceUsage(device=_device(f"GPU-{each}-{i}")) for i in range(8)))
        for each in range(200)
    ]

    async def play() -> tuple[int, bytes]:
        turns = 0
        state = MemoryState(figures=nodes)

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                nodes[turns % len(nodes)].devices["MLU"] = []
                state.figures = nodes[: -turns % 7]
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        pieces = [piece async for piece in figures.render(state, Metrics())]
        beside.cancel()
        assert max(map(len, pieces)) < 100_000
        return turns, b"".join(pieces)

    turns, text = asyncio.run(play())
    assert turns > 50
    assert len(_samples(text.decode(), "hami_gpu_shared_count")) == 1600
    names = [line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE")]
    assert _each_once(names)


def _each_once(names: Iterable[str]) -> bool:
    listed = list(names)
    return len(listed) == len(set(listed))


def test_pods_come_and_go_while_their_figures_are_written() -> None:
    """Of a real state; nothing is gathered in one go, and no change ends the scrape."""
    world = World()
    count = 300
    world.put_nodes(*(node(f"n{each}", [gpu(f"GPU-{each}")]) for each in range(count)))

    def running(number: int, where: int) -> JsonObject:
        found = pod(f"p{number}", container(gpu=1), uid=f"u{number}")
        found["metadata"]["annotations"] |= {
            "hami.io/vgpu-node": f"n{where}",
            "hami.io/vgpu-devices-allocated": f"GPU-{where},NVIDIA,100,1:;",
        }
        found["spec"]["nodeName"] = f"n{where}"
        return found

    world.put_pods(*(running(each, each) for each in range(count)))

    async def play() -> bytes:
        pieces, turn = [], 0
        state = ClusterView(world.cluster, not_synced=lambda: None)
        async for piece in figures.render(state, Metrics()):
            pieces.append(piece)
            turn += 1
            world.drop_pod(running(turn, turn))
            world.put_pods(running(count + turn, count - turn))
            world.put_nodes(node(f"m{turn}", [gpu("GPU-x")]))
        return b"".join(pieces)

    text = asyncio.run(play()).decode()
    assert len(_samples(text, "hami_vgpu_memory_allocated_bytes")) > count / 2
