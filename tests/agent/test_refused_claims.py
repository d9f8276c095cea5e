"""Claims that cannot be prepared: kubelet is told why, and nothing is left of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpu import names
from tests.agent.control_plane import Claim, JsonObject, config, share, whole
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer
from tests.agent.scene import Scene, scene
from tests.patience import eventually


@pytest.fixture(scope="module")
def running() -> Iterator[Scene]:
    """Run one agent for all tests here, each of which leaves nothing behind."""
    with scene() as made:
        made.started("--unlimited-namespaces", "trusted", "--scan-interval-s", "0.05")
        yield made


def refused(running: Scene, claim: Claim, code: str, *parts: str) -> None:
    """Check that *claim* is refused with *code* and every one of *parts* in the sentence."""
    entry = running.kubelet.prepare(claim)
    assert entry.error.startswith(f"{code}: ")
    assert not [part for part in parts if part not in entry.error], entry.error
    assert not entry.devices
    assert running.host.holdings() == Holdings()


def without(result: JsonObject, capacity: str) -> JsonObject:
    """Return *result* with *capacity* missing from what was consumed."""
    consumed = {key: value for key, value in result["consumedCapacity"].items() if key != capacity}
    return {**result, "consumedCapacity": consumed}


def test_a_claim_that_was_replaced_is_refused(running: Scene) -> None:
    """A claim of another UID under the same name is not prepared; the message has both UIDs."""
    claim = running.control.claim(share(running.host.device(0)))
    older = replace(claim, uid="11111111-2222-3333-4444-555555555555")

    refused(running, older, "ClaimReplaced", older.uid, claim.uid)


def test_a_claim_that_is_gone_is_refused(running: Scene) -> None:
    """A claim that was deleted is not prepared; the message has its name."""
    claim = running.control.claim(share(running.host.device(0)), name="gone")
    running.control.delete(claim)

    refused(running, claim, "ClaimNotFound", "default/gone")


def test_a_claim_without_an_allocation_is_refused(running: Scene) -> None:
    """A claim that the scheduler has not seen is not prepared."""
    claim = running.control.claim(name="pending")

    refused(running, claim, "ClaimNotAllocated", "status.allocation", "default/pending")


@pytest.mark.parametrize(
    ("parameters", "code", "parts"),
    [
        ({"corePolcy": "force"}, "ShareConfigInvalid", ("parameters.corePolcy", "`corePolicy`")),
        ({"logLevel": "4"}, "ShareConfigInvalid", ("parameters.logLevel", '`"4"`', "0 to 4")),
        ({"kind": "GpuConfig"}, "ShareConfigInvalid", ("parameters.kind", "GpuConfig")),
        ({"enforcement": "none"}, "ShareConfigNotAllowed", ("parameters.enforcement", "`none`")),
        ({"corePolicy": "disable"}, "ShareConfigNotAllowed", ("corePolicy", "`default`")),
    ],
)
def test_a_config_that_does_not_count_is_refused(
    running: Scene, parameters: JsonObject, code: str, parts: tuple[str, ...]
) -> None:
    """A field that is unknown, wrong or not for this namespace is named with what is allowed."""
    result = share(running.host.device(0))
    claim = running.control.claim(result, configs=[config(**parameters)])

    refused(running, claim, code, *parts)


def test_a_device_that_the_node_does_not_have_is_refused(running: Scene) -> None:
    """A device that was never there is named."""
    claim = running.control.claim(share("gpu-elsewhere"))

    refused(running, claim, "DeviceGone", "results[gpu]", "`gpu-elsewhere`")


def test_a_pool_of_another_node_is_refused(running: Scene) -> None:
    """A claim that was allocated on another node is not prepared here."""
    result = share(running.host.device(0)) | {"pool": "node-b"}

    refused(running, running.control.claim(result), "PoolOfAnotherNode", "`node-b`", "`node-a`")


@pytest.mark.parametrize("capacity", ["memory", "cores", "shares"])
def test_a_share_without_a_capacity_is_refused(running: Scene, capacity: str) -> None:
    """No default is taken for what was not said to be consumed."""
    result = without(share(running.host.device(0)), capacity)

    refused(
        running, running.control.claim(result), "ConsumedCapacityMissing", f"lacks `{capacity}`"
    )


@pytest.mark.parametrize(
    ("memory", "cores", "code"),
    [
        ("1500k", "30", "MemoryNotWholeMiB"),
        ("0", "30", "MemoryNotWholeMiB"),
        ("1Gi", "101", "CoresOutOfRange"),
        ("1Gi", "500m", "ConsumedCapacityUnreadable"),
        ("30000Mi", "30", "CapacityExceeded"),
    ],
)
def test_an_amount_that_cannot_be_given_is_refused(
    running: Scene, memory: str, cores: str, code: str
) -> None:
    """What is no amount of this GPU is refused and not rounded."""
    claim = running.control.claim(share(running.host.device(0), memory, cores))

    refused(running, claim, code, "results[gpu]")


def test_a_share_whose_amount_the_server_dropped_is_refused(running: Scene) -> None:
    """An allocation through the share class without consumed capacity names the feature gate."""
    result = whole(running.host.device(0))
    claim = running.control.claim(result, device_class=names.CLASS_SHARE)

    refused(running, claim, "ConsumedCapacityMissing", result["device"], "DRAConsumableCapacity")


def test_one_refused_claim_does_not_stop_the_others(running: Scene) -> None:
    """Each claim of a call has its own entry, whatever happened to the others."""
    result = share(running.host.device(0))
    bad, good = running.control.claim(), running.control.claim(result)

    entries = running.kubelet.prepare_all(bad, good).claims

    assert set(entries) == {bad.uid, good.uid}
    assert entries[bad.uid].error.startswith("ClaimNotAllocated: ")
    assert entries[good.uid] == answer(good, result)
    assert running.kubelet.unprepare(good) == ""


def test_a_share_waits_for_one_whose_pod_was_force_deleted(running: Scene) -> None:
    """A share that the scheduler gave away too early is refused until the old one is released."""
    device = running.host.device(0)
    old = running.control.claim(share(device, "20000Mi", "0"), name="forced")
    assert running.kubelet.prepare(old).error == ""
    running.control.delete(old)
    result = share(device, "20000Mi", "0")
    new = running.control.claim(result)

    error = running.kubelet.prepare(new).error

    assert error.startswith("CapacityExceeded: status.allocation.devices.results[gpu].memory: ")
    assert "40000 MiB" in error
    assert "default/forced" in error
    assert running.host.holdings() == held(old.uid)
    assert running.kubelet.unprepare(old) == ""
    assert running.kubelet.prepare(new) == answer(new, result)
    assert running.kubelet.unprepare(new) == ""


def test_a_device_waits_for_a_claim_whose_pod_was_force_deleted(running: Scene) -> None:
    """So is a whole device, whichever of the two wants it whole."""
    device = running.host.partition(2, 0)
    old, new = (running.control.claim(whole(device), name=name) for name in ("first", "second"))
    assert running.kubelet.prepare(old).error == ""

    error = running.kubelet.prepare(new).error

    assert error.startswith("DeviceInUse: status.allocation.devices.results[gpu].device: ")
    assert device in error
    assert "default/first" in error
    assert running.kubelet.unprepare(old) == ""
    assert running.kubelet.prepare(new) == answer(new, whole(device))
    assert running.kubelet.unprepare(new) == ""


def test_a_late_prepare_does_not_bring_a_claim_back(running: Scene) -> None:
    """After an unprepare the same version of the claim is refused; a new allocation is not."""
    device = running.host.device(0)
    claim = running.control.claim(share(device))
    assert running.kubelet.prepare(claim).error == ""
    assert running.kubelet.unprepare(claim) == ""

    refused(running, claim, "ClaimWasReleased", claim.uid, "unprepared meanwhile")

    result = share(device)
    running.control.allocate(claim, result)
    assert running.kubelet.prepare(claim) == answer(claim, result)
    assert running.kubelet.unprepare(claim) == ""


def test_the_older_version_answers_without_share_ids(running: Scene) -> None:
    """v1beta1 says the same as v1 except for the share, which it has no field for."""
    result = share(running.host.device(0), request="gpu")
    claim = running.control.claim(result)

    older = running.kubelet.prepare_v1beta1(claim)

    (device,) = older.devices
    (expected,) = answer(claim, result).devices
    assert older.error == ""
    assert list(device.cdi_device_ids) == list(expected.cdi_device_ids)
    assert list(device.request_names) == ["gpu"]
    assert (device.pool_name, device.device_name) == ("node-a", result["device"])
    assert "share_id" not in device.DESCRIPTOR.fields_by_name
    assert running.kubelet.prepare(claim) == answer(claim, result)
    assert running.kubelet.unprepare(claim) == ""


def test_an_unknown_claim_is_unprepared_at_once(running: Scene) -> None:
    """Kubelet may have lost what it knew: a claim that was never prepared is no error."""
    claim = running.control.claim(share(running.host.device(0)))
    running.control.delete(claim)

    assert running.kubelet.unprepare(claim) == ""


def test_a_server_that_fails_is_asked_again(running: Scene) -> None:
    """A failing API server is an error of this call only."""
    result = share(running.host.device(0))
    claim = running.control.claim(result)
    fail_next = running.control.server.fail_next
    running.control.call(fail_next, 1, 500, verb="get", path_part="/resourceclaims/")

    refused(running, claim, "ClaimUnreadable", claim.uid, "injected fault")

    assert running.kubelet.prepare(claim) == answer(claim, result)
    assert running.kubelet.unprepare(claim) == ""


def test_a_device_that_went_away_is_refused(running: Scene) -> None:
    """A GPU that fell off the bus is named; what is prepared on it can still be released."""
    host = running.host
    gone = host.device(1)
    old = running.control.claim(share(gone, "1Gi", "0"))
    assert running.kubelet.prepare(old).error == ""
    gpus = host.gpus_file.read_text(encoding="utf-8").partition("\n")[2]

    host.set_gpus("gpus: [{profile: l4}]")
    eventually(lambda: gone in tainted(running))

    new = running.control.claim(share(gone))
    for claim in (old, new):
        error = running.kubelet.prepare(claim).error
        assert error.startswith("DeviceGone: status.allocation.devices.results")
        assert gone in error
    assert host.holdings() == held(old.uid)
    assert running.kubelet.unprepare(old) == ""
    assert host.holdings() == Holdings()
    eventually(lambda: gone not in published(running))
    host.set_gpus(gpus)
    eventually(lambda: gone in published(running))
    assert running.kubelet.prepare(new).error == ""
    assert running.kubelet.unprepare(new) == ""


def published(running: Scene) -> set[str]:
    """Return the names of the devices in the slices."""
    slices = running.control.slices()
    return {device["name"] for one in slices for device in one["spec"].get("devices", [])}


def tainted(running: Scene) -> set[str]:
    """Return the names of the devices in the slices that have taints."""
    slices = running.control.slices()
    devices = [device for item in slices for device in item["spec"].get("devices", ())]
    return {device["name"] for device in devices if "taints" in device}
