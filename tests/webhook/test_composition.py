"""The parts of the program together, with a simulated API server and without serving reviews."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kube.config import ClientConfig
from kube.configfile import sha256_of
from kube.lease import identity_of
from kube.objects import JsonObject
from tests.configmaps import Mount
from tests.fakes.api_server import ServerThread, serving
from tests.hami.chartconfig import chart_config
from tests.patience import eventually
from tests.webhook.admitting import NAMESPACE, creation
from tests.webhook.translating import a_container, a_pod
from tests.webhook.viewing import create
from webhook.composition import make_parts
from webhook.metrics import Metrics
from webhook.parts import Parts, Surroundings
from webhook.review import Verdict
from webhook.settings import WebhookSettings

OWN = "gpuslice-system"


@contextmanager
def running(server: ServerThread, *flags: str, metrics: Metrics | None = None) -> Iterator[Parts]:
    """Run all that is beside the server of reviews, until it knows what it needs."""
    token = server.call(server.server.token_for, "webhook")
    client = server.client("webhook")
    parts = make_parts(
        Surroundings(
            settings=WebhookSettings.from_arguments(["--namespace", OWN, *flags], program="test"),
            identity=ClientConfig(host=server.server.url, token=lambda: token),
            client=client,
            metrics=metrics or Metrics(),
            port=1,
            authorities=lambda: None,
        )
    )
    for part in parts.background:
        part.start()
    try:
        eventually(lambda: not any(check() for check in parts.ready_checks.values()))
        yield parts
    finally:
        for part in reversed(parts.background):
            part.stop()
        client.close()


def asked(parts: Parts, item: JsonObject, **changes: Any) -> Verdict:
    """Return what becomes of *item*."""
    review = creation(item, **changes)
    decide = parts.mutate if review.resource == "pods" else parts.validate
    return asyncio.run(decide(review))  # type: ignore[arg-type]


def a_claim(device_class: str, memory: str) -> JsonObject:
    """Return a claim for one share."""
    exactly = {"deviceClassName": device_class, "capacity": {"requests": {"memory": memory}}}
    return {
        "metadata": {"name": "claim", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def a_quota(**hard: str) -> JsonObject:
    """Return a ResourceQuota."""
    metadata = {"name": "gpu-quota", "namespace": NAMESPACE}
    return {"metadata": metadata, "spec": {"hard": hard}}


@contextmanager
def prepared() -> Iterator[ServerThread]:
    """Run an API server with two namespaces."""
    with serving() as server:
        for name in (OWN, NAMESPACE):
            create(server, "namespaces", {"metadata": {"name": name}})
        yield server


def test_classes_of_an_administrator_are_known_everywhere() -> None:
    """What is judged, what is counted, and what pods are held to."""
    with prepared() as server:
        create(server, "resourcequotas", a_quota(**{"limits.nvidia.com/gpumem": "1000"}))
        create(server, "resourceclaims", a_claim("lab.example", "100Mi"))
        containers = [a_container("one"), a_container("two")]
        for each in containers:
            each["resources"] = {"claims": [{"name": "gpu"}]}
        pod = a_pod(*containers, resourceClaims=[{"name": "gpu", "resourceClaimName": "claim"}])
        about = {"group": "resource.k8s.io", "resource": "resourceclaims"}
        with running(server) as parts:
            assert asked(parts, a_claim("lab.example", "1"), **about).allowed
            assert asked(parts, a_claim("lab.example", "2000Mi"), **about).allowed
            assert asked(parts, pod).allowed
        with running(server, "--device-classes", "lab.example,other.example") as parts:
            said = asked(parts, a_claim("lab.example", "1"), **about).message
            assert "MemoryOutOfRange" in said
            said = asked(parts, a_claim("other.example", "2000Mi"), **about, dry_run=True).message
            assert "QuotaExceeded" in said
            assert "used 100" in said
            assert "ShareUsedByManyContainers" in asked(parts, pod).message


def test_nothing_is_left_running() -> None:
    """Also not the threads in which the leader is asked."""
    lease = {
        "metadata": {"name": "gpuslice-webhook", "namespace": OWN},
        "spec": {
            "holderIdentity": identity_of("other", "127.0.0.1:1"),
            "leaseDurationSeconds": 3600,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    before = set(threading.enumerate())

    def running_since() -> set[str]:
        return {each.name for each in set(threading.enumerate()) - before}

    with prepared() as server:
        create(server, "leases", lease)
        create(server, "resourcequotas", a_quota(**{"limits.nvidia.com/gpu": "1"}))
        with running(server) as parts:
            pod = a_pod(a_container(gpu=1, gpumem=1000))
            eventually(lambda: not asked(parts, pod).allowed and "to-leader_0" in running_since())
        eventually(lambda: running_since() == {"api-server"})


def test_the_configuration_in_use_is_told(tmp_path: Path) -> None:
    """By the hash of its file, also when another one is there by now."""
    mount = Mount(tmp_path, "device-config.yaml")
    mount.write(chart_config())
    labels = {"file": "device-config", "sha256": sha256_of(mount.path.read_bytes())}
    with prepared() as server:
        metrics = Metrics()
        with running(server, f"--device-config={mount.path}", metrics=metrics):
            value = metrics.registry.get_sample_value
            assert value("gpuslice_config_info", labels) == 1
            assert value("gpuslice_config_changed", {"file": "device-config"}) == 0
            mount.write(chart_config(defaultCores=5))
            assert value("gpuslice_config_info", labels) == 1
            assert value("gpuslice_config_changed", {"file": "device-config"}) == 1
