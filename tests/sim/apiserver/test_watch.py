"""Watches replay, follow, select, expire and end."""

import asyncio

import aiohttp
import pytest

from sim.apiserver.errors import GoneError
from tests.sim.apiserver.builders import (
    PODS,
    WAIT_S,
    Served,
    configmap,
    pod,
    refused,
    served,
    watching,
)

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_watch_replays_and_follows() -> None:
    """From an old revision on every change comes once, in order."""

    async def scene(at: Served) -> None:
        _, listed = await at.wire.get(MAPS)
        revision = listed["metadata"]["resourceVersion"]
        _, made = await at.wire.post(MAPS, configmap())
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion={revision}") as stream:
            assert await stream.next() == ("ADDED", made)
            _, changed = await at.wire.patch(f"{MAPS}/map", {"data": {"key": "2"}})
            assert await stream.next() == ("MODIFIED", changed)
            await at.wire.delete(f"{MAPS}/map")
            kind, last = await stream.next()
            assert (kind, last["data"]) == ("DELETED", {"key": "2"})
            newer = int(last["metadata"]["resourceVersion"])
            assert newer > int(changed["metadata"]["resourceVersion"])

    served(scene)


def test_a_watch_from_nowhere_begins_with_what_is_there() -> None:
    """Without a revision, or from 0, the present objects come as ADDED."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        for query in ("watch=true", "watch=1&resourceVersion=0"):
            async with watching(at.wire, f"{MAPS}?{query}") as stream:
                kind, obj = await stream.next()
                assert (kind, obj["metadata"]["name"]) == ("ADDED", "map")

    served(scene)


def test_a_list_can_come_as_a_watch() -> None:
    """With `sendInitialEvents` a marked bookmark ends what was there from the beginning."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(MAPS, configmap())
        query = (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            "&allowWatchBookmarks=true"
        )
        async with watching(at.wire, f"{MAPS}?{query}") as stream:
            assert await stream.next() == ("ADDED", made)
            kind, mark = await stream.next()
            assert (kind, mark["metadata"]["resourceVersion"]) == (
                "BOOKMARK",
                made["metadata"]["resourceVersion"],
            )
            assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await at.wire.delete(f"{MAPS}/map")
            assert (await stream.next())[0] == "DELETED"

    served(scene)


def test_selected_objects_come_and_go() -> None:
    """An object that is bound to the selected node is ADDED for that node's watcher."""

    async def scene(at: Served) -> None:
        query = "watch=1&resourceVersion=1&fieldSelector=spec.nodeName%3Dnode-a"
        async with watching(at.wire, f"/api/v1/pods?{query}") as stream:
            await at.wire.post(PODS, pod("other"))
            await at.wire.post(PODS, pod())
            target = {"metadata": {"name": "pod"}, "target": {"kind": "Node", "name": "node-a"}}
            assert (await at.wire.post(f"{PODS}/pod/binding", target))[0] == 201
            kind, obj = await stream.next()
            assert (kind, obj["metadata"]["name"]) == ("ADDED", "pod")
        query = "watch=1&resourceVersion=0&labelSelector=a%3Db"
        async with watching(at.wire, f"{PODS}?{query}") as stream:
            await at.wire.patch(f"{PODS}/pod", {"metadata": {"labels": {"a": "b"}}})
            assert (await stream.next())[0] == "ADDED"
            await at.wire.patch(f"{PODS}/pod", {"metadata": {"labels": {"a": "c"}}})
            assert (await stream.next())[0] == "DELETED"

    served(scene)


def test_bookmarks_carry_the_newest_revision() -> None:
    """A watcher that asks for bookmarks learns of revisions that do not concern it."""

    async def scene(at: Served) -> None:
        query = "watch=1&resourceVersion=1&allowWatchBookmarks=true"
        async with watching(at.wire, f"{PODS}?{query}") as stream:
            _, made = await at.wire.post(MAPS, configmap())
            newest = made["metadata"]["resourceVersion"]
            while True:
                kind, obj = await stream.next()
                assert (kind, obj["kind"]) == ("BOOKMARK", "Pod")
                if obj["metadata"]["resourceVersion"] == newest:
                    break

    served(scene, bookmark_interval_s=0.02)


def test_the_server_ends_a_watch_in_time() -> None:
    """`timeoutSeconds` ends a watch, with a last bookmark where they are asked for."""

    async def scene(at: Served) -> None:
        query = "watch=1&resourceVersion=1&timeoutSeconds=1"
        async with watching(at.wire, f"{PODS}?{query}") as stream:
            assert await stream.rest() == []
        async with watching(at.wire, f"{PODS}?{query}&allowWatchBookmarks=1") as stream:
            assert [event["type"] for event in await stream.rest()] == ["BOOKMARK"]

    served(scene)


def test_an_old_revision_is_gone_after_compaction() -> None:
    """A watch from before a compaction is answered with 410, one from now on works."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        at.server.compact()
        status, answer = await at.wire.get(f"{MAPS}?watch=1&resourceVersion=2")
        assert (status, answer["reason"], answer["code"]) == (410, "Expired", 410)
        _, listed = await at.wire.get(MAPS)
        revision = listed["metadata"]["resourceVersion"]
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion={revision}") as stream:
            await at.wire.delete(f"{MAPS}/map")
            assert (await stream.next())[0] == "DELETED"

    served(scene)


def test_a_future_revision_is_refused() -> None:
    """A revision of another server's life is no place to watch from."""

    async def scene(at: Served) -> None:
        status, answer = await at.wire.get(f"{MAPS}?watch=1&resourceVersion=999999")
        assert (status, answer["reason"]) == (504, "Timeout")
        assert (await at.wire.get(f"{MAPS}?watch=1&resourceVersion=abc"))[0] == 500

    served(scene)


def test_the_history_is_bounded() -> None:
    """A watcher in process that is too slow for the history gets GoneError."""

    async def scene(at: Served) -> None:
        _, start = await at.api.list("configmaps")
        watch = at.api.watch("configmaps", resource_version=start)
        for number in range(4):
            await at.api.create("configmaps", configmap(f"map-{number}"), "default")
        with pytest.raises(GoneError):
            await anext(watch)

    served(scene, history_length=3)


def test_the_in_process_watch_follows() -> None:
    """The facade yields changes and hands out copies."""

    async def scene(at: Served) -> None:
        _, start = await at.api.list("configmaps")
        watch = at.api.watch("configmaps", "default", resource_version=start)
        first = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await at.api.create("configmaps", configmap(), "default")
        kind, obj = await asyncio.wait_for(first, WAIT_S)
        obj["data"]["key"] = "spoilt"
        assert kind == "ADDED"
        assert (await at.api.get("configmaps", "map", "default"))["data"] == {"key": "value"}
        error = await refused(at.api.get("configmaps", "none", "default"))
        assert (error.code, error.reason) == (404, "NotFound")

    served(scene)


def test_dropped_watches_break() -> None:
    """A dropped watch is a broken connection; the next one works."""

    async def scene(at: Served) -> None:
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion=1") as stream:
            at.server.drop_watches()
            with pytest.raises(aiohttp.ClientError):
                await stream.rest()
        await at.wire.post(MAPS, configmap())
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion=1") as stream:
            assert (await stream.next())[0] == "ADDED"

    served(scene)
