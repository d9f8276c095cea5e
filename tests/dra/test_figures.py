"""What is offered in slices, as metrics."""

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from dra.devicehealth import DeviceHealth
from dra.devices import SharingPolicy, build_devices
from dra.figures import OfferedCollector
from dra.record import PreparedClaim
from gpu.names import device_name
from hami.plugin.figures import OfferCollector
from kube.objects import JsonObject
from tests.dra.builders import a_gpu, a_held, a_mig_gpu, a_record, an_inventory
from tests.hami.plugin.test_current import ready


def lines(collector: Collector) -> list[str]:
    """Return what a scrape shows."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode().splitlines()


def exported(
    devices: Mapping[str, JsonObject],
    *health: DeviceHealth,
    claims: Mapping[str, PreparedClaim] | None = None,
) -> list[str]:
    """Return the samples without the prefix that all have."""
    collector = OfferedCollector(lambda: devices, lambda: health, lambda: claims or {})
    return [
        line.removeprefix("gpuslice_card_") for line in lines(collector) if not line.startswith("#")
    ]


def published(*, sharing_kept: bool = True) -> dict[str, JsonObject]:
    """Return the devices of a node with a GPU and one of which instances were made."""
    inventory = an_inventory(a_gpu(0), a_mig_gpu(1, partitions=1))
    policy = SharingPolicy(shares_per_gpu=7)
    offer = build_devices(inventory, sharing_kept=sharing_kept, policy=policy)
    return {device["name"]: device for device in offer.devices}


def test_offered_devices_have_their_amounts() -> None:
    """A partition has no cores, and one container at a time."""
    uuid, part = a_gpu(0).uuid, a_mig_gpu(1, partitions=1).mig_devices[0].uuid
    found = exported(published(), DeviceHealth(name=device_name(uuid), healthy=True))
    assert sorted(found) == sorted(
        [
            f'healthy{{uuid="{uuid}"}} 1.0',
            f'memory_mib{{uuid="{uuid}"}} 16000.0',
            f'memory_mib{{uuid="{part}"}} 4000.0',
            f'cores_percent{{uuid="{uuid}"}} 100.0',
            f'containers_max{{uuid="{uuid}"}} 7.0',
            f'containers_max{{uuid="{part}"}} 1.0',
        ]
    )


def test_a_gpu_that_is_offered_whole_has_one_share() -> None:
    """The server keeps no amounts, so one container has all of it."""
    uuid = a_gpu(0).uuid
    found = exported(published(sharing_kept=False))
    assert f'cores_percent{{uuid="{uuid}"}} 100.0' in found
    assert f'containers_max{{uuid="{uuid}"}} 1.0' in found


def test_a_gpu_that_is_gone_while_a_claim_holds_it_is_unhealthy() -> None:
    """Its UUID is known from the claim; what nobody can name is left out."""
    gone = a_gpu(3)
    held = a_record(1, a_held(gone))
    ill = [
        DeviceHealth(name=device_name(gone.uuid), healthy=False, code="GpuGone"),
        DeviceHealth(name="gpu-nobody-knows", healthy=False, code="GpuGone"),
    ]
    assert exported({}, *ill, claims={held.uid: held}) == [f'healthy{{uuid="{gone.uuid}"}} 0.0']


def test_odd_devices_of_the_server_break_nothing() -> None:
    """What cannot be read has no value, and what has no UUID is left out."""
    named = {"uuid": {"string": "GPU-1"}, "type": {"string": "gpu"}}
    odd: dict[str, JsonObject] = {
        "a": {"name": "a"},
        "b": {"name": "b", "capacity": {"memory": {"value": "much"}}, "attributes": named},
    }
    assert exported(odd) == [
        'cores_percent{uuid="GPU-1"} 100.0',
        'containers_max{uuid="GPU-1"} 1.0',
    ]


def test_names_are_those_of_the_other_way(tmp_path: Path) -> None:
    """Whoever asks for free GPUs finds those of both kinds of nodes."""
    ours = exported(published(), DeviceHealth(name=device_name(a_gpu(0).uuid), healthy=True))
    theirs = lines(OfferCollector(ready(tmp_path).current, lambda: None))
    for name in {line.partition("{")[0] for line in ours}:
        assert any(line.startswith(f'gpuslice_card_{name}{{uuid="') for line in theirs)
