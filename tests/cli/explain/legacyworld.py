"""Objects of small clusters on HAMi's path, as an API server gives them out, and their looks."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from cli.explain import protocol
from cli.explain.deciders import Decider
from cli.explain.legacy import Material, Terms, explain_legacy
from cli.explain.source import quotas_of
from cli.explain.text import lines_of
from hami.deviceconfig import DeviceConfig
from kube.objects import ObjectKey
from sim.explain.model import Explanation
from sim.explain.snapshot import snapshot_of
from tests.extender import statemachine
from tests.extender.statemachine import container, gpu
from tests.sim.explain.world import Json

NAMESPACE = "team"
POD = "want"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SCHEDULER = "hami-scheduler"
NVIDIA_ONLY = DeviceConfig(vendors=())
USE_TYPE = "nvidia.com/use-gputype"
GIVEN = "hami.io/vgpu-devices-allocated"
NO_NOTES: Mapping[str, str] = {}


def node(
    name: str,
    *gpus: Json,
    allocatable: int = 10,
    spec: Json | None = None,
    notes: Mapping[str, str] = NO_NOTES,
) -> Json:
    """Return a node that registers *gpus*."""
    made = statemachine.node(name, gpus, allocatable=allocatable)
    made["metadata"]["annotations"] |= notes
    return {"apiVersion": "v1", "kind": "Node", **made, "spec": spec or {}}


def want(
    *containers: Json,
    scheduler: str | None = SCHEDULER,
    name: str = POD,
    inits: tuple[Json, ...] = (),
    notes: Mapping[str, str] = NO_NOTES,
) -> Json:
    """Return a pod that is to be placed, with *notes* for annotations."""
    made = statemachine.pod(name, *containers, inits=inits, annotations=notes, namespace=NAMESPACE)
    if scheduler is not None:
        made["spec"]["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", **made}


def running(name: str, where: str, given: str, *, namespace: str = NAMESPACE) -> Json:
    """Return a pod that has what *given* says, such as `GPU-a,1000,10`, in one container."""
    uuid, memory_mib, cores = given.split(",")
    notes = {
        "hami.io/vgpu-node": where,
        "hami.io/bind-phase": "success",
        GIVEN: f"{uuid},NVIDIA,{memory_mib},{cores}:;",
    }
    made = statemachine.pod(name, container(gpu=1), annotations=notes, namespace=namespace)
    made["spec"]["nodeName"] = where
    made["status"] = {"phase": "Running"}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def quota(**hard: str) -> Json:
    """Return a quota of NVIDIA's resources, such as `gpumem`."""
    metadata = {"name": "bound", "namespace": NAMESPACE}
    spec = {"hard": {f"limits.nvidia.com/{key}": amount for key, amount in hard.items()}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def material(items: Iterable[Json], now: datetime = NOW) -> Material:
    """Return a cluster with *items*."""
    found = list(items)
    quotas, _ = quotas_of(found)
    return Material(snapshot=snapshot_of(found), quotas=quotas, version="v1.33.4", now=now)


def legacy(*items: Json, config: DeviceConfig = NVIDIA_ONLY, name: str = POD) -> Explanation:
    """Explain the pod in a cluster with *items*; it must be one of HAMi's path."""
    cluster = material(items)
    pod = cluster.snapshot.pods[ObjectKey(NAMESPACE, name)]
    assert protocol.decides(pod, cluster.snapshot, config)
    said = explain_legacy(cluster, pod, Terms(config=config, scheduler_name=SCHEDULER))
    assert said is not None
    return said


def text_of(said: Explanation) -> str:
    """Return what is printed where no terminal is."""
    return "".join(f"{line.text}\n" for line in lines_of(said, Decider.ANNOTATIONS))


def now() -> datetime:
    """Return this moment, for clusters whose plugins show signs of life by it."""
    return datetime.now(UTC)


def busy_cluster() -> list[Json]:
    """Return a cluster in which the pod waits for memory."""
    return [
        node("a", gpu("GPU-a0"), gpu("GPU-a1", type="NVIDIA A10", devmem=23028)),
        node("b", gpu("GPU-b0")),
        node("cordoned", gpu("GPU-c0"), spec={"unschedulable": True}),
        node("cpu-1", allocatable=0),
        node("cpu-2", allocatable=0),
        running("one", "a", "GPU-a0,10000,30"),
        running("two", "b", "GPU-b0,16000,20"),
        want(container(gpu=1, gpumem=8000, gpucores=40), notes={USE_TYPE: "T4"}),
    ]
