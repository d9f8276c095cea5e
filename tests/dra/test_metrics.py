"""What is exported for Prometheus."""

from prometheus_client import generate_latest

from dra.metrics import Metrics
from dra.record import PreparedClaim
from tests.dra.builders import a_gpu, a_held, a_record, an_inventory


def exported(*claims: PreparedClaim, metrics: Metrics | None = None) -> list[str]:
    """Return the samples of a node with two GPUs that holds *claims*."""
    metrics = metrics or Metrics()
    by_uid = {claim.uid: claim for claim in claims}
    inventory = an_inventory(a_gpu(0), a_gpu(1, memory_mib=None))
    metrics.show_grants(lambda: by_uid, lambda: inventory)
    lines = generate_latest(metrics.registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_grants_are_summed_from_the_prepared_claims() -> None:
    """Each share by GPU, claim and request; administrative access holds nothing."""
    share = a_held(a_gpu(0), memory_mib=3000, cores_percent=30, share_id="s-1")
    admin = a_held(a_gpu(0), admin=True, share_id="s-2")
    found = exported(a_record(1, share), a_record(2, admin))
    whose = 'claim="claim-1",namespace="team-a",request="gpu",share_id="s-1"'
    labels = f'{{{whose},uuid="{a_gpu(0).uuid}"}}'
    assert "gpuslice_prepared_claims 2.0" in found
    granted = [line for line in found if line.startswith("gpuslice_granted_")]
    assert granted == [
        f"gpuslice_granted_memory_mib{labels} 3000.0",
        f"gpuslice_granted_cores_percent{labels} 30.0",
        f"gpuslice_granted_shares{labels} 1.0",
    ]


def test_only_known_memory_is_exported() -> None:
    """A GPU without memory of its own has no total."""
    totals = [line for line in exported() if line.startswith("gpuslice_gpu_memory_mib")]
    assert totals == [f'gpuslice_gpu_memory_mib{{uuid="{a_gpu(0).uuid}"}} 16000.0']


def test_before_the_gpus_are_read_there_are_no_totals() -> None:
    """A scrape may come first."""
    metrics = Metrics()
    metrics.show_grants(dict, lambda: None)
    assert b"gpuslice_prepared_claims 0.0" in generate_latest(metrics.registry)


def test_calls_are_counted_and_timed() -> None:
    """By outcome; the time of failed calls counts too."""
    metrics = Metrics()
    with metrics.prepare.measure():
        pass
    with metrics.prepare.measure() as outcome:
        outcome.code = "DeviceInUse"
    found = exported(metrics=metrics)
    assert 'gpuslice_prepare_total{outcome="ok"} 1.0' in found
    assert 'gpuslice_prepare_total{outcome="DeviceInUse"} 1.0' in found
    assert "gpuslice_prepare_seconds_count 2.0" in found
