"""What is kept of objects, and which are kept at all."""

from typing import Any

import pytest

from kube.objects import JsonObject
from kube.store import UnwantedError
from tests.webhook.translating import a_container, a_pod
from webhook import trimming
from webhook.claimspec import CLASSES, is_limited

TEMPLATE = "gpuslice-" + "0" * 40


def an_item(**parts: Any) -> JsonObject:
    """Return an object with metadata as the server keeps it."""
    metadata = {
        "name": "x",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "note": "short",
            "essay": "x" * 5000,
            "gpuslice.io/requests": "y" * 5000,
        },
    }
    return {"metadata": metadata, **parts}


def a_request(device_class: str, **more: Any) -> JsonObject:
    """Return a request of a claim."""
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **more}}


def a_config(driver: str, **parameters: Any) -> JsonObject:
    """Return a configuration of a claim."""
    return {"requests": ["gpu"], "opaque": {"driver": driver, "parameters": parameters}}


def a_claim(*requests: JsonObject, **status: Any) -> JsonObject:
    """Return a claim."""
    config = [{}, a_config("gpu.nvidia.com", enforcement="none")]
    return an_item(spec={"devices": {"requests": list(requests), "config": config}}, status=status)


claim = trimming.claims_of(CLASSES)
template = trimming.templates_of(CLASSES)


def test_metadata_loses_what_nobody_reads() -> None:
    """Field owners and long notes of others go, our own annotations stay."""
    kept = trimming.quota(an_item(spec={"hard": {"pods": "1"}}, status={"used": {}}, other=1))
    assert kept["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "annotations"}
    assert kept["metadata"]["annotations"].keys() == {"note", "gpuslice.io/requests"}
    assert kept["spec"] == {"hard": {"pods": "1"}}
    assert kept.keys() == {"metadata", "spec", "status"}


def test_a_claim_of_ours_keeps_what_it_costs() -> None:
    """Selectors, tolerations and others' configuration are left out, amounts and results stay."""
    amounts = {"requests": {"memory": "1Gi"}}
    result = {
        "request": "gpu",
        "driver": "gpuslice.io",
        "pool": "n",
        "device": "gpu-1",
        "shareID": "s",
        "consumedCapacity": {"memory": "1Gi"},
        "bindingConditions": [],
    }
    kept = claim(
        a_claim(
            a_request(
                "share.gpuslice.io", count=1, selectors=[1], tolerations=[2], capacity=amounts
            ),
            allocation={"devices": {"results": [result], "config": [3]}, "nodeSelector": {}},
            reservedFor=[{"name": "pod"}],
        )
    )
    option = {"deviceClassName": "share.gpuslice.io", "count": 1, "capacity": amounts}
    assert kept["spec"] == {"devices": {"requests": [{"name": "gpu", "exactly": option}]}}
    del result["bindingConditions"]
    assert kept["status"] == {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"name": "pod"}],
    }


def test_a_claim_of_ours_keeps_whether_it_is_limited() -> None:
    """The rest of its configuration is left out."""
    item = a_claim(a_request("share.gpuslice.io", capacity={"requests": {"memory": "1Gi"}}))
    plain = claim(item)["spec"]
    own = [a_config("gpuslice.io", priority=0), a_config("gpuslice.io", enforcement="none")]
    item["spec"]["devices"]["config"] += [*own, {"opaque": {"driver": "gpuslice.io"}}]
    kept = claim(item)["spec"]
    del own[0]["opaque"]["parameters"]["priority"]
    assert kept["devices"]["config"][:2] == own
    assert is_limited(plain)
    assert is_limited(kept)
    item["spec"]["devices"]["config"].pop()
    assert not is_limited(claim(item)["spec"])


def test_alternatives_count_and_are_kept() -> None:
    """One alternative of ours makes the claim ours."""
    options = [
        {"name": "a", "deviceClassName": "other"},
        {"name": "b", "deviceClassName": "gpu.gpuslice.io"},
    ]
    kept = claim(a_claim({"name": "gpu", "firstAvailable": options}))
    assert kept["spec"]["devices"]["requests"] == [{"name": "gpu", "firstAvailable": options}]
    assert kept["status"] == {}


def test_a_claim_of_a_strange_class_is_kept_once_it_has_a_device_of_ours() -> None:
    """An administrator may have a class of his own."""
    request = a_request("fast.example.com")
    with pytest.raises(UnwantedError):
        claim(a_claim(request))
    results = [{"request": "gpu", "driver": "gpuslice.io", "pool": "n", "device": "d"}]
    assert claim(a_claim(request, allocation={"devices": {"results": results}}))
    assert trimming.claims_of({"fast.example.com"})(a_claim(request))


@pytest.mark.parametrize("spec", [None, {}, {"devices": {}}, {"devices": {"requests": None}}])
def test_a_claim_for_nothing_is_left_out(spec: Any) -> None:
    """It is not ours."""
    with pytest.raises(UnwantedError):
        claim(an_item(spec=spec))


def a_template(name: str = TEMPLATE, **spec: Any) -> JsonObject:
    """Return a template."""
    item = an_item(spec=spec)
    item["metadata"]["name"] = name
    return item


def test_a_template_with_a_name_like_ours_is_kept_whoever_made_it() -> None:
    """Its label only says whether we may delete it."""
    kept = template(a_template(spec={"devices": {}}))
    assert (kept.namespace, kept.name, kept.uid, kept.resource_version) == (
        "ns",
        TEMPLATE,
        "u",
        "7",
    )
    assert kept.claim_spec == {"devices": {}}
    assert kept.is_named_like_ours
    assert not kept.is_labelled
    assert not kept.is_leaving
    marked = a_template(spec={})
    marked["metadata"] |= {"labels": {"app.kubernetes.io/managed-by": "gpuslice"}}
    marked["metadata"] |= {"deletionTimestamp": "now"}
    assert template(marked).is_labelled
    assert template(marked).is_leaving


def test_metadata_for_claims_shows_in_a_template() -> None:
    """We never write any, so that such a template is not what its name says."""
    kept = template(a_template(spec={"devices": {}}, metadata={"labels": {"a": "b"}}))
    assert kept.claim_spec == {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {}}}


@pytest.mark.parametrize("name", ["training", "gpuslice-mine", "gpuslice-" + "0" * 39])
def test_other_templates_are_left_out(name: str) -> None:
    """Users have templates of their own."""
    with pytest.raises(UnwantedError):
        template(a_template(name, spec={}))
    other = {"devices": {"requests": [a_request("gpu.nvidia.com"), {"name": "none"}]}}
    with pytest.raises(UnwantedError):
        template(a_template(name, spec=other))


@pytest.mark.parametrize("name", ["training", "gpuslice-mine"])
def test_templates_for_our_devices_are_kept_trimmed(name: str) -> None:
    """What pods get from them is known, and many of them take little room."""
    item = a_claim(a_request("share.gpuslice.io", selectors=[1], capacity={"requests": {}}))
    templates = [
        template(a_template(each, spec=item["spec"], metadata={"labels": {"a": "b"}}))
        for each in (name, "another")
    ]
    kept = templates[0]
    assert kept.claim_spec == claim(item)["spec"]
    assert "selectors" not in str(kept.claim_spec)
    assert kept.claim_spec is templates[1].claim_spec
    assert not kept.is_named_like_ours


def test_templates_of_other_classes_are_kept_if_they_were_named() -> None:
    """An administrator may have a class of his own."""
    request = {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "lab.example"}]}
    item = a_template("training", spec={"devices": {"requests": [request]}})
    assert trimming.templates_of({"lab.example"})(item).claim_spec == item["spec"]["spec"]
    with pytest.raises(UnwantedError):
        template(item)


def test_a_pod_keeps_what_it_asks_for_and_how_far_it_is() -> None:
    """Images, volumes and conditions go."""
    item = a_pod(
        a_container("main", gpu=1),
        inits=[a_container("before")],
        nodeName="n",
        volumes=[{}],
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
    )
    state = {"terminated": {"exitCode": 0}}
    item["status"] = {
        "phase": "Running",
        "conditions": [{}],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "pod-gpu-x"}],
        "initContainerStatuses": [{"name": "before", "state": state, "image": "i"}],
    }
    kept = trimming.pod(item)
    assert kept["spec"] == {
        "nodeName": "n",
        "resourceClaims": item["spec"]["resourceClaims"],
        "initContainers": [{"name": "before"}],
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    assert kept["status"] == {
        "phase": "Running",
        "resourceClaimStatuses": item["status"]["resourceClaimStatuses"],
        "initContainerStatuses": [{"name": "before", "state": state}],
    }


@pytest.mark.parametrize("section", ["initContainers", "containers"])
@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_on_hamis_path_pods_that_ask_are_kept(section: str, kind: str) -> None:
    """Whatever container asks, in limits or requests."""
    item = a_pod(a_container())
    item["spec"].setdefault(section, [a_container("other")])
    item["spec"][section][0]["resources"] = {kind: {"cambricon.com/vmlu": "1"}}
    assert trimming.pods_asking({"cambricon.com/vmlu"})(item)
    with pytest.raises(UnwantedError):
        trimming.pods_asking({"nvidia.com/gpu"})(item)


def test_on_hamis_path_translated_pods_stay() -> None:
    """They run on from the time when claims served."""
    item = a_pod(a_container())
    item["metadata"]["labels"] = {"gpuslice.io/translated": "true"}
    assert trimming.pods_asking({"nvidia.com/gpu"})(item)


def test_what_many_objects_have_in_common_is_kept_once() -> None:
    """The pods of one Deployment differ in little but their names."""
    one, two = (trimming.pod(a_pod(a_container("main", gpu=1))) for _ in range(2))
    assert one["spec"]["containers"] is two["spec"]["containers"]
    first, second = (claim(a_claim(a_request("gpu.gpuslice.io"))) for _ in range(2))
    assert first["spec"] is second["spec"]
    assert first["metadata"] is not second["metadata"]
