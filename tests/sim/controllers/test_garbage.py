"""Owned objects go with their owners, namespaces with their content, pods with their nodes."""

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.controllers import garbage, namespaces, podgc, suite
from tests.sim.controllers.scene import (
    controlled,
    eventually,
    exists,
    gone,
    pod,
    settled,
)


def _owned(name: str, *owners: JsonObject) -> JsonObject:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


def _slice(name: str, node: JsonObject) -> JsonObject:
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node", "pool": pool}
    return {**_owned(name, node), "spec": spec}


def test_slices_go_with_their_node() -> None:
    """A slice that a node owns is deleted with it; another owner's is not."""

    async def scene(api: Api) -> None:
        node = await api.create("nodes", {"metadata": {"name": "node"}})
        other = await api.create("nodes", {"metadata": {"name": "other"}})
        await api.create("resourceslices", _slice("mine", node))
        await api.create("resourceslices", _slice("others", other))
        await settled()
        await api.delete("nodes", "node")
        await gone(api, "resourceslices", "mine", None)
        assert await exists(api, "resourceslices", "others", None)

    controlled(garbage.run, scene)


def test_an_object_of_a_stranger_goes_at_once() -> None:
    """An owner counts by UID: one of the same name made anew is another."""

    async def scene(api: Api) -> None:
        old = await api.create("nodes", {"metadata": {"name": "node"}})
        await api.delete("nodes", "node")
        await api.create("nodes", {"metadata": {"name": "node"}})
        await api.create("resourceslices", _slice("late", old))
        await gone(api, "resourceslices", "late", None)

    controlled(garbage.run, scene)


def test_the_last_owner_decides() -> None:
    """With two owners an object outlives the first."""

    async def scene(api: Api) -> None:
        owners = [
            await api.create("configmaps", {"metadata": {"name": name}}, "default")
            for name in ("a", "b")
        ]
        await api.create("secrets", _owned("s", *owners), "default")
        await api.delete("configmaps", "a", "default")
        await settled()
        assert await exists(api, "secrets", "s")
        await api.delete("configmaps", "b", "default")
        await gone(api, "secrets", "s")

    controlled(garbage.run, scene)


def test_owners_of_unknown_kinds_are_believed() -> None:
    """What the server does not serve is taken to exist."""

    async def scene(api: Api) -> None:
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "uid": "1"},
        }
        await api.create("configmaps", _owned("c", deployment), "default")
        await settled()
        assert await exists(api, "configmaps", "c")

    controlled(garbage.run, scene)


def test_a_namespace_goes_when_it_is_empty() -> None:
    """Content is deleted first; what holds content holds the namespace."""

    async def scene(api: Api) -> None:
        await api.create("namespaces", {"metadata": {"name": "ns"}})
        await api.create("configmaps", {"metadata": {"name": "c"}}, "ns")
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await api.create("configmaps", held, "ns")
        await api.delete("namespaces", "ns")
        await gone(api, "configmaps", "c", "ns")
        namespace = await api.get("namespaces", "ns")
        assert namespace["status"]["phase"] == "Terminating"
        patch = {"metadata": {"finalizers": None}}
        await api.patch("configmaps", "held", patch, namespace="ns")
        await gone(api, "namespaces", "ns", None)

    controlled(namespaces.run, scene)


def test_pods_go_with_their_node() -> None:
    """Pods of a deleted node are failed and removed; those of others stay."""

    async def scene(api: Api) -> None:
        for name in ("node", "other"):
            await api.create("nodes", {"metadata": {"name": name}})
            await api.create("pods", pod(f"on-{name}"), "default")
            await api.bind(f"on-{name}", "default", node=name)
        await settled()
        await api.delete("nodes", "node")
        await gone(api, "pods", "on-node")
        assert await exists(api, "pods", "on-other")

    controlled(podgc.run, scene)


def test_all_controllers_run_together() -> None:
    """Deleting a pod without trace takes its generated claim along."""

    async def scene(api: Api) -> None:
        spec = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "c"}}]}}
        template = {"metadata": {"name": "t"}, "spec": {"spec": spec}}
        await api.create("resourceclaimtemplates", template, "default")
        await api.create("pods", pod(gpu={"resourceClaimTemplateName": "t"}), "default")

        async def claims() -> list[JsonObject]:
            return (await api.list("resourceclaims"))[0]

        await eventually(claims)
        await api.delete("pods", "pod", "default")

        async def none() -> bool:
            return not await claims()

        await eventually(none)

    controlled(suite.run, scene)
