"""What waits for GPUs, as metrics, on the view that a simulated API server fills."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names
from kube.objects import JsonObject
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.webhook.quotaworld import CONFIG, claim
from tests.webhook.translating import a_container, a_pod
from tests.webhook.viewing import create, viewing
from webhook.booking import Tariff
from webhook.quotausage import Prices, pod_reader
from webhook.templatecontent import expected_templates
from webhook.view import ClusterView
from webhook.waitingfigures import WaitingFigures

_SINCE = "since_timestamp_seconds"


@pytest.fixture
def server() -> Iterator[ServerThread]:
    """Run an API server."""
    with serving() as running:
        yield running


def exported(view: ClusterView) -> dict[str, float]:
    """Return the values of namespace `default`, by what follows `gpuslice_waiting_`."""
    return scraped(exporting(view))


def exporting(view: ClusterView) -> CollectorRegistry:
    """Return what exports the figures."""
    names = quota_names(CONFIG.nvidia, CONFIG.vendors)
    prices = Prices(
        names=names,
        tariff=Tariff(names=names[0]),
        read_pod=pod_reader(DeviceConfig()),
        expected_templates=expected_templates,
    )
    registry = CollectorRegistry()
    registry.register(WaitingFigures(view, prices))
    return registry


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """Return the values of one scrape."""
    found = {}
    for line in generate_latest(registry).decode().splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            assert series.endswith('{namespace="default"}')
            found[series.removeprefix("gpuslice_waiting_").partition("{")[0]] = float(value)
    return found


def a_claim(name: str, *, owner: str | None = "Pod") -> JsonObject:
    """Return a claim for 3000 MiB and 20 percent."""
    made = claim(name, memory="3000Mi", cores="20")
    owners = [{"apiVersion": "v1", "kind": owner, "name": "p", "uid": "u"}] if owner else []
    made["metadata"] = {"name": name, "namespace": "default", "ownerReferences": owners}
    del made["status"]
    return made


def test_claims_of_pods_wait_until_they_have_devices(server: ServerThread) -> None:
    """One that somebody made by hand waits for nothing, and an allocated one has all."""
    served = a_claim("served")
    result = {"request": "gpu", "driver": "gpuslice.io", "pool": "n", "device": "gpu-1"}
    create(server, "resourceclaims", served)
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    api = server.server.api
    server.run(
        api.patch("resourceclaims", "served", status, namespace="default", subresource="status")
    )
    create(server, "resourceclaims", a_claim("by-hand", owner=None))
    with viewing(server) as view:
        assert exported(view) == {}
        create(server, "resourceclaims", a_claim("one"))
        create(server, "resourceclaims", a_claim("two"))
        eventually(lambda: exported(view).get("claims") == 2)
        found = exported(view)
    assert found.pop(_SINCE) > 1e9
    assert found == {
        "pods": 0,
        "claims": 2,
        "memory_mib": 6000,
        "cores_percent": 40,
        "devices": 2,
    }


def test_later_scrapes_follow_what_waits(server: ServerThread) -> None:
    """What was read of a claim before is used again for it alone."""
    create(server, "resourceclaims", a_claim("one"))
    with viewing(server) as view:
        registry = exporting(view)
        assert [scraped(registry)["memory_mib"] for _ in range(2)] == [3000, 3000]
        create(server, "resourceclaims", a_claim("two"))
        eventually(lambda: scraped(registry)["claims"] == 2)
        assert scraped(registry)["memory_mib"] == 6000
        server.run(server.server.api.delete("resourceclaims", "one", namespace="default"))
        eventually(lambda: scraped(registry)["claims"] == 1)
        assert scraped(registry)["memory_mib"] == 3000


def test_pods_wait_until_they_have_a_node(server: ServerThread) -> None:
    """On HAMi's path they ask by themselves."""
    for name, node in (("waits", None), ("runs", "n")):
        pod = a_pod(a_container("main", gpu=1, gpumem=4000, gpucores=30))
        pod["metadata"] = {"name": name, "namespace": "default"}
        if node:
            pod["spec"]["nodeName"] = node
        create(server, "pods", pod)
    with viewing(server, claims_serve=False) as view:
        found = exported(view)
    assert found.pop(_SINCE) > 1e9
    assert found == {"pods": 1, "claims": 0, "memory_mib": 4000, "cores_percent": 30, "devices": 1}
