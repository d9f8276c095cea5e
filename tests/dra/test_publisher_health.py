"""What the publisher makes of a node whose devices fail, go, come back or are offered twice."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dra.offer import GONE, TAINT_DUAL, TAINT_UNHEALTHY
from dra.rivals import Rival
from dra.situation import SituationSource
from gpu.model import Ailment, GpuUuid, Inventory
from gpu.names import device_name
from kube.objects import JsonObject
from kube.paths import resource_slices
from tests.dra.builders import a_held, a_record
from tests.dra.gpus import inventory_of, many_gpus
from tests.dra.publishing import NODE, Cluster, at_rest, cluster, publishing, settled
from tests.patience import eventually

FIRST, SECOND = many_gpus(2)
BOTH = inventory_of(FIRST, SECOND)


def ailing(*uuids: str) -> Inventory:
    """Return both GPUs, with an ailment of each of *uuids*."""
    ailments = tuple(Ailment(uuid=GpuUuid(u), code="Xid48", message="memory") for u in uuids)
    return replace(BOTH, ailments=ailments)


def taints(where: Cluster) -> dict[str, list[Any]]:
    """Return the taints of the devices on the server by UUID, as key, value and time."""
    return {
        device["attributes"]["uuid"]["string"]: [
            (each["key"], each["value"], each["timeAdded"]) for each in device["taints"]
        ]
        for item in where.slices()
        for device in item["spec"].get("devices", ())
        if "taints" in device
    }


def tainted(where: Cluster) -> dict[str, list[tuple[str, str]]]:
    """Return key and value of the taints on the server by UUID."""
    return {uuid: [each[:2] for each in all_] for uuid, all_ in taints(where).items()}


def test_a_taint_comes_and_goes_with_one_write_each() -> None:
    """The generation stays, and the callback tells each change of health once."""
    changes: list[str] = []

    def changed() -> None:
        changes.append("changed")

    with cluster() as where, publishing(where, found=BOTH, health_changed=changed) as publisher:
        settled(publisher)
        publisher.set_inventory(ailing(SECOND.uuid))
        eventually(lambda: tainted(where) == {SECOND.uuid: [(TAINT_UNHEALTHY, "Xid48")]})
        eventually(lambda: [each.healthy for each in publisher.health()] == [True, False])
        (noted,) = publisher.noted()
        assert noted.refusal.code == "Xid48"
        publisher.set_inventory(BOTH)
        eventually(lambda: tainted(where) == {})
        eventually(lambda: [each.healthy for each in publisher.health()] == [True, True])
        at_rest(where)
        assert where.verbs() == ["create", "update", "update"]
        assert where.generations() == [1]
        assert len(changes) == 3


def test_a_restarted_publisher_leaves_taints_as_they_are() -> None:
    """Nothing is written, so the time since when the device is ill stays true."""
    with cluster() as where:
        with publishing(where, found=ailing(FIRST.uuid)) as publisher:
            settled(publisher)
        before = where.slices()
        with publishing(where, found=ailing(FIRST.uuid)) as publisher:
            settled(publisher)
            at_rest(where)
        assert where.slices() == before
        assert taints(where)[FIRST.uuid][0][2]


def test_a_server_that_drops_taints_gets_no_ailing_device() -> None:
    """The device is withdrawn, comes back tainted when the server is updated, and goes again."""
    with cluster("1.35") as where, publishing(where, found=ailing(FIRST.uuid)) as publisher:
        settled(publisher)
        assert set(publisher.published_devices()) == {device_name(SECOND.uuid)}
        assert [noted.refusal.code for noted in publisher.noted()] == ["Xid48"]
        where.switch_to("1.37")
        eventually(lambda: tainted(where) == {FIRST.uuid: [(TAINT_UNHEALTHY, "Xid48")]})
        assert where.modes() == ["shared", "shared"]
        where.switch_to("1.35")
        eventually(lambda: where.modes() == ["exclusive"])


def test_a_gone_gpu_is_withdrawn_after_the_last_claim() -> None:
    """It stays tainted while a claim holds it; the end of the claim is told to the publisher."""
    record = a_record(0, a_held(SECOND))
    claims = {record.uid: record}
    source = SituationSource(claims=lambda: claims)
    with cluster() as where, publishing(where, found=BOTH, situation=source) as publisher:
        settled(publisher)
        publisher.set_inventory(inventory_of(FIRST))
        eventually(lambda: tainted(where) == {SECOND.uuid: [(TAINT_UNHEALTHY, GONE)]})
        claims.clear()
        publisher.claims_changed()
        eventually(lambda: set(publisher.published_devices()) == {device_name(FIRST.uuid)})
        at_rest(where)
        before = where.requests()
        publisher.claims_changed()
        assert where.requests() == before


def test_a_driver_that_fails_taints_all_and_recovers() -> None:
    """What was published stays, and a first look that fails publishes nothing."""
    source = SituationSource()
    with cluster() as where, publishing(where, situation=source) as publisher:
        failure = Ailment(uuid=GpuUuid(""), code="DriverNotLoaded", message="no module")
        source.set_failure(failure)
        publisher.look_again()
        at_rest(where)
        assert where.slices() == []
        publisher.set_inventory(BOTH)
        settled(publisher)
        source.set_failure(failure)
        publisher.look_again()
        both = [(TAINT_UNHEALTHY, "DriverNotLoaded")]
        eventually(lambda: tainted(where) == {FIRST.uuid: both, SECOND.uuid: both})
        publisher.set_inventory(BOTH)
        eventually(lambda: tainted(where) == {})


def test_slices_of_other_drivers_are_looked_at() -> None:
    """A slice of the node that another driver writes leads to taints, its end to none."""
    seen: list[int] = []

    def rivals(_inventory: Inventory, slices: Iterable[JsonObject]) -> Mapping[GpuUuid, Rival]:
        drivers = [each["spec"]["driver"] for each in slices]
        seen.append(len(drivers))
        return {FIRST.uuid: Rival(source=drivers[0], message="it is its too")} if drivers else {}

    source = SituationSource(rivals=rivals)
    with cluster() as where, publishing(where, found=BOTH, situation=source) as publisher:
        settled(publisher)
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": pool}
        foreign = {"metadata": {"name": "foreign"}, "spec": spec}
        where.admin.create(resource_slices(), foreign)
        eventually(lambda: tainted(where) == {FIRST.uuid: [(TAINT_DUAL, "gpu.nvidia.com")]})
        where.admin.delete(resource_slices("foreign"))
        eventually(lambda: tainted(where) == {})
        assert set(seen) == {0, 1}
