"""A cluster of nodes with eight GPUs as its API server tells of it: objects of a usual size.

Everything follows from numbers, so that processes that are told the same size see the same cluster
and none has to hold it. Nodes carry thirty images (about 10 KB), pods what controllers, kubelet and
server-side apply leave in them (about 7 KB); amounts are spelled as the API server gives them back.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

Json = dict[str, Any]

NAMESPACE: Final = "bench"
GPUS: Final = 8
TOTAL_MIB: Final = 81559
SLOTS: Final = 10
MODEL: Final = "NVIDIA H100 80GB HBM3"
_SIZES_MIB: Final = (2000, 4000, 6000, 8000)
_CORES: Final = (0, 5, 10)
_COMPACT: Final = (",", ":")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a cluster is."""

    nodes: int
    pods_per_gpu: float
    """A whole number for each node at least."""

    @property
    def pods_per_node(self) -> int:
        """How many pods run on each node."""
        return round(GPUS * self.pods_per_gpu)

    @property
    def pods(self) -> int:
        """How many pods run in it."""
        return self.nodes * self.pods_per_node

    def __str__(self) -> str:
        return f"{self.nodes}n_{self.pods_per_gpu:g}p"


@dataclass(frozen=True, slots=True)
class Share:
    """What a running pod has of one GPU."""

    node: int
    gpu: int
    memory_mib: int
    cores: int


def node_name(number: int) -> str:
    """Return the name of a node, as clouds give them."""
    return f"gpu-pool-a-{number * 2654435761 % 2**32:08x}-{number:05d}"


def uuid(node: int, gpu: int) -> str:
    """Return the UUID of a GPU."""
    return f"GPU-{node:08x}-0000-4000-8000-{gpu:012x}"


def share(number: int, size: Size) -> Share:
    """Return what the pod of that number has."""
    node, place = divmod(number, size.pods_per_node)
    mixed = number * 40503 % 2**16 >> 4
    return Share(
        node=node,
        gpu=place % GPUS,
        memory_mib=_SIZES_MIB[mixed % len(_SIZES_MIB)],
        cores=_CORES[mixed % len(_CORES)],
    )


def node(number: int) -> bytes:
    """Return a node."""
    name = node_name(number)
    devices = [
        {
            "id": uuid(number, gpu),
            **({"index": gpu} if gpu else {}),
            "count": SLOTS,
            "devmem": TOTAL_MIB,
            "devcore": 100,
            "type": MODEL,
            **({"numa": 1} if gpu >= GPUS // 2 else {}),
            "mode": "hami-core",
            "health": True,
        }
        for gpu in range(GPUS)
    ]
    capacity = {"cpu": "192", "memory": "2113537352Ki", "pods": "250", "nvidia.com/gpu": "80"}
    metadata = {
        "name": name,
        "uid": f"{number:08x}-9d1f-4c7e-8a53-0f1e2d3c4b5a",
        "resourceVersion": str(1000 + number),
        "creationTimestamp": "2026-05-01T12:00:00Z",
        "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "gpu.8xlarge",
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "gpu": "on",
        },
        "annotations": {
            "hami.io/node-nvidia-register": json.dumps(devices, separators=_COMPACT),
            "hami.io/node-handshake": "Reported 2026-05-01 12:00:00",
            "node.alpha.kubernetes.io/ttl": "0",
        },
        "managedFields": _managed("kubelet", "f:status", 24),
    }
    images = [
        {
            "names": [
                f"example.com/vision/image-{image}@sha256:{image * 7919:064x}",
                f"example.com/vision/image-{image}:2026.{image}",
            ],
            "sizeBytes": 1_000_000_000 + image,
        }
        for image in range(30)
    ]
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [_condition(each) for each in ("MemoryPressure", "DiskPressure", "Ready")],
        "addresses": [{"type": "Hostname", "address": name}],
        "images": images,
        "nodeInfo": {"kubeletVersion": "v1.33.4", "architecture": "amd64"},
    }
    said = {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}
    return json.dumps(said, separators=_COMPACT).encode()


def bound_pod(number: int, size: Size) -> bytes:
    """Return a pod that runs with its share."""
    has = share(number, size)
    devices = f"{uuid(has.node, has.gpu)},NVIDIA,{has.memory_mib},{has.cores}:;"
    return running_pod(
        name=f"runs-{number}",
        uid=uid_of(number),
        version=100_000 + number,
        node_of=node_name(has.node),
        devices=devices,
    )


def running_pod(*, name: str, uid: str, version: int, node_of: str, devices: str) -> bytes:
    """Return a pod that was given *devices* of a node."""
    _, _, memory_mib, cores = devices.partition(":")[0].split(",")
    texts = {
        _NAME: name,
        _UID: uid,
        _VERSION: str(version),
        _NODE: node_of,
        _DEVICES: devices,
        _MEMORY: f"{int(memory_mib) // 1000}k",
        _AMOUNT: cores,
    }
    return "".join([texts.get(each, each) for each in _template()]).encode()


_NAME, _UID, _VERSION, _NODE, _DEVICES, _MEMORY, _AMOUNT = (f"@@{mark}@@" for mark in "NUVODMA")


@cache
def _template() -> list[str]:
    """Return the pieces of a running pod, with marks in the places of what differs."""
    pod = new_pod(_NAME, _UID, _MEMORY, _AMOUNT)
    pod["metadata"]["annotations"] |= written(_DEVICES, _NODE)
    pod["metadata"]["labels"]["hami.io/vgpu-node"] = _NODE
    pod["metadata"]["resourceVersion"] = _VERSION
    pod["spec"]["nodeName"] = _NODE
    pod["status"] = _running()
    return re.split("(@@[A-Z]@@)", json.dumps(pod, separators=_COMPACT))


def written(devices: str, node_of: str) -> Json:
    """Return the annotations of a pod that was given *devices*."""
    return {
        "hami.io/vgpu-devices-allocated": devices,
        "hami.io/vgpu-devices-to-allocate": ";",
        "hami.io/vgpu-node": node_of,
        "hami.io/vgpu-time": "1795967946",
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": "1795967952",
    }


def uid_of(number: int) -> str:
    """Return the UID of a pod."""
    return f"{number:08x}-1b2c-4d3e-8f4a-5b6c7d8e9f00"


def new_pod(name: str, uid: str, memory: str, cores: str) -> Json:
    """Return a pod that waits for a node and asks for a share of one GPU."""
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": memory, "nvidia.com/gpucores": cores}
    limits = {"cpu": "4", "memory": "16Gi", **amounts}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "trainer",
        "uid": "3f6b0c2e-5c44-4c0e-8d6b-0b6f2c1d9a11",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": "99999",
            "creationTimestamp": "2026-05-01T12:00:00Z",
            "labels": {"app.kubernetes.io/name": "trainer", "team": "vision", "job": name},
            "annotations": {"prometheus.io/scrape": "true", "example.com/run": f"run-{name}"},
            "ownerReferences": [owner],
            "managedFields": _managed("kube-controller-manager", "f:spec", 30),
        },
        "spec": {
            "volumes": [_token(), {"name": "data", "persistentVolumeClaim": {"claimName": "set"}}],
            "containers": [_container("trainer", {"limits": limits, "requests": limits})],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "hami-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def names(size: Size, percent: int, chance: random.Random) -> list[str]:
    """Return the part of the nodes that a scheduler asks about, in no order."""
    numbers = chance.sample(range(size.nodes), size.nodes * percent // 100)
    return [node_name(number) for number in numbers]


def questions(
    size: Size, percent: int, count: int, *, memory: str = "4k", seed: int = 1
) -> Iterator[bytes]:
    """Yield bodies of `/filter`, each about a pod of its own."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    for _ in range(count):
        number = chance.getrandbits(32)
        pod = new_pod(f"asks-{number:08x}", f"{uid_of(number)[:-4]}aaaa", memory, "5")
        said = {"Pod": pod, "Nodes": None, "NodeNames": names(size, percent, chance)}
        yield json.dumps(said, separators=_COMPACT).encode()


def question_with_nodes(size: Size, percent: int, *, seed: int = 1) -> bytes:
    """Return the body of a `/filter` with whole nodes."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    number = chance.getrandbits(32)
    pod = new_pod(f"asks-{number:08x}", uid_of(number), "4k", "5")
    numbers = chance.sample(range(size.nodes), size.nodes * percent // 100)
    items = b",".join(node(each) for each in numbers)
    said = json.dumps(pod, separators=_COMPACT).encode()
    return (
        b'{"Pod":' + said + b',"Nodes":{"metadata":{},"items":[' + items + b']},"NodeNames":null}'
    )


def _container(name: str, resources: Json) -> Json:
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {
            "name": "kube-api-access-x7k2p",
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        },
    ]
    return {
        "name": name,
        "image": f"example.com/vision/{name}:2026.5",
        "args": ["--epochs", "90", "--data", "/data"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}" * 3} for each in range(20)],
        "resources": resources,
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _token() -> Json:
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    return {
        "name": "kube-api-access-x7k2p",
        "projected": {"sources": [*sources, {"configMap": ca}]},
    }


def _managed(manager: str, section: str, fields: int) -> list[Json]:
    names_of: Json = {f"f:field{each}": {".": {}, f"f:inner{each}": {}} for each in range(fields)}
    entry = {
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-05-01T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {section: names_of},
    }
    return [{"manager": manager, **entry}, {"manager": "kubelet", "subresource": "status", **entry}]


def _running() -> Json:
    state = {"running": {"startedAt": "2026-05-01T12:00:10Z"}}
    container = {
        "name": "trainer",
        "image": "example.com/vision/trainer:2026.5",
        "imageID": f"example.com/vision/trainer@sha256:{7919:064x}",
        "containerID": f"containerd://{104729:064x}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": state,
    }
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": "10.1.2.3",
        "podIP": "10.0.0.7",
        "startTime": "2026-05-01T12:00:05Z",
        "conditions": [_condition(each) for each in conditions],
        "containerStatuses": [container],
    }


def _condition(kind: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-05-01T12:00:10Z",
        "reason": "AsItShouldBe",
        "message": "nothing to say about this",
    }
