"""The node agent with real API servers that serve one version of `resource.k8s.io` or none."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube import paths
from tests.agent.control_plane import Claim, JsonObject, share, whole
from tests.agent.kubelet import Kubelet, answer, register
from tests.cluster.alone import PORT, Alone, alone, serving, shares_by_default
from tests.cluster.conftest import minor_of
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

UNSERVED = "resource.k8s.io is not served by this API server"


@pytest.fixture
def server(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Alone]:
    """Return an API server that serves the versions of the test's parameter at first."""
    options = serving(minor_of(request.config), *request.param)
    with alone(session_folder / "alone", options) as made:
        yield made


def ready() -> tuple[int, str]:
    """Ask the agent whether it is ready, from within its network."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def own(server: Alone, version: str) -> dict[str, JsonObject]:
    """Return what the agent offers, as the server has it in *version*, by device name."""
    return {
        str(device["name"]): device
        for each in server.slices(version)
        for device in each["spec"].get("devices") or ()
    }


def expect_offered(server: Alone, version: str) -> None:
    """Check that both GPUs and both partitions are offered, in the shape of *version*."""
    host = server.host
    gpus = [host.device(0), host.device(1)]
    names_ = {*gpus, host.partition(2, 0), host.partition(2, 1)}
    eventually(lambda: own(server, version).keys() == names_)
    found = own(server, version)
    for index, name in enumerate(gpus):
        device = found[name]
        told = device["basic"] if version == "v1beta1" else device
        assert ("attributes" in device) == (version != "v1beta1")
        assert told["attributes"]["uuid"] == {"string": host.gpus[index].uuid}
        shared = shares_by_default(server.cluster.options.minor)
        assert bool(told.get("allowMultipleAllocations")) == shared
        assert ("requestPolicy" in told["capacity"]["memory"]) == shared
        assert told["capacity"].keys() == {"memory", "cores", "shares"}


def prepared(server: Alone, version: str) -> Claim:
    """Have a claim prepared that the server has in *version*."""
    device = server.host.device(0)
    shared = shares_by_default(server.cluster.options.minor)
    result = share(device, "1Gi", "20") if shared else whole(device)
    claim = server.claim(version, result)
    kubelet = Kubelet(server.host.plugin / "dra.sock")
    try:
        assert kubelet.prepare(claim) == answer(claim, result)
    finally:
        kubelet.close()
    return claim


def unprepare(server: Alone, claim: Claim) -> None:
    """Have *claim* given back."""
    kubelet = Kubelet(server.host.plugin / "dra.sock")
    try:
        assert not kubelet.unprepare(claim)
    finally:
        kubelet.close()


@pytest.mark.parametrize(
    ("server", "version"),
    [(["v1beta1"], "v1beta1"), (["v1beta2"], "v1beta2"), (["v1beta1", "v1beta2"], "v1beta2")],
    indirect=["server"],
    ids=["v1beta1", "v1beta2", "both"],
)
def test_older_version_does_all(server: Alone, version: str) -> None:
    """Slices are written, kept and changed, and a claim is prepared, with no v1 anywhere."""
    server.start_agent()
    register(next(server.host.registry.glob("*.sock")))
    expect_offered(server, version)
    eventually(lambda: ready()[0] == 200)
    (first,) = server.slices(version)
    server.client.delete(paths.resource_slices(first["metadata"]["name"], version=version))
    expect_offered(server, version)
    (second,) = server.slices(version)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["spec"]["pool"]["generation"] == first["spec"]["pool"]["generation"] + 1
    unprepare(server, prepared(server, version))
    server.host.set_gpus("gpus: [{profile: l4}, {profile: a10}]")
    eventually(lambda: len(own(server, version)) == 2)
    (third,) = server.slices(version)
    assert third["metadata"]["uid"] == second["metadata"]["uid"]
    assert third["metadata"]["generation"] == second["metadata"]["generation"] + 1
    assert [each["version"] for each in server.logged("API version chosen")] == [version]
    assert not server.logged("server dropped fields")


@pytest.mark.parametrize("server", [[]], indirect=True, ids=[""])
def test_server_without_any_version(server: Alone) -> None:
    """The agent says what is missing, stays, and follows the server from version to version."""
    server.start_agent("--sweep-interval-s", "1")
    register(next(server.host.registry.glob("*.sock")))
    eventually(lambda: UNSERVED in ready()[1])
    assert "use Kubernetes 1.34 or newer" in ready()[1]
    eventually(lambda: UNSERVED in _events(server))
    assert len(server.logged("API not served")) == 1
    server.serve("v1beta1")
    expect_offered(server, "v1beta1")
    eventually(lambda: ready()[0] == 200)
    kept = prepared(server, "v1beta1")
    (before,) = server.slices("v1beta1")
    newer = "v1beta2" if server.cluster.options.minor == "1.33" else "v1"
    server.serve(newer)
    (after,) = server.slices(newer)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    server.client.delete(paths.resource_slices(after["metadata"]["name"], version=newer))
    expect_offered(server, newer)
    # A claim on a server that forgot its paths is not gone.
    assert server.host.holdings().prepared == {kept.uid}
    unprepare(server, kept)
    server.serve()
    eventually(lambda: len(server.logged("API not served")) == 2)
    assert server.is_running()


def _events(server: Alone) -> str:
    items = json.loads(server.client.get(paths.events("default")))["items"]
    return "\n".join(each["message"] for each in items if each["reason"] == "ApiNotServed")
