"""Verdicts become one line that a person can act on."""

from kube.objects import ObjectKey
from sim.scheduler.devices import DeviceId
from sim.scheduler.reasons import devices_text, verdict_text
from sim.scheduler.verdicts import DeviceVerdict, Refused, capacity_code


def _verdict(claim: str, device: DeviceId | None, refused: Refused) -> DeviceVerdict:
    return DeviceVerdict(
        node="node-a",
        claim=ObjectKey("default", claim),
        request="gpu",
        device=device,
        refused=refused,
    )


def test_devices_with_one_reason_share_a_part() -> None:
    """Devices are counted per claim, request and code; the first one gives the numbers."""
    short = Refused("MemoryInsufficient", "asked 8Gi", "free 1Gi of 40Gi")
    verdicts = [
        _verdict("c", DeviceId("d", "p", "g0"), short),
        _verdict("c", DeviceId("d", "p", "g1"), short),
        _verdict("c", DeviceId("d", "p", "g2"), Refused("DeviceInUse")),
        _verdict("c", DeviceId("d", "q", ""), Refused("PoolIncomplete")),
    ]
    assert devices_text(verdicts) == (
        "claim c request gpu: MemoryInsufficient on 2 devices (asked 8Gi, free 1Gi of 40Gi); "
        "claim c request gpu: DeviceInUse on 1 device; claim c request gpu: PoolIncomplete."
    )


def test_long_lists_are_cut() -> None:
    """A pod with many claims gets a condition of bounded length that says what is missing."""
    verdicts = [_verdict(f"c{index}", None, Refused("NoDevicePublished")) for index in range(20)]
    text = devices_text(verdicts)
    assert text.endswith("and 12 more.")
    assert devices_text([]) == ""


def test_one_verdict_is_one_line() -> None:
    """A verdict names node and device, or the pool, or only the node."""
    refused = Refused("SelectorFalse", "device.driver == 'x'")
    told = [
        verdict_text(_verdict("c", device, refused))
        for device in (DeviceId("d", "p", "g0"), DeviceId("d", "p", ""), None)
    ]
    assert told == [
        "node-a/g0: SelectorFalse (device.driver == 'x')",
        "node-a/p: SelectorFalse (device.driver == 'x')",
        "node-a: SelectorFalse (device.driver == 'x')",
    ]


def test_capacity_names_its_code() -> None:
    """The code of a shortage begins with the capacity, without its domain."""
    assert capacity_code("gpu.example.com/memory", "Insufficient") == "MemoryInsufficient"
    assert capacity_code("cores", "NotAllowed") == "CoresNotAllowed"
