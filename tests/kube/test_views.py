"""Narrow views of what a cluster sends."""

import json

import pytest
from pydantic import ValidationError

from kube.objects import ObjectKey
from kube.views import ClaimView, ObjectView, PodView

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "name": "c",
        "namespace": "ns",
        "uid": "u-1",
        "resourceVersion": "7",
        "managedFields": [{"manager": "x"}],
    },
    "spec": {"devices": {"requests": [{"name": "gpu"}]}},
    "status": {
        "allocation": {
            "nodeSelector": {"nodeSelectorTerms": []},
            "devices": {
                "results": [
                    {
                        "request": "gpu/large",
                        "driver": "gpuslice.io",
                        "pool": "node-a",
                        "device": "gpu-1",
                        "shareID": "b1e5",
                        "consumedCapacity": {"memory": "3000Mi", "cores": "30", "shares": "1"},
                        "newField": 1,
                    },
                    {"request": "nic", "driver": "other", "pool": "p", "device": "d"},
                ],
                "config": [
                    {
                        "source": "FromClass",
                        "opaque": {"driver": "gpuslice.io", "parameters": {"kind": "X", "a": [1]}},
                    },
                    {"source": "FromClaim", "requests": ["gpu"]},
                ],
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-2"}],
    },
}

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-2", "deletionTimestamp": "2026-01-01"},
    "spec": {
        "nodeName": "node-a",
        "resourceClaims": [
            {"name": "own", "resourceClaimName": "c"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "late", "resourceClaimTemplateName": "t"},
        ],
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"claims": [{"name": "own"}]}}
        ],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "resources": {"claims": [{"name": "made", "request": "gpu"}], "limits": {}},
            },
            {"name": "plain"},
        ],
    },
    "status": {
        "phase": "Running",
        "resourceClaimStatuses": [
            {"name": "made", "resourceClaimName": "p-made-x7k2p"},
            {"name": "late"},
        ],
    },
}


def test_a_claim_shows_its_allocation() -> None:
    """Results, consumed capacity and configuration are read from bytes; the rest is passed over."""
    claim = ClaimView.model_validate_json(json.dumps(CLAIM).encode())
    assert (claim.metadata.uid, claim.metadata.key) == ("u-1", ObjectKey("ns", "c"))
    assert claim.status.allocation is not None
    share, other = claim.status.allocation.devices.results
    assert (share.request, share.share_id, share.admin_access) == ("gpu/large", "b1e5", None)
    assert share.consumed_capacity == {"memory": "3000Mi", "cores": "30", "shares": "1"}
    assert (other.driver, other.share_id, other.consumed_capacity) == ("other", None, None)
    by_class, by_claim = claim.status.allocation.devices.config
    assert by_class.opaque is not None
    assert (by_class.requests, by_class.opaque.parameters) == (None, {"kind": "X", "a": [1]})
    assert (by_claim.requests, by_claim.opaque) == (("gpu",), None)
    assert claim.status.reserved_for[0].uid == "u-2"


def test_a_pending_claim_has_no_allocation() -> None:
    """Without a status, too."""
    for rest in ("}", ', "status": {}}', ', "status": {"allocation": null}}'):
        claim = ClaimView.model_validate_json('{"metadata": {"name": "c"}' + rest)
        assert claim.status.allocation is None


def test_a_pod_shows_who_uses_which_claim() -> None:
    """Containers name entries of the pod; entries lead to claims that exist."""
    pod = PodView.model_validate_json(json.dumps(POD).encode())
    assert (pod.spec.node_name, pod.status.phase) == ("node-a", "Running")
    assert pod.metadata.deletion_timestamp == "2026-01-01"
    main, plain = pod.spec.containers
    assert [(use.name, use.request) for use in main.resources.claims] == [("made", "gpu")]
    assert plain.resources.claims == ()
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.claim_names() == {"own": "c", "made": "p-made-x7k2p"}


def test_any_object_has_metadata() -> None:
    """Labels and annotations come along."""
    node = ObjectView.model_validate({"metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}})
    assert (node.metadata.name, node.metadata.labels) == ("n", {"a": "b"})


def test_a_view_cannot_be_changed() -> None:
    """To change an object, patch it."""
    pod = PodView.model_validate(POD)
    with pytest.raises(ValidationError):
        pod.metadata = pod.metadata  # type: ignore[misc]


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"{}", b'{"metadata": {"name": 3}}'])
def test_what_is_no_object_is_refused(broken: bytes) -> None:
    """As one kind of error, a `ValueError`."""
    with pytest.raises(ValueError, match="validation error"):
        ClaimView.model_validate_json(broken)


def test_requests_lead_to_their_classes() -> None:
    """Alternatives are named as results name them."""
    claim = ClaimView.model_validate(
        {
            "metadata": {"name": "c"},
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "gpu", "exactly": {"deviceClassName": "share"}},
                        {
                            "name": "any",
                            "firstAvailable": [
                                {"name": "big", "deviceClassName": "whole"},
                                {"name": "small", "deviceClassName": "share"},
                            ],
                        },
                    ]
                }
            },
        }
    )
    assert [request.classes() for request in claim.spec.devices.requests] == [
        {"gpu": "share"},
        {"any/big": "whole", "any/small": "share"},
    ]
