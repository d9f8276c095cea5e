"""Extended resources that a device class stands for are served by a claim that is made for them."""

import asyncio

from sim.apiserver.server import ApiServer
from sim.scheduler.cel import fault_of
from tests.sim.scheduler.scene import DRIVER, Json, scheduling

RESOURCE = "example.com/gpu"


def _container(name: str, number: str) -> Json:
    asked = {RESOURCE: number}
    return {"name": name, "image": "none", "resources": {"requests": asked, "limits": asked}}


def test_claim_is_made_for_the_pod() -> None:
    """The claim belongs to the pod, has its device, and stands in the pod's status."""

    async def play() -> None:
        server = ApiServer("1.37", check_expression=fault_of)
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        spec = {"selectors": selectors, "extendedResourceName": RESOURCE}
        await server.api.create("deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
        async with scheduling(server, "1.37") as scene:
            await scene.node("a")
            await scene.add_pod("p", {"containers": [_container("main", "1")]})
            assert await scene.bound("p") == "a"
            pod = await scene.get("pods", "p")
            status = pod["status"]["extendedResourceClaimStatus"]
            claim = await scene.get("resourceclaims", status["resourceClaimName"])
            assert status["requestMappings"] == [
                {
                    "containerName": "main",
                    "resourceName": RESOURCE,
                    "requestName": "container-0-request-0",
                }
            ]
            assert claim["metadata"]["name"].startswith("p-extended-resources-")
            assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
            assert [it["uid"] for it in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert (result["request"], result["device"]) == ("container-0-request-0", "gpu-0")

    asyncio.run(play())


def test_second_pod_waits() -> None:
    """Whoever comes when all devices are taken is told so."""

    async def play() -> None:
        server = ApiServer("1.37", check_expression=fault_of)
        spec = {"extendedResourceName": RESOURCE}
        await server.api.create("deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
        async with scheduling(server, "1.37") as scene:
            await scene.node("a")
            await scene.add_pod("first", {"containers": [_container("main", "1")]})
            await scene.bound("first")
            await scene.add_pod("second", {"containers": [_container("main", "1")]})
            assert "cannot allocate all claims" in await scene.pending("second")

    asyncio.run(play())
