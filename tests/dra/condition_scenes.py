"""An API server with prepared claims, the health of their devices, and what is said on them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from dra.conditions import Conditions
from dra.devicehealth import DeviceHealth
from dra.record import PreparedClaim
from gpu import names
from kube import paths
from kube.client import Client
from kube.objects import JsonObject
from tests.dra.builders import NODE, a_claim, a_gpu, a_held, a_record, a_result
from tests.fakes.api_server import ServerThread, serving

GPU, OTHER = a_gpu(0), a_gpu(1)
SICK = "Xid79"
READ, WRITE = "get 200", "update 200"


def state_of(number: int, *, sick: bool) -> DeviceHealth:
    """Return the health of GPU *number*."""
    name = names.device_name(a_gpu(number).uuid)
    if not sick:
        return DeviceHealth(name=name, healthy=True)
    return DeviceHealth(name=name, healthy=False, code=SICK, message="fallen off the bus")


@dataclass(slots=True)
class Scene:
    """A server with claims and the conditions of one process after the other."""

    where: ServerThread
    client: Client = field(init=False)
    admin: Client = field(init=False)
    prepared: dict[str, PreparedClaim] = field(default_factory=dict)
    health: list[DeviceHealth] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    conditions: Conditions = field(init=False)

    def __post_init__(self) -> None:
        self.client, self.admin = self.where.client("agent"), self.where.client("admin")
        self.show()
        self.restart()

    def restart(self) -> None:
        """Begin anew, as the next process on the node does."""
        self.conditions = Conditions(
            client=self.client,
            pool=NODE,
            claims=lambda: dict(self.prepared),
            health=lambda: self.health,
            stopping=self.stopping,
            pace_s=0.0,
        )
        self.conditions.adopt()

    def show(self, *sick: int) -> None:
        """Have the GPUs *sick* be ill and the other well."""
        self.health[:] = [state_of(number, sick=number in sick) for number in (0, 1)]

    def add(self, number: int = 0, *results: JsonObject) -> PreparedClaim:
        """Create a claim with *results*, a share of the first GPU by default, and prepare it."""
        results = results or (a_result(GPU),)
        name = f"claim-{number}"
        created = json.loads(self.admin.create(paths.resource_claims("team-a"), spec_of(name)))
        created["status"] = a_claim(*results)["status"]
        del created["status"]["reservedFor"]
        self.admin.replace(paths.resource_claims("team-a", name, "status"), created)
        uid = created["metadata"]["uid"]
        devices = tuple(
            replace(a_held(GPU), device=result["device"], share_id=result.get("shareID"))
            for result in results
            if result["driver"] == names.DRIVER
        )
        self.prepared[uid] = a_record(number, *devices, uid=uid)
        return self.prepared[uid]

    def look(self) -> list[str]:
        """Look once and return what that asked of the server."""
        before = len(self.asked())
        self.conditions.look()
        return self.asked()[before:]

    def asked(self) -> list[str]:
        """Return all requests of the agent."""
        records = self.where.call(lambda: self.where.server.requests)
        return [f"{each.verb} {each.status}" for each in records if each.user == "agent"]

    def claim(self, number: int = 0) -> JsonObject:
        """Return a claim as the server has it."""
        path = paths.resource_claims("team-a", f"claim-{number}")
        return dict(json.loads(self.admin.get(path)))

    def said(self, number: int = 0) -> list[tuple[str, str]]:
        """Return status and reason of each condition of ours on a claim."""
        return [
            (condition["status"], condition["reason"])
            for entry in self.claim(number)["status"].get("devices", ())
            if entry["driver"] == names.DRIVER
            for condition in entry["conditions"]
        ]

    def fail(self, count: int, status: int, verb: str) -> None:
        """Have the server fail the next requests of *verb*."""
        self.where.call(partial(self.where.server.fail_next, count, status, verb=verb))


def spec_of(name: str) -> JsonObject:
    """Return a claim that nobody has allocated yet."""
    claim = a_claim(a_result(GPU), name=name)
    del claim["status"], claim["metadata"]["uid"], claim["metadata"]["resourceVersion"]
    return claim


@contextmanager
def a_server() -> Iterator[ServerThread]:
    """Run an API server that has the namespace of the claims."""
    with serving() as running:
        admin = running.client("admin")
        admin.create(paths.namespaces(), {"metadata": {"name": "team-a"}})
        admin.close()
        yield running


@contextmanager
def a_scene(where: ServerThread) -> Iterator[Scene]:
    """Lend a server without claims, and clear away what was made there."""
    scene = Scene(where)
    try:
        yield scene
    finally:
        where.call(where.server.clear_faults)
        for each in json.loads(scene.admin.get(paths.resource_claims()))["items"]:
            scene.admin.delete(paths.resource_claims("team-a", each["metadata"]["name"]))
        scene.client.close()
        scene.admin.close()
