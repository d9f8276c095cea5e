"""Prepare and unprepare against a real plugin: checks of answers, cache, checkpoint, restarts."""

import asyncio
from dataclasses import replace

import pytest

from tests.sim.kubelet.plugin_server import Entry, good
from tests.sim.kubelet.scene import QUICK, Scene, scene, until

PREPARE_FAILED = "FailedPrepareDynamicResources"


async def ready_claim(node: Scene, name: str, *drivers: str) -> str:
    """Create an allocated claim whose CDI device exists, and return its UID."""
    stored = await node.claim(name, *drivers)
    uid = str(stored["metadata"]["uid"])
    node.spec_file(uid)
    return uid


def test_a_pod_runs_with_its_device() -> None:
    """Prepare, then a container with the device; unprepare after it, then the pod goes."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            pod = await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
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
            await ready_claim(node, "claim")
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
            both = await ready_claim(node, "both", one.driver, other.driver)
            mine = await ready_claim(node, "mine", one.driver)
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
            await ready_claim(node, "claim", plugin.driver, "nic.example.com")
            await node.pod("pod", "claim")
            await node.told(PREPARE_FAILED, "DRA driver nic.example.com is not registered")
            assert plugin.calls == []
            assert not (node.kubelet_root / "dra_manager_state").exists()
            await node.registered(node.plugin(driver="nic.example.com"))
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
            uids = [await ready_claim(node, name) for name in ("a", "b")]

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
            await ready_claim(node, "claim")
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


def test_the_checkpoint_comes_before_the_call() -> None:
    """While the plugin is asked, the claim is already noted without devices."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
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


def test_a_shared_claim_is_prepared_once_and_unprepared_last() -> None:
    """The first pod prepares, the last one to go unprepares."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            await node.pod("pod-1", "claim")
            await node.reaches("pod-1", "Running")
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
            old = await ready_claim(node, "claim")
            await node.pod("pod-1", "claim")
            await node.reaches("pod-1", "Running")
            plugin.unprepare = lambda uids: dict.fromkeys(uids, "busy")
            await node.api.delete("pods", "pod-1", "default", grace_period_s=0)
            await node.api.delete("resourceclaims", "claim", "default")
            new = await ready_claim(node, "claim")
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
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
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
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            await node.api.delete("resourceclaims", "claim", "default")
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)
            assert plugin.made("unprepare") == [[uid]]

    asyncio.run(play())


@pytest.mark.parametrize(("version", "times"), [("1.36", 2), ("1.37", 1)])
def test_a_repeated_answer_repeats_devices_in_old_kubelets(version: str, times: int) -> None:
    """Up to 1.36 a retry after a partial failure doubles the devices; 1.37 does not."""

    async def play() -> None:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")

            def skip_one(uids: list[str]) -> dict[str, Entry]:
                # Entries of the answer are taken before their number is found wrong.
                plugin.prepare = good
                return {one: entry for one, entry in good(uids).items() if one == uid}

            plugin.prepare = skip_one
            await ready_claim(node, "other")
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
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            await node.pod("pod-1", "claim")
            await node.reaches("pod-1", "Running")
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


def test_a_pod_deleted_while_kubelet_was_away_is_reconciled() -> None:
    """The loop over remembered claims unprepares what no pod uses any more."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            pod = await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            await node.kubelet.stop()
            await node.api.delete("pods", "pod", "default", grace_period_s=0)
            await node.kubelet.start()
            await until(lambda: plugin.made("unprepare") == [[uid]])
            await until(lambda: node.checkpoint() == [])
            assert node.container(pod) is None

    asyncio.run(play())


def test_share_ids_are_kept_where_kubelet_knows_them() -> None:
    """A v1 answer's share ID reaches the checkpoint from 1.35 on."""

    async def play(version: str) -> object:
        async with scene(version=version) as node:
            plugin = await node.registered(node.plugin())
            uid = await ready_claim(node, "claim")
            names = (f"example.com/gpu={uid}",)
            plugin.prepare = lambda uids: {one: Entry(cdi=names, share_id="s1") for one in uids}
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            return node.checkpoint()[0]["drivers"][plugin.driver][0]["share_id"]

    assert asyncio.run(play("1.37")) == "s1"
    assert asyncio.run(play("1.34")) is None


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
            uid = await ready_claim(node, "claim")
            cdi = (f"example.com/gpu={uid}",)
            plugin.prepare = lambda uids: {one: Entry(cdi=cdi, requests=names) for one in uids}
            pod = await node.pod("pod", "claim", uses={"claim": asked} if asked else None)
            await node.reaches("pod", "Running")
            view = node.container(pod)
            assert view is not None
            assert bool(view.cdi_devices) is found

    asyncio.run(play())


def test_only_usable_claims_are_prepared() -> None:
    """A claim must be there, reserved for the pod and allocated before any call is made."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await ready_claim(node, "claim")
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
                await ready_claim(node, f"claim-{number}")
            for number in range(4):
                await node.pod(f"pod-{number}", f"claim-{number}")
            for number in range(4):
                await node.reaches(f"pod-{number}", "Running")

    asyncio.run(play())
