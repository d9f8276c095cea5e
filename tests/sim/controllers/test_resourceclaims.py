"""Claims are generated for pods and given back when pods are done."""

import re

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.controllers import resourceclaims
from tests.sim.controllers.scene import (
    FINALIZER,
    allocate,
    claim_spec,
    controlled,
    eventually,
    exists,
    gone,
    pod,
    set_phase,
    settled,
    template,
)

FROM_TEMPLATE = {"resourceClaimTemplateName": "template"}


async def _generated(api: Api, name: str = "pod", entry: str = "gpu") -> JsonObject:
    """Return the claim that a pod was told of, once it was."""

    async def look() -> str | None:
        stored = await api.get("pods", name, "default")
        for status in stored["status"].get("resourceClaimStatuses", ()):
            if status["name"] == entry:
                claim: str = status["resourceClaimName"]
                return claim
        return None

    return await api.get("resourceclaims", await eventually(look), "default")


def test_a_claim_is_generated_from_a_template() -> None:
    """Name, owner, annotation, labels and spec are those that the real controller gives."""

    async def scene(api: Api) -> None:
        await api.create("resourceclaimtemplates", template(), "default")
        made = await api.create("pods", pod(gpu=FROM_TEMPLATE), "default")
        claim = await _generated(api)
        metadata = claim["metadata"]
        assert re.fullmatch(r"pod-gpu-[a-z0-9]{5}", metadata["name"])
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "pod",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert metadata["labels"] == {"app": "x"}
        assert metadata["annotations"] == {
            "note": "y",
            "resource.kubernetes.io/pod-claim-name": "gpu",
        }
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"

    controlled(resourceclaims.run, scene)


def test_a_pod_waits_for_its_template() -> None:
    """A pod may come before its template: an event says so, and the claim follows."""

    async def scene(api: Api) -> None:
        await api.create("pods", pod(gpu=FROM_TEMPLATE), "default")

        async def look() -> list[JsonObject]:
            return (await api.list("events", "default"))[0]

        (event,) = await eventually(look)
        assert event["reason"] == "FailedResourceClaimCreation"
        assert '"template"' in event["message"]
        await api.create("resourceclaimtemplates", template(), "default")
        assert await _generated(api)

    controlled(resourceclaims.run, scene)


def test_each_entry_gets_one_claim() -> None:
    """Two entries of one template are two claims; later changes of the pod make no more."""

    async def scene(api: Api) -> None:
        await api.create("resourceclaimtemplates", template(), "default")
        await api.create("pods", pod(a=FROM_TEMPLATE, b=FROM_TEMPLATE), "default")
        names = {(await _generated(api, entry=entry))["metadata"]["name"] for entry in "ab"}
        patch = {"metadata": {"labels": {"x": "y"}}}
        await api.patch("pods", "pod", patch, namespace="default")
        await settled()
        listed, _ = await api.list("resourceclaims", "default")
        assert {claim["metadata"]["name"] for claim in listed} == names
        assert len(names) == 2

    controlled(resourceclaims.run, scene)


def test_long_names_are_cut_in_proportion() -> None:
    """Pod and entry both stay recognizable in a name of at most 63 characters."""

    async def scene(api: Api) -> None:
        await api.create("resourceclaimtemplates", template(), "default")
        long_pod, long_entry = "p" * 60, "e" * 30
        await api.create("pods", pod(long_pod, **{long_entry: FROM_TEMPLATE}), "default")
        claim = await _generated(api, long_pod, long_entry)
        assert re.fullmatch(r"p{37}-e{18}-[a-z0-9]{5}", claim["metadata"]["name"])

    controlled(resourceclaims.run, scene)


def test_a_lost_claim_is_generated_again() -> None:
    """When somebody deletes the claim of a pending pod, the pod gets another."""

    async def scene(api: Api) -> None:
        await api.create("resourceclaimtemplates", template(), "default")
        await api.create("pods", pod(gpu=FROM_TEMPLATE), "default")
        first = (await _generated(api))["metadata"]["name"]
        await api.delete("resourceclaims", first, "default")

        async def look() -> bool:
            stored = await api.get("pods", "pod", "default")
            return bool(stored["status"]["resourceClaimStatuses"][0]["resourceClaimName"] != first)

        await eventually(look)
        assert await _generated(api)

    controlled(resourceclaims.run, scene)


def test_a_finished_pod_gives_its_generated_claim_back() -> None:
    """Reservation, allocation, finalizer and claim go when the pod has succeeded."""

    async def scene(api: Api) -> None:
        await api.create("resourceclaimtemplates", template(), "default")
        made = await api.create("pods", pod(gpu=FROM_TEMPLATE), "default")
        name = (await _generated(api))["metadata"]["name"]
        await allocate(api, name, made)
        await api.bind("pod", "default", node="node")
        await settled()
        assert (await api.get("resourceclaims", name, "default"))["status"]["reservedFor"]
        await set_phase(api, "pod", "Succeeded")
        await gone(api, "resourceclaims", name)
        await settled()
        assert (await api.list("resourceclaims"))[0] == []

    controlled(resourceclaims.run, scene)


def test_a_plain_claim_is_freed_and_stays() -> None:
    """A claim that a user made is deallocated with its last pod, and stays as object."""

    async def scene(api: Api) -> None:
        await api.create(
            "resourceclaims", {"metadata": {"name": "c"}, "spec": claim_spec()}, "default"
        )
        source = {"resourceClaimName": "c"}
        first = await api.create("pods", pod("first", gpu=source), "default")
        second = await api.create("pods", pod("second", gpu=source), "default")
        for name in ("first", "second"):
            await api.bind(name, "default", node="node")
        await allocate(api, "c", first, second)
        await set_phase(api, "first", "Failed")

        async def one_left() -> bool:
            claim = await api.get("resourceclaims", "c", "default")
            return len(claim["status"]["reservedFor"]) == 1

        await eventually(one_left)
        claim = await api.get("resourceclaims", "c", "default")
        assert claim["status"]["reservedFor"][0]["name"] == "second"
        assert "allocation" in claim["status"]
        await api.delete("pods", "second", "default", grace_period_s=0)

        async def freed() -> bool:
            claim = await api.get("resourceclaims", "c", "default")
            return not claim["status"] and not claim["metadata"].get("finalizers")

        await eventually(freed)

    controlled(resourceclaims.run, scene)


def test_a_deleted_claim_waits_for_its_pod() -> None:
    """The finalizer holds a claim in deletion while a pod that may run has it reserved."""

    async def scene(api: Api) -> None:
        await api.create(
            "resourceclaims", {"metadata": {"name": "c"}, "spec": claim_spec()}, "default"
        )
        made = await api.create("pods", pod(gpu={"resourceClaimName": "c"}), "default")
        await api.bind("pod", "default", node="node")
        await allocate(api, "c", made)
        await api.delete("resourceclaims", "c", "default")
        await api.delete("pods", "pod", "default")
        await settled()
        assert await exists(api, "resourceclaims", "c")
        await api.delete("pods", "pod", "default", grace_period_s=0)
        await gone(api, "resourceclaims", "c")

    controlled(resourceclaims.run, scene)


def test_an_unused_allocation_lasts_until_deletion() -> None:
    """A claim that is allocated and reserved for nobody keeps that until it is deleted."""

    async def scene(api: Api) -> None:
        await api.create(
            "resourceclaims", {"metadata": {"name": "c"}, "spec": claim_spec()}, "default"
        )
        await allocate(api, "c")
        await settled()
        claim = await api.get("resourceclaims", "c", "default")
        assert "allocation" in claim["status"]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        await api.delete("resourceclaims", "c", "default")
        await gone(api, "resourceclaims", "c")

    controlled(resourceclaims.run, scene)


def test_a_pod_with_a_preset_node_gets_its_reservation() -> None:
    """For a pod that was bound without the scheduler an allocated claim is reserved here."""

    async def scene(api: Api) -> None:
        await api.create(
            "resourceclaims", {"metadata": {"name": "c"}, "spec": claim_spec()}, "default"
        )
        wanted = pod(gpu={"resourceClaimName": "c"})
        wanted["spec"]["nodeName"] = "node"
        made = await api.create("pods", wanted, "default")
        await settled()
        assert "status" not in await api.get("resourceclaims", "c", "default")
        await allocate(api, "c")

        async def look() -> list[JsonObject]:
            claim = await api.get("resourceclaims", "c", "default")
            reserved: list[JsonObject] = claim["status"].get("reservedFor", [])
            return reserved

        (consumer,) = await eventually(look)
        assert consumer["uid"] == made["metadata"]["uid"]

    controlled(resourceclaims.run, scene)


def test_pod_says_why_its_claim_was_refused() -> None:
    """A claim that the server refuses becomes an event of the pod, and is tried again."""

    async def scene(api: Api) -> None:
        # Nobody listens there, and the policy is to refuse.
        config = {"url": "https://127.0.0.1:1/hook"}
        rule = {"operations": ["CREATE"], "apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"]}
        hook = {
            "name": "hook.gpuslice.test",
            "clientConfig": config,
            "rules": [{**rule, "resources": ["resourceclaims"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kind = "validatingwebhookconfigurations"
        await api.create(kind, {"metadata": {"name": "hook"}, "webhooks": [hook]})
        await api.create("resourceclaimtemplates", template(), "default")
        await api.create("pods", pod(gpu=FROM_TEMPLATE), "default")

        async def told() -> str | None:
            events, _ = await api.list("events", "default")
            return next((str(each["message"]) for each in events), None)

        message = await eventually(told)
        assert message.startswith("PodResourceClaim gpu: create ResourceClaim : Internal error")
        assert 'failed calling webhook "hook.gpuslice.test"' in message
        await api.delete(kind, "hook")
        assert await _generated(api)

    controlled(resourceclaims.run, scene)
