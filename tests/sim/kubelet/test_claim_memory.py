"""What kubelet remembers of prepared claims: its checkpoint, and what a restart loses."""

import asyncio

import pytest

from tests.sim.kubelet.plugin_server import Entry, good
from tests.sim.kubelet.scene import scene, until


def test_the_checkpoint_comes_before_the_call() -> None:
    """While the plugin is asked, the claim is already noted without devices."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            seen: list[object] = []

            def answer(uids: list[str]) -> dict[str, Entry]:
                seen.extend(node.checkpoint())
                return good(uids)

            plugin.prepare = answer
            pod = await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            assert seen == [
                {
                    "namespace": "default",
                    "name": "claim",
                    "uid": uid,
                    "pods": [pod["metadata"]["uid"]],
                    "drivers": {plugin.driver: []},
                }
            ]
            assert len(node.checkpoint()[0]["drivers"][plugin.driver]) == 1

    asyncio.run(play())


def test_share_ids_are_kept_where_kubelet_knows_them() -> None:
    """A v1 answer's share ID reaches the checkpoint from 1.35 on."""

    async def play(version: str) -> object:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            names = (f"example.com/gpu={uid}",)
            plugin.prepare = lambda uids: {one: Entry(cdi=names, share_id="s1") for one in uids}
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            return node.checkpoint()[0]["drivers"][plugin.driver][0]["share_id"]

    assert asyncio.run(play("1.37")) == "s1"
    assert asyncio.run(play("1.34")) is None


@pytest.mark.parametrize(("version", "times"), [("1.36", 2), ("1.37", 1)])
def test_a_repeated_answer_repeats_devices_in_old_kubelets(version: str, times: int) -> None:
    """Up to 1.36 a retry after a partial failure doubles the devices; 1.37 does not."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")

            def skip_one(uids: list[str]) -> dict[str, Entry]:
                # Entries of the answer are taken before their number is found wrong.
                plugin.prepare = good
                return {one: entry for one, entry in good(uids).items() if one == uid}

            plugin.prepare = skip_one
            await node.ready_claim("other")
            pod = await node.pod("pod", "claim", "other")
            await node.reaches("pod", "Running")
            view = node.container(pod)
            assert view is not None
            assert view.cdi_devices.count(f"example.com/gpu={uid}") == times

    asyncio.run(play())


@pytest.mark.parametrize(("version", "times"), [("1.36", 2), ("1.37", 1)])
def test_a_restart_loses_that_claims_are_prepared(version: str, times: int) -> None:
    """A restarted kubelet leaves running pods alone and prepares again for the next one."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin, uid, _ = await node.running_pod("pod-1")
            await node.kubelet.restart()
            await until(node.endpoints)
            assert plugin.made("prepare") == [[uid]]
            second = await node.pod("pod-2", "claim")
            await node.reaches("pod-2", "Running")
            assert plugin.made("prepare") == [[uid], [uid]]
            view = node.container(second)
            assert view is not None
            assert view.cdi_devices == (f"example.com/gpu={uid}",) * times

    asyncio.run(play())


@pytest.mark.parametrize(("version", "kept"), [("1.36", ("old", "new")), ("1.37", ("new",))])
def test_the_newer_answer_counts_alone_in_new_kubelets(version: str, kept: tuple[str, ...]) -> None:
    """What a driver answers the second time replaces its first answer in 1.37 only."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin, uid, _ = await node.running_pod("pod-1")
            kept_names = tuple(f"example.com/gpu={uid}-{part}" for part in kept)
            for part in ("old", "new"):
                node.spec_file(f"{uid}-{part}")
            await node.api.delete("pods", "pod-1", "default")
            await node.reaches("pod-1", None)
            answers = ["old", "new"]

            def answer(uids: list[str]) -> dict[str, Entry]:
                part = answers.pop(0)
                return {one: Entry(cdi=(f"example.com/gpu={one}-{part}",)) for one in uids}

            plugin.prepare = answer
            await node.pod("pod-2", "claim")
            await node.reaches("pod-2", "Running")
            await node.kubelet.restart()
            await until(node.endpoints)
            third = await node.pod("pod-3", "claim")
            await node.reaches("pod-3", "Running")
            view = node.container(third)
            assert view is not None
            assert view.cdi_devices == kept_names

    asyncio.run(play())


@pytest.mark.parametrize(("version", "times"), [("1.36", 2), ("1.37", 1)])
def test_an_answer_is_noted_as_often_as_it_says(version: str, times: int) -> None:
    """No kubelet compares the devices of one answer; only an earlier answer makes a difference."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            names = (f"example.com/gpu={uid}",) * 2
            plugin.prepare = lambda uids: {one: Entry(cdi=names) for one in uids}
            await node.pod("pod-1", "claim")
            await node.reaches("pod-1", "Running")
            await node.kubelet.restart()
            await until(node.endpoints)
            second = await node.pod("pod-2", "claim")
            await node.reaches("pod-2", "Running")
            view = node.container(second)
            assert view is not None
            assert view.cdi_devices == names * times

    asyncio.run(play())
