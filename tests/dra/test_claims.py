"""Reading a claim, and what is refused about it."""

from collections.abc import Iterator
from typing import Any

import pytest

from dra.allocation import Allocation
from dra.claims import fetch, read_allocation, reserved_pods
from gpu import names
from gpu.refusal import RefusedError
from kube.client import Client
from kube.config import ClientConfig
from kube.views import ClaimView
from tests.dra.builders import NODE, UID, a_claim, a_gpu, a_result, consumed
from tests.dra.nodes import Reference
from tests.fakes.claim_server import ClaimServer


@pytest.fixture
def server() -> Iterator[ClaimServer]:
    """Run an API server with one claim."""
    with ClaimServer(a_claim(a_result(a_gpu()))) as server:
        yield server


def refusal_of(server: ClaimServer, **reference: str) -> str:
    """Return why a claim cannot be fetched."""
    with pytest.raises(RefusedError) as caught:
        fetch(server.client, Reference(**reference))
    return str(caught.value)


def read(claim: dict[str, Any]) -> Allocation:
    """Return what *claim* gives to this node."""
    return read_allocation(ClaimView.model_validate(claim), pool=NODE)


def unreadable(claim: dict[str, Any]) -> str:
    """Return why nothing can be read from *claim*."""
    with pytest.raises(RefusedError) as caught:
        read(claim)
    return str(caught.value)


def a_configured_claim(*configs: dict[str, Any]) -> dict[str, Any]:
    """Return a claim with *configs* in its allocation."""
    claim = a_claim(a_result(a_gpu()))
    claim["status"]["allocation"]["devices"]["config"] = list(configs)
    return claim


def a_config(driver: str = names.DRIVER, **fields: Any) -> dict[str, Any]:
    """Return one entry of an allocation's configuration."""
    opaque = {"driver": driver, "parameters": {"kind": "ShareConfig"}}
    return {"source": "FromClaim", "opaque": opaque, **fields}


def test_a_claim_is_found_by_name_and_checked_by_uid(server: ClaimServer) -> None:
    """Both agree: the claim is the one that kubelet means."""
    assert fetch(server.client, Reference()).metadata.uid == UID


def test_a_missing_claim_is_refused(server: ClaimServer) -> None:
    """The message has namespace, name and UID."""
    said = refusal_of(server, name="other")
    assert said.startswith(f"ClaimNotFound: claim: `team-a/other uid {UID}`")


def test_a_replaced_claim_is_refused(server: ClaimServer) -> None:
    """One of the same name with another UID is another claim."""
    said = refusal_of(server, uid="old-uid")
    assert said.startswith("ClaimReplaced: claim: `team-a/claim uid old-uid`")
    assert f"`{UID}`" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Invalid JSON"),
        (b"[]", "object: Input should be an object"),
        (b'{"kind": "ResourceClaim"}', "metadata"),
        (b'{"metadata": {"name": 1}}', "metadata.name"),
        (b"\xff\xfe", "JSON"),
    ],
)
def test_an_unreadable_claim_is_refused(server: ClaimServer, content: bytes, said: str) -> None:
    """The place is named, and it is no failure of the plugin."""
    server.claims["team-a/claim"] = content
    refusal = refusal_of(server)
    assert refusal.startswith("ClaimUnreadable")
    assert said in refusal


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_server_in_trouble_is_named(server: ClaimServer, status: int) -> None:
    """Kubelet shows the reason on the pod and tries again."""
    server.answer_status = status
    assert refusal_of(server).startswith("ClaimUnreadable")


def test_a_server_that_does_not_answer_is_named() -> None:
    """Nothing listens there."""
    client = Client(ClientConfig(host="http://127.0.0.1:9"), user_agent="t", timeout_s=1.0)
    with pytest.raises(RefusedError, match="ApiUnreachable") as caught:
        fetch(client, Reference())
    client.close()
    assert "kubelet tries again" in str(caught.value)


def test_an_unallocated_claim_is_refused() -> None:
    """The scheduler, not kubelet, gives devices."""
    claim = a_claim()
    statuses: list[dict[str, Any]] = [{}, {"allocation": None}, {"reservedFor": []}]
    for status in statuses:
        claim["status"] = status
        said = unreadable(claim)
        assert said.startswith("ClaimNotAllocated: status.allocation: `team-a/claim`")


def test_what_the_scheduler_gave_is_read() -> None:
    """Request, device, share and quantities, and the class that was asked."""
    allocation = read(a_claim(a_result(a_gpu(), "3000Mi", shareID="s-1")))
    (device,) = allocation.devices
    assert (device.request, device.pool) == ("gpu", NODE)
    assert (device.device, device.share_id) == (names.device_name(a_gpu().uuid), "s-1")
    assert device.consumed == consumed("3000Mi")
    assert device.device_class == names.CLASS_SHARE
    assert not device.admin
    assert allocation.pod_uids == {"pod-uid"}
    assert (allocation.uid, allocation.resource_version) == (UID, "7")


def test_the_class_of_a_subrequest_is_found() -> None:
    """A result of a `firstAvailable` list names request and alternative."""
    claim = a_claim(a_result(a_gpu(), request="gpu/small"))
    claim["spec"]["devices"]["requests"] = [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "large", "deviceClassName": names.CLASS_WHOLE},
                {"name": "small", "deviceClassName": names.CLASS_SHARE},
            ],
        }
    ]
    (device,) = read(claim).devices
    assert device.device_class == names.CLASS_SHARE
    assert device.main_request == "gpu"


def test_administrative_access_is_read() -> None:
    """Only an explicit `true` counts."""
    assert read(a_claim(a_result(a_gpu(), None, adminAccess=True))).devices[0].admin
    assert not read(a_claim(a_result(a_gpu(), None, adminAccess=False))).devices[0].admin


def test_results_of_other_drivers_are_ignored() -> None:
    """A claim may hold a network card beside the GPU, on whatever pool."""
    nic = {"request": "nic", "driver": "nic.example.com", "pool": "p", "device": "d"}
    allocation = read(a_claim(nic, a_result(a_gpu())))
    assert [device.request for device in allocation.devices] == ["gpu"]
    assert read(a_claim(nic)).devices == ()


def test_a_pool_of_another_node_is_refused() -> None:
    """Such a claim cannot be for this node; guessing would use the wrong GPU."""
    said = unreadable(a_claim(a_result(a_gpu(), pool="node-2")))
    assert said.startswith("PoolOfAnotherNode: status.allocation.devices.results[gpu].pool")
    assert f"`{NODE}`" in said


def test_configuration_of_ours_is_read_in_order() -> None:
    """Source and requests are kept, other drivers' entries are not."""
    allocation = read(
        a_configured_claim(
            a_config(source="FromClass", requests=["gpu"]),
            a_config("nic.example.com"),
            a_config(requests=None),
        )
    )
    assert [(each.from_class, each.requests) for each in allocation.configs] == [
        (True, ("gpu",)),
        (False, ()),
    ]
    assert allocation.configs[0].parameters == {"kind": "ShareConfig"}


def test_configuration_of_an_unknown_kind_is_refused() -> None:
    """It is not for another driver either, as far as can be told."""
    said = unreadable(a_configured_claim({"source": "FromClaim", "rainbow": {}}))
    assert said.startswith("ConfigKindUnknown: status.allocation.devices.config")


def test_only_pods_are_reserved_pods() -> None:
    """Other consumers have no containers."""
    claim = a_claim()
    claim["status"]["reservedFor"].append({"resource": "podgroups", "name": "g", "uid": "g-uid"})
    assert reserved_pods(ClaimView.model_validate(claim)) == {"pod-uid"}


def digest_of(**changes: Any) -> str:
    """Return the digest of a claim whose only result has *changes*."""
    return read(a_claim(a_result(a_gpu(), **changes))).digest


def test_the_digest_tells_allocations_apart() -> None:
    """Anything that decides about the devices changes it."""
    configured = read(a_configured_claim(a_config())).digest
    digests = [
        digest_of(),
        digest_of(memory="2Gi"),
        digest_of(memory=None),
        digest_of(shareID="other"),
        digest_of(request="other"),
        digest_of(device="gpu-other"),
        digest_of(adminAccess=True),
        configured,
        read(a_configured_claim(a_config(), a_config())).digest,
        read(a_configured_claim(a_config(requests=["gpu"]))).digest,
        read(a_configured_claim(a_config(source="FromClass"))).digest,
    ]
    assert len(set(digests)) == len(digests)


def test_the_digest_ignores_what_does_not_decide() -> None:
    """A later status, fields that this version does not read and the order of keys are nothing."""
    claim = a_claim(a_result(a_gpu(), bindingConditions=["x"]), resourceVersion="9")
    claim["status"]["devices"] = [{"conditions": []}]
    claim["status"]["reservedFor"] = []
    assert read(claim).digest == digest_of()
    turned = dict(reversed(consumed("1000Mi").items()))
    assert digest_of(consumedCapacity=turned, adminAccess=False) == digest_of()


def test_the_digest_stays_the_same_in_later_versions() -> None:
    """Else an update of the plugin would take the regions of running containers away."""
    assert digest_of() == "f18a84954523f68c17e13ca888340686493af68b8b42f9777be8396550a7b3ad"
