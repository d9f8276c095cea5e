"""What a pod says of its claims, and what kubelet makes of an allocation."""

from typing import Any

import pytest

from sim.kubelet.errors import ClaimError
from sim.kubelet.podclaims import check_node_operations, claim_names, wanted
from sim.kubelet.release import release

JsonObject = dict[str, Any]

BOTH = ["NodePrepareResources", "NodeUnprepareResources"]


def allocated(*results: tuple[str, list[str]]) -> JsonObject:
    """Return a claim with one device for each (driver, skipped operations)."""
    found = [{"driver": driver, "skipNodeOperations": skips} for driver, skips in results]
    return {
        "metadata": {"name": "claim"},
        "status": {"allocation": {"devices": {"results": found}}},
    }


def extended(container: str = "app", requests: JsonObject | None = None) -> JsonObject:
    """Return a pod with an ordinary claim and one for an extended resource."""
    resources = {"claims": [{"name": "own"}], "requests": requests or {}}
    mapping = {"containerName": container, "resourceName": "example.com/gpu", "requestName": "r0"}
    return {
        "spec": {
            "resourceClaims": [{"name": "own", "resourceClaimName": "claim"}],
            "containers": [{"name": "app", "resources": resources}],
        },
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "made",
                "requestMappings": [mapping],
            }
        },
    }


@pytest.mark.parametrize(
    ("results", "refused"),
    [
        ([("a", ["*"])], True),
        ([("a", BOTH), ("a", ["*"])], True),
        ([("a", ["*"]), ("b", [])], True),
        ([("a", ["*"]), ("a", [])], False),
        ([("a", ["NodeUnprepareResources"]), ("a", ["NodePrepareResources"])], False),
        ([("a", [])], False),
    ],
)
def test_a_driver_that_need_not_be_called_needs_a_gate(
    results: list[tuple[str, list[str]]], *, refused: bool
) -> None:
    """A claim is refused when all devices of one of its drivers skip the same operation."""
    claim = allocated(*results)
    if not refused:
        check_node_operations(claim)
        return
    with pytest.raises(ClaimError, match="DRAOptionalNodeOperations feature gate is disabled"):
        check_node_operations(claim)


def test_only_new_kubelets_look_for_skipped_operations() -> None:
    """1.36 knows nothing of skipped operations and calls the driver."""
    assert not release("1.36").knows_node_operations
    assert release("1.37").knows_node_operations


def test_a_claim_for_extended_resources_needs_no_owner() -> None:
    """Kubelet takes the claim that the status names as it takes one named in the spec."""
    assert list(claim_names(extended())) == [("claim", False), ("made", False)]


@pytest.mark.parametrize(
    ("container", "requests", "found"),
    [
        ("app", {"example.com/gpu": "1"}, {"claim": [""], "made": ["r0"]}),
        ("app", {}, {"claim": [""]}),
        ("app", {"example.com/gpu": "0"}, {"claim": [""]}),
        ("other", {"example.com/gpu": "1"}, {"claim": [""]}),
    ],
)
def test_a_mapping_counts_for_the_container_that_asked(
    container: str, requests: JsonObject, found: dict[str, list[str]]
) -> None:
    """A container gets the devices of an extended resource only where it requests that resource."""
    pod = extended(container, requests)
    assert wanted(pod, pod["spec"]["containers"][0]) == found
