"""The scheduler writes claims and bindings through a real API server."""

import asyncio

from kube.objects import ObjectKey
from sim.apiserver.server import ApiServer
from sim.scheduler.claimwriting import FINALIZER
from tests.sim.scheduler.scene import Scene, played, scheduled, scheduling


def test_pod_is_bound_with_its_share() -> None:
    """A pod gets a node, and its claim an allocation, a reservation and a finalizer."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.claim("c", "3000Mi")
        await scene.pod("p", "c")
        assert await scene.bound("p") == "a"
        pod, claim = await scene.get("pods", "p"), await scene.get("resourceclaims", "c")
        assert scheduled(pod)["status"] == "True"
        assert FINALIZER in claim["metadata"]["finalizers"]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
        ]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["consumedCapacity"] == {"memory": "3000Mi", "shares": "1"}
        assert result["shareID"]

    played(play)


def test_order_of_arrival_does_not_matter() -> None:
    """A pod waits for its claim, its node and its class's devices in any order."""

    async def play(scene: Scene) -> None:
        await scene.pod("p", "c")
        assert await scene.pending("p", "not found") == 'resourceclaim "c" not found'
        await scene.claim("c", "1Gi")
        await scene.pending("p", "no nodes")
        await scene.node("a")
        assert await scene.bound("p") == "a"

    played(play)


def test_third_share_of_two_waits_until_one_is_free() -> None:
    """A device with two shares serves two claims; the third is served when one ends."""

    async def play(scene: Scene) -> None:
        await scene.node("a", shares=2)
        for name in ("one", "two", "three"):
            await scene.claim(name, "1Gi")
            await scene.pod(name, name)
        assert await scene.bound("one") == await scene.bound("two") == "a"
        message = await scene.pending("three")
        assert "SharesInsufficient on 1 device (asked 1, free 0 of 2)" in message
        (verdict,) = scene.scheduler.explain(ObjectKey("default", "three"))
        assert (verdict.node, verdict.refused.code) == ("a", "SharesInsufficient")
        await _release(scene, "one")
        assert await scene.bound("three") == "a"
        assert scene.scheduler.explain(ObjectKey("default", "three")) == []

    played(play)


async def _release(scene: Scene, claim: str) -> None:
    """Take the devices of a claim away, as the claim controller does after its last pod."""
    item = await scene.get("resourceclaims", claim)
    item["status"] = {}
    await scene.api.update("resourceclaims", item, subresource="status")


def test_bare_claim_waits_between_shares() -> None:
    """A claim for the default, the whole memory, waits while a share is there; a share fits."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        for name, memory in (("first", "4Gi"), ("bare", None), ("second", "4Gi")):
            await scene.claim(name, memory)
            await scene.pod(name, name)
        assert await scene.bound("first") == await scene.bound("second") == "a"
        assert "MemoryInsufficient" in await scene.pending("bare", "free 32Gi")

    played(play)


def test_shared_claim_is_reserved_for_both_pods() -> None:
    """Two pods with one claim run on the node of its devices, and it is reserved for both."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.node("b")
        await scene.claim("c", "1Gi")
        await scene.pod("one", "c")
        await scene.pod("two", "c")
        assert await scene.bound("one") == await scene.bound("two") == "a"
        claim = await scene.get("resourceclaims", "c")
        assert [it["name"] for it in claim["status"]["reservedFor"]] == ["one", "two"]
        assert len(claim["status"]["allocation"]["devices"]["results"]) == 1

    played(play)


def test_claim_on_a_lost_node_is_allocated_anew() -> None:
    """A claim that no pod has reserved moves when its devices are where the pod cannot run."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.claim("c", "1Gi")
        await scene.pod("one", "c")
        await scene.bound("one")
        claim = await scene.get("resourceclaims", "c")
        claim["status"]["reservedFor"] = []
        await scene.api.update("resourceclaims", claim, subresource="status")
        await scene.node("b")
        await scene.api.patch("nodes", "a", {"spec": {"unschedulable": True}})
        await scene.pod("two", "c")
        assert await scene.bound("two") == "b"

    played(play)


def test_pods_of_others_are_left_alone() -> None:
    """Gated pods and those of another scheduler are neither bound nor judged."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.pod("gated", schedulingGates=[{"name": "later"}])
        await scene.pod("foreign", schedulerName="other")
        await scene.pod("mine")
        await scene.bound("mine")
        for name in ("gated", "foreign"):
            pod = await scene.get("pods", name)
            assert "nodeName" not in pod["spec"]
            assert scheduled(pod).get("reason") != "Unschedulable"

    played(play)


def test_extended_resource_without_provider_is_insufficient() -> None:
    """A limit that no node offers keeps the pod pending, beside a claim that fits."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.claim("c", "1Gi")
        limits = {"limits": {"nvidia.com/gpumem-percentage": "50"}}
        containers = [{"name": "main", "image": "none", "resources": limits}]
        await scene.pod("p", "c", containers=containers)
        assert "Insufficient nvidia.com/gpumem-percentage" in await scene.pending("p")

    played(play)


def test_generated_claim_is_served_when_it_appears() -> None:
    """A pod with a template waits for its claim and is bound once that is made."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        entry = {"name": "gpu", "resourceClaimTemplateName": "share"}
        await scene.add_pod("p", {"resourceClaims": [entry]})
        assert 'template "share"' in await scene.pending("p")
        pod = await scene.get("pods", "p")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
        await scene.claim("p-gpu", "1Gi")
        await scene.api.patch(
            "resourceclaims",
            "p-gpu",
            {"metadata": {"ownerReferences": [{**owner, "controller": True}]}},
            namespace="default",
        )
        names = [{"name": "gpu", "resourceClaimName": "p-gpu"}]
        await scene.api.patch(
            "pods",
            "p",
            {"status": {"resourceClaimStatuses": names}},
            namespace="default",
            subresource="status",
        )
        assert await scene.bound("p") == "a"

    played(play)


def test_server_without_sharing_gives_whole_devices() -> None:
    """On a server that drops sharing each device serves one claim."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        for name in ("one", "two"):
            await scene.claim(name, "1Gi")
            await scene.pod(name, name)
        await scene.bound("one")
        assert "DeviceInUse" in await scene.pending("two")
        claim = await scene.get("resourceclaims", "one")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert "consumedCapacity" not in result

    played(play, "1.34")


def test_lost_history_is_listed_again() -> None:
    """After the server has forgotten the history, the scheduler lists and goes on."""

    async def play() -> None:
        server = ApiServer("1.36", history_length=2)
        async with scheduling(server) as scene:
            for index in range(20):
                await server.api.create("nodes", {"metadata": {"name": f"node-{index}"}})
            await scene.pod("p")
            assert await scene.bound("p") == "node-0"

    asyncio.run(play())


def test_many_pods_fill_a_device_exactly() -> None:
    """Of more claims than fit as many are served as there is room for."""

    async def play(scene: Scene) -> None:
        await scene.node("a", memory="10Gi")
        names = [f"p{index:02}" for index in range(14)]
        for name in names:
            await scene.claim(name, "1Gi")
            await scene.pod(name, name)
        waits = [scene.bound(name) for name in names[:10]]
        assert set(await asyncio.gather(*waits)) == {"a"}
        for name in names[10:]:
            await scene.pending(name, "Insufficient")

    played(play)
