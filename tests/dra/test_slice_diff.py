"""What counts as a difference between a slice that was sent and one on the server."""

from typing import Any

import pytest

from dra.slice_diff import fingerprint, lost_fields, with_times

TAINT = {"key": "gpuslice.io/xid", "value": "79", "effect": "NoSchedule"}


def device(**fields: Any) -> dict[str, Any]:
    """Return a device to share."""
    return {
        "name": "gpu-a",
        "allowMultipleAllocations": True,
        "attributes": {"mode": {"string": "shared"}},
        "capacity": {
            "memory": {
                "value": "1024Mi",
                "requestPolicy": {"default": "1024Mi", "validRange": {"min": "1Mi"}},
            },
            "shares": {
                "value": "1000",
                "requestPolicy": {"default": "1", "validValues": ["1"]},
            },
        },
        **fields,
    }


def spec(*devices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the spec of a slice."""
    pool = {"name": "node-1", "resourceSliceCount": 1, "generation": 1}
    return {
        "driver": "gpuslice.io",
        "nodeName": "node-1",
        "pool": pool,
        "devices": list(devices),
        **fields,
    }


def stored_form() -> dict[str, Any]:
    """Return the device as the server writes it back: canonical, empty fields gone."""
    stored = device(bindsToNode=False)
    stored["capacity"]["memory"]["value"] = "1Gi"
    stored["capacity"]["memory"]["requestPolicy"] = {
        "default": "1Gi",
        "validRange": {"min": "1Mi"},
    }
    stored["capacity"]["shares"]["value"] = "1k"
    return stored


def test_rewritten_texts_of_one_meaning_are_equal() -> None:
    """Canonical quantities, false fields and fields of a newer server are no difference."""
    stored = spec(stored_form() | {"fieldOfNextYear": {"a": 1}}, fieldOfNextYear=[1])
    assert fingerprint(stored) == fingerprint(spec(device()))
    assert lost_fields(spec(device()), stored) == ()


def test_the_generation_is_no_difference() -> None:
    """Only content is compared: generations are decided from it."""
    later = spec(device())
    later["pool"]["generation"] = 9
    assert fingerprint(later) == fingerprint(spec(device()))


@pytest.mark.parametrize(
    "stored",
    [
        spec(),
        spec(device(), device(name="gpu-b")),
        spec(device(name="gpu-b")),
        spec(device(attributes={"mode": {"string": "exclusive"}})),
        spec(device(attributes={"mode": {"string": "shared"}, "more": {"int": 1}})),
        spec(device(allowMultipleAllocations=False)),
        spec(device(capacity={})),
        spec(device(taints=[TAINT])),
        spec(device(bindingConditions=["a"])),
        spec(device(), allNodes=True),
        spec(device(), pool={"name": "node-1", "resourceSliceCount": 2, "generation": 1}),
    ],
)
def test_changes_of_meaning_differ(stored: dict[str, Any]) -> None:
    """Any change that a consumer would act on is seen."""
    assert fingerprint(stored) != fingerprint(spec(device()))


def test_order_of_devices_differs() -> None:
    """The scheduler tries devices in order, so order is content."""
    first, second = device(name="gpu-a"), device(name="gpu-b")
    assert fingerprint(spec(first, second)) != fingerprint(spec(second, first))


def test_dropped_fields_are_named() -> None:
    """What a server without consumable capacity takes away is told path by path."""
    plain = {"memory": {"value": "1Gi"}, "shares": {"value": "1k"}}
    stored = {"name": "gpu-a", "attributes": device()["attributes"], "capacity": plain}
    assert lost_fields(spec(device(), device(name="gpu-b")), spec(stored, stored)) == (
        "spec.devices[].allowMultipleAllocations",
        "spec.devices[].capacity.memory.requestPolicy",
        "spec.devices[].capacity.shares.requestPolicy",
        "spec.devices[].name",
    )


def test_additions_of_others_are_no_loss() -> None:
    """A field that an admission webhook adds is a difference, but nothing was dropped."""
    stored = spec(device(taints=[TAINT]))
    assert lost_fields(spec(device()), stored) == ()


def test_the_time_of_a_taint_is_the_servers() -> None:
    """A taint without a time takes the stored one, and one a second apart is the same."""
    stored = spec(device(taints=[TAINT | {"timeAdded": "2026-11-29T10:00:00Z"}]))
    assert with_times(spec(device(taints=[TAINT])), stored) == stored
    near = spec(device(taints=[TAINT | {"timeAdded": "2026-11-29T10:00:00.7Z"}]))
    assert with_times(near, stored) == stored
    assert lost_fields(spec(device(taints=[TAINT])), stored) == ()


@pytest.mark.parametrize(
    "taint",
    [
        TAINT | {"timeAdded": "2026-11-29T11:00:00Z"},
        TAINT | {"timeAdded": "2026-11-29T11:00:00"},
        TAINT | {"timeAdded": "yesterday"},
        TAINT | {"effect": "NoExecute"},
        TAINT | {"value": "48"},
    ],
)
def test_another_taint_keeps_its_own_time(taint: dict[str, Any]) -> None:
    """A different taint, or a time of our own, is not mixed up with the stored one."""
    stored = spec(device(taints=[TAINT | {"timeAdded": "2026-11-29T10:00:00Z"}]))
    assert with_times(spec(device(taints=[taint])), stored) == spec(device(taints=[taint]))


def test_texts_that_are_no_quantities_are_compared_as_they_are() -> None:
    """Nonsense on the server is a difference and not a crash."""
    broken = device()
    broken["capacity"]["memory"]["value"] = "a lot"
    assert fingerprint(spec(broken)) != fingerprint(spec(device()))
