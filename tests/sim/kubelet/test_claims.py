"""Prepare against a real plugin: who is called, with what, and which answers count."""

import asyncio
from dataclasses import replace

import pytest

from tests.sim.kubelet.plugin_server import Entry, good
from tests.sim.kubelet.scene import PREPARE_FAILED, QUICK, scene, until


def test_a_pod_runs_with_its_device() -> None:
    """Prepare, then a container with the device; unprepare after it, then the pod goes."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, pod = await node.running_pod()
            assert plugin.calls[0].service == "v1"
            assert plugin.calls[0].names == ["default/claim"]
            view = node.container(pod)
            assert view is not None
            assert view.env["CLAIM"] == uid
            assert view.cdi_devices == (f"example.com/gpu={uid}",)
            assert [claim["uid"] for claim in node.checkpoint()] == [uid]
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)
            assert plugin.made("unprepare") == [[uid]]
            assert node.checkpoint() == []
            await until(lambda: node.container(pod) is None)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("versions", "service"),
    [(("v1beta1.DRAPlugin",), "v1beta1"), (("v1beta1.DRAPlugin", "v1.DRAPlugin"), "v1beta1")],
)
def test_calls_use_the_chosen_service(versions: tuple[str, ...], service: str) -> None:
    """A plugin that prefers v1beta1 gets its calls there."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin(versions=versions))
            await node.ready_claim("claim")
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)
            assert {call.service for call in plugin.calls} == {service}

    asyncio.run(play())


def test_one_call_carries_all_claims_of_a_driver() -> None:
    """Each driver of the pod's claims gets one call with its own claims."""

    async def play() -> None:
        async with scene() as node:
            one = await node.registered(node.plugin())
            other = await node.registered(node.plugin(driver="nic.example.com"))
            both = await node.ready_claim("both", one.driver, other.driver)
            mine = await node.ready_claim("mine", one.driver)
            await node.pod("pod", "both", "mine")
            await node.reaches("pod", "Running")
            assert one.made("prepare") == [sorted([both, mine])]
            assert other.made("prepare") == [[both]]

    asyncio.run(play())


def test_a_missing_driver_stops_everything_before_any_call() -> None:
    """All drivers must be registered, else nobody is called and nothing is noted."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await node.ready_claim("claim", plugin.driver, "nic.example.com")
            await node.pod("pod", "claim")
            await node.told(PREPARE_FAILED, "DRA driver nic.example.com is not registered")
            assert plugin.calls == []
            assert not (node.kubelet_root / "dra_manager_state").exists()
            await node.registered(node.plugin(driver="nic.example.com"))
            await node.reaches("pod", "Running")

    asyncio.run(play())


def test_only_usable_claims_are_prepared() -> None:
    """A claim must be there, reserved for the pod and allocated before any call is made."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await node.ready_claim("claim")
            # The kubelet is stopped, so that the pod is seen first with an unusable claim.
            await node.kubelet.stop()
            await node.pod("pod", "claim")
            stored = await node.api.get("resourceclaims", "claim", "default")
            status = stored.pop("status")
            await node.api.update("resourceclaims", {**stored, "status": {}}, subresource="status")
            await node.kubelet.start()
            await node.told(PREPARE_FAILED, "is not allowed to use ResourceClaim claim")
            assert plugin.made("prepare") == []
            stored = await node.api.get("resourceclaims", "claim", "default")
            await node.api.update(
                "resourceclaims", {**stored, "status": status}, subresource="status"
            )
            await node.reaches("pod", "Running")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("missing", "NodePrepareResources skipped 1 ResourceClaims"),
        ("error", "NodePrepareResources failed for ResourceClaim"),
        ("unknown", "NodePrepareResources returned result for unknown claim UID other"),
    ],
)
def test_a_wrong_answer_fails_the_pod_until_it_is_right(wrong: str, told: str) -> None:
    """A missing entry, an error and an unknown UID each fail; the retry sends all again."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uids = [await node.ready_claim(name) for name in ("a", "b")]

            def answer(asked: list[str]) -> dict[str, Entry]:
                entries = good(asked)
                if wrong == "missing":
                    del entries[asked[0]]
                if wrong == "error":
                    entries[asked[0]] = Entry(error="no room")
                if wrong == "unknown":
                    entries["other"] = entries.pop(asked[0])
                return entries

            plugin.prepare = answer
            await node.pod("pod", "a", "b")
            message = await node.told(PREPARE_FAILED, told)
            assert wrong != "error" or message.endswith("no room")
            assert await node.phase("pod") == "Pending"
            plugin.prepare = good
            await node.reaches("pod", "Running")
            assert plugin.made("prepare")[-1] == sorted(uids)

    asyncio.run(play())


def test_a_deadline_is_a_failure_and_retried() -> None:
    """Kubelet gives up waiting, says so, and asks again."""

    async def play() -> None:
        async with scene(timing=replace(QUICK, call_timeout_s=0.2)) as node:
            plugin = await node.registered(node.plugin())
            await node.ready_claim("claim")
            done = asyncio.Event()
            loop = asyncio.get_running_loop()

            def slow(uids: list[str]) -> dict[str, Entry]:
                asyncio.run_coroutine_threadsafe(done.wait(), loop).result(30)
                return good(uids)

            plugin.prepare = slow
            await node.pod("pod", "claim")
            await node.told(PREPARE_FAILED, "DEADLINE_EXCEEDED")
            done.set()
            await node.reaches("pod", "Running")
            assert len(plugin.made("prepare")) >= 2

    asyncio.run(play())


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        (("gpu",), "gpu", True),
        (("gpu",), "other", False),
        ((), "other", True),
        (("gpu",), "", True),
    ],
)
def test_a_container_gets_the_devices_of_its_request(
    names: tuple[str, ...], asked: str, *, found: bool
) -> None:
    """Request names select; an empty list or an empty request selects all."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            cdi = (f"example.com/gpu={uid}",)
            plugin.prepare = lambda uids: {one: Entry(cdi=cdi, requests=names) for one in uids}
            pod = await node.pod("pod", "claim", uses={"claim": asked} if asked else None)
            await node.reaches("pod", "Running")
            view = node.container(pod)
            assert view is not None
            assert bool(view.cdi_devices) is found

    asyncio.run(play())


def test_pods_start_side_by_side() -> None:
    """Pods whose plugin calls take long do not wait for one another."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            meet = asyncio.Barrier(4)
            loop = asyncio.get_running_loop()

            def together(uids: list[str]) -> dict[str, Entry]:
                asyncio.run_coroutine_threadsafe(meet.wait(), loop).result(30)
                return good(uids)

            plugin.prepare = together
            for number in range(4):
                await node.ready_claim(f"claim-{number}")
            for number in range(4):
                await node.pod(f"pod-{number}", f"claim-{number}")
            for number in range(4):
                await node.reaches(f"pod-{number}", "Running")

    asyncio.run(play())


@pytest.mark.parametrize(("version", "ends"), [("1.36", False), ("1.37", True)])
def test_a_claim_that_a_pod_names_twice_is_asked_for_twice(version: str, *, ends: bool) -> None:
    """Kubelet finds one answer missing, time and again; in 1.36 at the pod's end too."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            entries = [{"name": name, "resourceClaimName": "claim"} for name in ("a", "b")]
            pod = await node.pod("pod", resourceClaims=entries)
            await node.reserve("claim", pod)
            await node.told(PREPARE_FAILED, "NodePrepareResources skipped 1 ResourceClaims")
            assert plugin.made("prepare")[0] == [uid, uid]
            await until(lambda: len(plugin.made("prepare")) > 1)
            assert await node.phase("pod") == "Pending"
            await node.api.delete("pods", "pod", "default")
            if ends:
                await node.reaches("pod", None)
                assert plugin.made("unprepare") == [[uid]]
                return
            await until(lambda: plugin.made("unprepare")[:2] == [[uid, uid]] * 2)
            assert await node.phase("pod") == "Pending"

    asyncio.run(play())
