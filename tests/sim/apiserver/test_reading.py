"""Lists, pages, discovery and paths that nobody serves."""

import pytest

from tests.sim.apiserver.builders import (
    PODS,
    SLICES,
    Served,
    configmap,
    served,
)

MAPS = "/api/v1/namespaces/default/configmaps"


def test_pages_show_one_state() -> None:
    """Pages of a list show the state of its first page, whatever happens meanwhile."""

    async def scene(at: Served) -> None:
        for number in range(5):
            await at.wire.post(MAPS, configmap(f"map-{number}"))
        _, first = await at.wire.get(f"{MAPS}?limit=2")
        assert first["metadata"]["remainingItemCount"] == 3
        await at.wire.delete(f"{MAPS}/map-3")
        token = first["metadata"]["continue"]
        _, second = await at.wire.get(f"{MAPS}?limit=2&continue={token}")
        _, third = await at.wire.get(f"{MAPS}?limit=2&continue={second['metadata']['continue']}")
        items = [*first["items"], *second["items"], *third["items"]]
        assert [item["metadata"]["name"] for item in items] == [f"map-{n}" for n in range(5)]
        assert "continue" not in third["metadata"]
        versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
        assert len(versions) == 1
        at.server.compact()
        status, answer = await at.wire.get(f"{MAPS}?limit=2&continue={token}")
        assert (status, answer["reason"]) == (410, "Expired")

    served(scene)


def test_listed_items_carry_no_kind() -> None:
    """The items of a list lack `kind` and `apiVersion`, as the real server's do."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        _, listed = await at.wire.get(f"{MAPS}?labelSelector=a")
        assert (listed["kind"], listed["items"]) == ("ConfigMapList", [])
        _, listed = await at.wire.get("/api/v1/configmaps")
        assert not {"kind", "apiVersion"} & listed["items"][0].keys()

    served(scene)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v2",
        "/api/v1/unicorns",
        "/apis/example.com/v1/things",
        f"{PODS}/pod/log",
        "/api/v1/pods/pod",
        f"{SLICES}/slice/status",
        "/apis/resource.k8s.io/v1beta1/resourceslices",
    ],
)
def test_unknown_paths_are_not_found(path: str) -> None:
    """What is not served is a 404, with a Status within what is."""

    async def scene(at: Served) -> None:
        status, answer = await at.wire.get(path)
        assert status == 404
        assert answer.get("text", "404 page not found\n") == "404 page not found\n"
        assert answer.get("reason", "NotFound") == "NotFound"

    served(scene)


def test_discovery_names_what_is_served() -> None:
    """A client finds version, groups and resources with their subresources."""

    async def scene(at: Served) -> None:
        _, version = await at.wire.get("/version")
        assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "37", "v1.37.0")
        _, groups = await at.wire.get("/apis")
        assert [group["name"] for group in groups["groups"]] == [
            "admissionregistration.k8s.io",
            "authorization.k8s.io",
            "coordination.k8s.io",
            "resource.k8s.io",
        ]
        _, listed = await at.wire.get("/apis/resource.k8s.io/v1")
        rows = {row["name"]: row for row in listed["resources"]}
        assert rows["resourceclaims/status"]["namespaced"]
        assert not rows["resourceslices"]["namespaced"]
        _, core = await at.wire.get("/api/v1")
        assert "pods/binding" in {row["name"] for row in core["resources"]}
        assert (await at.wire.get("/api"))[1]["versions"] == ["v1"]

    served(scene)
