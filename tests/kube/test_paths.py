"""URL paths of the API."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube import paths


@pytest.mark.parametrize(
    ("built", "path"),
    [
        (paths.resource_slices(), "/apis/resource.k8s.io/v1/resourceslices"),
        (paths.resource_slices("s"), "/apis/resource.k8s.io/v1/resourceslices/s"),
        (
            paths.resource_slices(version="v1beta1"),
            "/apis/resource.k8s.io/v1beta1/resourceslices",
        ),
        (paths.device_classes("c"), "/apis/resource.k8s.io/v1/deviceclasses/c"),
        (paths.resource_claims(), "/apis/resource.k8s.io/v1/resourceclaims"),
        (
            paths.resource_claims("ns", "c", "status"),
            "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status",
        ),
        (
            paths.resource_claim_templates("ns"),
            "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaimtemplates",
        ),
        (paths.nodes("n", "status"), "/api/v1/nodes/n/status"),
        (paths.namespaces("ns"), "/api/v1/namespaces/ns"),
        (paths.pods(), "/api/v1/pods"),
        (paths.pods("ns", "p"), "/api/v1/namespaces/ns/pods/p"),
        (paths.events("ns"), "/api/v1/namespaces/ns/events"),
        (paths.leases("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
    ],
)
def test_each_kind_has_its_path(built: str, path: str) -> None:
    """Groups, namespaces, names and subresources stand where the API expects them."""
    assert built == path


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize("build", [paths.nodes, paths.resource_slices, paths.pods])
def test_a_name_that_would_lead_elsewhere_is_refused(
    name: str, build: Callable[[str], str]
) -> None:
    """Dots and nothing are no names."""
    with pytest.raises(ValueError, match="cannot be a part of a path"):
        build(name)


@given(st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_a_name_stays_one_part_of_the_path(name: str) -> None:
    """Slashes, question marks and the like are quoted."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    path = paths.pods("ns", name)
    assert path.count("/") == 6
    assert not set(path) & set("?#% ") - {"%"}
