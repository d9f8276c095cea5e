"""Checks of the API server, on servers that act as releases with and without feature gates."""

import pytest

from cli.doctor.model import Status
from kube import paths
from sim.apiserver.versions import CONSUMABLE_CAPACITY
from tests.cli.doctor.world import CLAIMS, World, claim, world

KEEPS = ("shares", "taints", "alternatives", "counters", "extended-name")


def statuses(at: World) -> dict[str, Status]:
    """Return how the questions about fields are answered."""
    return {name: at.verdict(f"keeps-{name}").status for name in KEEPS}


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_new_releases_keep_all(version: str) -> None:
    """From 1.36 on claims for shares are the mode."""
    with world(version) as at:
        assert set(statuses(at).values()) == {Status.OK}
        assert at.verdict("mode").seen == "claims for shares of GPUs and for whole ones"
        assert at.verdict("api-versions").seen == f"v{version}.0 serves v1; v1 is spoken"


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_dropped_fields_name_the_gate(version: str) -> None:
    """Without the gate only whole GPUs can be claimed, and the gate to switch on is named."""
    with world(version) as at:
        found = statuses(at)
        assert found["shares"] is found["taints"] is Status.WARNING
        # Nothing of ours needs these.
        assert found["counters"] is found["extended-name"] is Status.OK
        assert "dropped" in at.verdict("keeps-counters").seen
        shares = at.verdict("keeps-shares")
        assert "DRAConsumableCapacity" in shares.remedy
        assert ("1.35 or newer" in shares.remedy) == (version == "1.34")
        assert any("allowMultipleAllocations" in each for each in shares.details)
        assert "claims: capacity" in shares.details
        assert "DRADeviceTaints" in at.verdict("keeps-taints").remedy
        assert at.verdict("mode").status is Status.WARNING
        assert "whole GPUs only" in at.verdict("mode").seen


def test_gate_that_is_switched_on_counts() -> None:
    """A 1.35 with the gate shares GPUs: what counts is what the server does."""
    with world("1.35", gates=frozenset({CONSUMABLE_CAPACITY})) as at:
        assert at.verdict("keeps-shares").status is Status.OK
        assert at.verdict("keeps-taints").status is Status.WARNING
        assert at.verdict("mode").status is Status.OK


def test_cluster_without_the_group() -> None:
    """An older cluster has nothing to ask about claims, and the older path is its mode."""
    with world("1.34") as at:
        at.front.missing.append("/apis/resource.k8s.io")
        at.front.texts["/version"] = '{"gitVersion": "v1.33.4-eks-1"}'
        assert set(statuses(at).values()) == {Status.SKIPPED}
        assert at.verdict("mode").seen.startswith("older path")
        assert at.verdict("api-versions").status is Status.OK
        assert at.verdict("device-classes").status is Status.SKIPPED


def test_new_cluster_without_the_group_is_odd() -> None:
    """Who has switched the group off in 1.34 or newer is told so."""
    with world() as at:
        at.front.missing.append("/apis/resource.k8s.io")
        verdict = at.verdict("api-versions")
        assert verdict.status is Status.WARNING
        assert "--runtime-config" in verdict.remedy


def test_no_right_to_try_is_unknown() -> None:
    """Who may not create claims and slices cannot say what is kept of them."""
    with world() as at:
        at.front.refused.append(("POST", ""))
        assert set(statuses(at).values()) == {Status.UNKNOWN}
        assert at.verdict("mode").status is Status.UNKNOWN
        assert "403" in at.verdict("keeps-shares").seen


def test_nothing_is_written() -> None:
    """Trials are dry runs: the server has none of them afterwards."""
    with world() as at:
        statuses(at)
        view = at.cluster()
        for path in (CLAIMS, paths.resource_slices(), paths.device_classes()):
            assert view.items(path) == []


def test_device_status_is_tried_on_an_allocated_claim() -> None:
    """Where a claim of somebody is allocated, its status is updated as a dry run."""
    with world() as at:
        made = claim("one", on="a")
        at.put(paths.resource_claims("default"), made)
        client = at.cluster().client
        client.replace(paths.resource_claims("default", "one", "status"), made)
        assert at.verdict("keeps-device-status").status is Status.OK
        found = at.cluster().items(CLAIMS)
        assert "devices" not in found[0]["status"]


@pytest.mark.parametrize(("value", "status"), [("1", Status.OK), ("0", Status.WARNING)])
def test_device_status_is_read_from_metrics(value: str, status: Status) -> None:
    """Without such a claim the server's metrics tell which gates are on."""
    with world() as at:
        gate = 'name="DRAResourceClaimDeviceStatus",stage="BETA"'
        at.front.texts["/metrics"] = f"# HELP x\nkubernetes_feature_enabled{{{gate}}} {value}\n"
        assert at.verdict("keeps-device-status").status is status
        at.front.texts["/metrics"] = "nothing 1\n"
        assert at.verdict("keeps-device-status").status is Status.UNKNOWN
