"""Unprepare against a real plugin: when it comes, and what a wrong answer holds up."""

import asyncio

import pytest

from tests.sim.kubelet.scene import PREPARE_FAILED, scene, until


def test_a_shared_claim_is_prepared_once_and_unprepared_last() -> None:
    """The first pod prepares, the last one to go unprepares."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, _ = await node.running_pod("pod-1")
            await node.pod("pod-2", "claim")
            await node.reaches("pod-2", "Running")
            assert plugin.made("prepare") == [[uid]]
            await node.api.delete("pods", "pod-1", "default")
            await node.reaches("pod-1", None)
            assert plugin.made("unprepare") == []
            await node.api.delete("pods", "pod-2", "default")
            await node.reaches("pod-2", None)
            assert plugin.made("unprepare") == [[uid]]

    asyncio.run(play())


def test_an_old_claim_of_the_same_name_is_an_error() -> None:
    """A new claim waits until the one before it, whose pod was forced away, is unprepared."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            old = await node.ready_claim("claim")
            await node.pod("pod-1", "claim")
            await node.reaches("pod-1", "Running")
            plugin.unprepare = lambda uids: dict.fromkeys(uids, "busy")
            await node.api.delete("pods", "pod-1", "default", grace_period_s=0)
            await node.api.delete("resourceclaims", "claim", "default")
            new = await node.ready_claim("claim")
            await node.pod("pod-2", "claim")
            await node.told(PREPARE_FAILED, f"different UID {old} still exists")
            assert plugin.made("prepare") == [[old]]
            plugin.unprepare = lambda uids: dict.fromkeys(uids, "")
            await node.reaches("pod-2", "Running")
            assert plugin.made("prepare") == [[old], [new]]

    asyncio.run(play())


@pytest.mark.parametrize(
    "answer", [{}, {"": "busy"}, {"other": ""}], ids=["skipped", "failed", "unknown"]
)
def test_a_wrong_unprepare_answer_keeps_the_pod(answer: dict[str, str]) -> None:
    """The pod stays until every claim is answered without an error."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, _ = await node.running_pod()
            plugin.unprepare = lambda uids: {key or uids[0]: why for key, why in answer.items()}
            await node.api.delete("pods", "pod", "default")
            await until(lambda: len(plugin.made("unprepare")) >= 2)
            assert await node.phase("pod") is not None
            assert [claim["uid"] for claim in node.checkpoint()] == [uid]
            plugin.unprepare = lambda uids: dict.fromkeys(uids, "")
            await node.reaches("pod", None)
            assert node.checkpoint() == []

    asyncio.run(play())


def test_unprepare_needs_no_claim_object() -> None:
    """A claim that is gone is unprepared by what kubelet remembers."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, _ = await node.running_pod()
            await node.api.delete("resourceclaims", "claim", "default")
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)
            assert plugin.made("unprepare") == [[uid]]

    asyncio.run(play())


def test_a_pod_deleted_while_kubelet_was_away_is_reconciled() -> None:
    """The loop over remembered claims unprepares what no pod uses any more."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, pod = await node.running_pod()
            await node.kubelet.stop()
            await node.api.delete("pods", "pod", "default", grace_period_s=0)
            await node.kubelet.start()
            await until(lambda: plugin.made("unprepare") == [[uid]])
            await until(lambda: node.checkpoint() == [])
            assert node.container(pod) is None

    asyncio.run(play())


@pytest.mark.parametrize(("version", "taken"), [("1.36", True), ("1.37", False)])
def test_a_pod_that_never_got_its_claims_leaves_others_alone(version: str, *, taken: bool) -> None:
    """1.36 unprepares a claim for a pod that was refused, though another pod uses it."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin, uid, _ = await node.running_pod("pod-1")
            await node.ready_claim("other", "nic.example.com")
            await node.pod("pod-2", "claim", "other")
            await node.told(PREPARE_FAILED, "DRA driver nic.example.com is not registered")
            await node.api.delete("pods", "pod-2", "default")
            await node.reaches("pod-2", None)
            assert plugin.made("unprepare") == ([[uid]] if taken else [])
            assert [claim["uid"] for claim in node.checkpoint()] == ([] if taken else [uid])
            await node.api.delete("pods", "pod-1", "default")
            await node.reaches("pod-1", None)
            assert plugin.made("unprepare") == [[uid]]

    asyncio.run(play())


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_a_pod_comes_while_its_claim_is_unprepared(version: str) -> None:
    """1.36 lets the pod run on what is then taken away; 1.37 lets it wait and prepares again."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin, uid, _ = await node.running_pod("pod-1")
            arrived, loop = asyncio.Event(), asyncio.get_running_loop()

            def slow(uids: list[str]) -> dict[str, str]:
                asyncio.run_coroutine_threadsafe(arrived.wait(), loop).result(30)
                return dict.fromkeys(uids, "")

            plugin.unprepare = slow
            await node.api.delete("pods", "pod-1", "default")
            await until(lambda: plugin.made("unprepare"))
            await node.pod("pod-2", "claim")
            if version == "1.37":
                await node.told(PREPARE_FAILED, "ResourceClaim claim is being unprepared")
            else:
                await node.reaches("pod-2", "Running")
            arrived.set()
            await node.reaches("pod-1", None)
            await node.reaches("pod-2", "Running")
            again = version == "1.37"
            assert plugin.made("prepare") == ([[uid], [uid]] if again else [[uid]])
            assert [claim["uid"] for claim in node.checkpoint()] == ([uid] if again else [])

    asyncio.run(play())
