"""A cluster in which pods are placed as HAMi's scheduler places them, and their node's plugin."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hami.devices import PodDevice, RegisteredDevice
from hami.plugin.allocating import Allocator
from hami.plugin.finding import Finder
from hami.plugin.granting import Instances
from hami.plugin.model import Grant, Offer
from hami.plugin.podwriting import PodWriter
from hami.plugin.refitting import Refitter
from hami.plugin.releasing import LockReleaser
from hami.poddevices import decode_pod_devices
from kube.client import Client
from kube.events import EventRecorder
from protos import deviceplugin_v1beta1_pb2 as api
from sim.apiserver.errors import StatusError
from tests.fakes.api_server import ServerThread

NODE = "node-1"
RESOURCE = "nvidia.com/gpu"
LOCK = "hami.io/mutex.lock"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
PHASE = "hami.io/bind-phase"
JsonObject = dict[str, Any]


def uuid(number: int) -> str:
    """Return the UUID of a card."""
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def card(number: int, **changed: Any) -> RegisteredDevice:
    """Return a card that four containers may share."""
    fields: JsonObject = {
        "word": "NVIDIA",
        "uuid": uuid(number),
        "index": number,
        "count": 4,
        "memory_mib": 24576,
        "cores": 100,
        "type": "NVIDIA-L4",
        "numa": number % 2,
        "mode": "hami-core",
        "healthy": True,
    }
    return RegisteredDevice(**{**fields, **changed})


def given(number: int, memory_mib: int = 3000, cores: int = 30) -> str:
    """Return what stands in an annotation for a share of a card."""
    return f"{uuid(number)},NVIDIA,{memory_mib},{cores}:"


@dataclass(slots=True)
class Offering:
    """What the node offers; change it as you like."""

    offer: Offer | None = field(
        default_factory=lambda: Offer(cards=tuple(card(number) for number in range(4)))
    )

    def __call__(self) -> Offer | None:
        """Return it."""
        return self.offer


@dataclass(slots=True)
class Answers:
    """A `Responder` that writes the grant into the container's environment."""

    grants: list[Grant] = field(default_factory=list)
    before: Callable[[], object] = lambda: None
    """Called before each answer."""

    def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
        """Say which container this is for, and the limits of each card."""
        self.before()
        self.grants.append(grant)
        envs = {
            "POD": grant.pod,
            "CONTAINER": grant.container,
            "DEVICES": ",".join(each.uuid for each in grant.devices),
        }
        for index, each in enumerate(grant.devices):
            envs[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] = f"{each.memory_mib}m"
            envs[f"CUDA_DEVICE_SM_LIMIT_{index}"] = str(each.cores)
        return api.ContainerAllocateResponse(envs=envs)


class Cluster:
    """An API server with one node, and pods on it."""

    def __init__(self, server: ServerThread) -> None:
        self.server = server
        self._bindings = 0
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        server.run(server.server.api.create("nodes", node))

    def pod(
        self,
        name: str,
        decided: str,
        *,
        counts: Sequence[int] = (1,),
        inits: Sequence[int] = (),
        lock: bool = True,
        annotations: Mapping[str, str] | None = None,
        env: Sequence[JsonObject] = (),
    ) -> str:
        """Create a pod that is bound as the scheduler does it; return its UID.

        *counts* and *inits* are how many devices each container wants.
        """
        if lock:
            self.lock(name)
        self._bindings += 1
        marks = {
            "hami.io/vgpu-node": NODE,
            "hami.io/bind-time": str(self._bindings),
            PHASE: "allocating",
            TO_ALLOCATE: decided,
            ALLOCATED: decided,
            **(annotations or {}),
        }
        metadata = {"name": name, "namespace": "default", "annotations": marks}
        return self.create(metadata, counts=counts, inits=inits, env=env)

    def create(
        self,
        metadata: JsonObject,
        *,
        counts: Sequence[int] = (1,),
        inits: Sequence[int] = (),
        env: Sequence[JsonObject] = (),
        node: str | None = NODE,
    ) -> str:
        """Create a pod that is bound, with nothing but *metadata* about devices."""
        spec: JsonObject = {
            "containers": [
                {**_container(f"app-{number}", count), "env": list(env)}
                for number, count in enumerate(counts)
            ],
        }
        if node is not None:
            spec["nodeName"] = node
        if inits:
            spec["initContainers"] = [
                _container(f"init-{number}", count) for number, count in enumerate(inits)
            ]
        metadata.setdefault("namespace", "default")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return str(self.server.run(self.server.server.api.create("pods", pod))["metadata"]["uid"])

    def lock(self, name: str | None) -> None:
        """Have the node locked for a pod, or not at all."""
        value = None if name is None else f"2126-08-21T10:00:00Z,default,{name}"
        self.annotate("nodes", NODE, {LOCK: value}, namespace="")

    def annotate(
        self,
        plural: str,
        name: str,
        changes: Mapping[str, str | None],
        *,
        namespace: str = "default",
    ) -> None:
        """Change annotations, also while the plugin changes others."""
        while True:
            found = self.server.run(self.server.server.api.get(plural, name, namespace))
            kept = {**(found["metadata"].get("annotations") or {}), **changes}
            kept = {key: value for key, value in kept.items() if value is not None}
            found["metadata"]["annotations"] = kept
            with suppress(StatusError):
                self.server.run(self.server.server.api.update(plural, found))
                return

    def set_status(self, name: str, status: JsonObject) -> None:
        """Do what kubelet does when a pod runs or is refused."""
        found = self.get(name)
        found["status"] = {**found["status"], **status}
        self.server.run(self.server.server.api.update("pods", found, subresource="status"))

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        api = self.server.server.api
        self.server.run(api.delete("pods", name, "default", grace_period_s=0))

    def get(self, name: str) -> JsonObject:
        """Return a pod."""
        return self.server.run(self.server.server.api.get("pods", name, "default"))

    def left(self, name: str) -> list[list[str]]:
        """Return the UUIDs that each container of a pod has to come."""
        text = self.get(name)["metadata"]["annotations"][TO_ALLOCATE]
        slots = decode_pod_devices(text, None)
        assert isinstance(slots, tuple)
        return [[each.uuid for each in devices] for devices in slots]

    def phase(self, name: str) -> str:
        """Return the bind phase of a pod."""
        return str(self.get(name)["metadata"]["annotations"][PHASE])

    def locked_by(self) -> str:
        """Return the pod for which the node is locked, empty for none."""
        node = self.server.run(self.server.server.api.get("nodes", NODE, ""))
        return str((node["metadata"].get("annotations") or {}).get(LOCK, "")).rpartition(",")[2]

    def events(self) -> list[JsonObject]:
        """Return all events."""
        return list(self.server.run(self.server.server.api.list("events"))[0])

    def asked(self) -> list[str]:
        """Return verb and path of each request of the plugin so far."""
        records = self.server.call(lambda: self.server.server.requests)
        return [f"{each.verb} {each.path}" for each in records if each.user == "agent"]


@dataclass(slots=True, kw_only=True)
class Parts:
    """A plugin's allocator and what it is made of."""

    offering: Offering
    answers: Answers
    locks: LockReleaser
    allocator: Allocator


def parts_of(
    client: Client,
    *,
    refitter: Refitter | None = None,
    instances: Instances | None = None,
    responder: Answers | None = None,
    events: EventRecorder | None = None,
) -> Parts:
    """Put an allocator together."""
    offering, answers = Offering(), responder or Answers()
    finder = Finder(client, node=NODE, resource=RESOURCE)
    locks = LockReleaser(client, node=NODE)
    allocator = Allocator(
        offers=offering,
        responder=answers,
        finder=finder,
        writer=PodWriter(client, finder),
        locks=locks,
        refitter=refitter,
        instances=instances,
        events=events,
    )
    return Parts(offering=offering, answers=answers, locks=locks, allocator=allocator)


def devices(text: str) -> tuple[PodDevice, ...]:
    """Return the devices in one container's part of an annotation."""
    slots = decode_pod_devices(text, 1)
    assert isinstance(slots, tuple)
    return slots[0]


def _container(name: str, count: int) -> JsonObject:
    container: JsonObject = {"name": name, "image": "cuda"}
    if count:
        container["resources"] = {
            "limits": {RESOURCE: str(count)},
            "requests": {RESOURCE: str(count)},
        }
    return container
