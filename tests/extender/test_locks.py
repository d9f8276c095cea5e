"""Locks of nodes, on a simulated API server whose watch tells of their removal."""

import asyncio
from collections.abc import Mapping

import pytest

from extender.locks import LockError, Wanted
from hami.vendors import Lock
from tests.extender.locking import LOCK, MLU_LOCK, Scene, lock_value, scene, until, wanted

_BOTH = frozenset({Lock.SHARED, Lock.CAMBRICON})


async def _acquire(here: Scene, who: Wanted, wait_s: float = 20.0) -> Mapping[Lock, str]:
    return await here.locks.acquire(who, wait_s=wait_s, wanted_still=lambda: None)


def test_a_free_node_is_locked_by_one_patch() -> None:
    """Its value has three parts, and the version that the watch showed is the condition."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            before = len(here.writes())
            written = await _acquire(here, wanted())
            value = await here.lock_of()
            assert value == written[Lock.SHARED]
            assert value.split(",")[1:] == ["default", "p"]
            assert len(here.writes()) == before + 1
            assert here.value("gpuslice_extender_api_calls_total", call="get node") == 0

    asyncio.run(play())


def test_those_who_wait_come_in_their_order() -> None:
    """Each as soon as the lock of the one before is seen to be gone; none fails."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            done: list[str] = []

            async def bind(name: str) -> None:
                await _acquire(here, wanted(name, here.state.pods["default", name].uid))
                done.append(name)

            names = [f"p{each}" for each in range(8)]
            for name in names:
                await here.create_pod(name)
            tasks = []
            for name in names:
                tasks.append(asyncio.create_task(bind(name)))
                await asyncio.sleep(0)
            for count in range(1, len(names) + 1):
                await until(lambda count=count: len(done) == count)  # type: ignore[misc]
                assert (await here.lock_of() or "").endswith(f",{names[count - 1]}")
                await here.remove_lock()
            await asyncio.gather(*tasks)
            assert done == names
            assert here.value("gpuslice_extender_node_lock_wait_seconds_count") == len(names)

    asyncio.run(play())


def test_a_lock_that_the_watch_has_not_shown_yet_counts() -> None:
    """Between our PATCH and its event nobody else takes the node for free."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_pod("p")
            old = here.state.nodes["gpu1"]
            await _acquire(here, wanted("p", here.state.pods["default", "p"].uid))
            await until(lambda: here.state.nodes["gpu1"] != old)
            here.state.nodes["gpu1"] = old
            with pytest.raises(LockError, match="node lock contention"):
                await _acquire(here, wanted("q", "u-q"), wait_s=0.0)

    asyncio.run(play())


def test_an_old_version_is_looked_up_again() -> None:
    """A write of anybody else in between costs two requests more, and nobody is overwritten."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            old = here.state.nodes["gpu1"]
            await here.create_pod("owner")
            foreign = lock_value("owner")
            await here.set_lock(foreign)
            here.state.nodes["gpu1"] = old
            with pytest.raises(LockError, match="has been locked within 5m0s"):
                await _acquire(here, wanted(), wait_s=0.2)
            assert await here.lock_of() == foreign
            await here.set_lock(None)
            here.state.nodes["gpu1"] = old
            assert (await _acquire(here, wanted()))[Lock.SHARED] == await here.lock_of()

    asyncio.run(play())


def test_a_lock_is_taken_again_by_the_same_pod() -> None:
    """Without writing it anew; another pod of the name begins its time anew."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            first = await _acquire(here, wanted())
            before = len(here.writes())
            assert await _acquire(here, wanted()) == first
            assert len(here.writes()) == before
            await here.set_lock(lock_value("p", age_s=100))
            written = await _acquire(here, wanted(uid="another"))
            assert len(here.writes()) == before + 2
            assert written[Lock.SHARED] == await here.lock_of() != lock_value("p", age_s=100)

    asyncio.run(play())


@pytest.mark.parametrize("case", ["missing", "elsewhere", "expired", "old and unbound"])
def test_locks_of_owners_that_are_gone_are_taken_over(case: str) -> None:
    """At once, by one PATCH."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_node("gpu2")
            if case == "elsewhere":
                await here.create_pod("owner", nodeName="gpu2")
            elif case != "missing":
                await here.create_pod("owner")
            age_s = {"expired": 301.0, "old and unbound": 40.0}.get(case, 0.0)
            await here.set_lock(lock_value("owner", age_s))
            written = await _acquire(here, wanted(), wait_s=0.0)
            assert await here.lock_of() == written[Lock.SHARED]
            broken = sum(
                here.value("gpuslice_extender_node_locks_broken_total", reason=reason)
                for reason in ("missing", "elsewhere", "expired", "unbound")
            )
            assert broken == 1

    asyncio.run(play())


def test_the_lock_of_a_pod_that_is_deleted_meanwhile_is_taken_over() -> None:
    """Nobody else will ever remove it."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_pod("owner")
            await here.set_lock(lock_value("owner"))
            waiting = asyncio.create_task(_acquire(here, wanted()))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await asyncio.to_thread(here.client.delete, "/api/v1/namespaces/default/pods/owner")
            written = await waiting
            assert await here.lock_of() == written[Lock.SHARED]

    asyncio.run(play())


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z,a,b,c", "soon,default,p", "x"])
def test_a_lock_that_nobody_can_read_stands(text: str) -> None:
    """As for HAMi; the pod is told."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.set_lock(text)
            with pytest.raises(LockError):
                await _acquire(here, wanted())
            assert await here.lock_of() == text

    asyncio.run(play())


def test_cambricons_lock_is_held_in_the_same_patch() -> None:
    """It names nobody, so what stands there from others is respected for two minutes."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            before = len(here.writes())
            written = await _acquire(here, wanted(kinds=_BOTH))
            assert await here.lock_of(key=LOCK) == written[Lock.SHARED]
            assert await here.lock_of(key=MLU_LOCK) == written[Lock.CAMBRICON]
            assert len(here.writes()) == before + 1
            assert await _acquire(here, wanted(kinds=_BOTH)) == written
            only = frozenset({Lock.CAMBRICON})
            with pytest.raises(LockError, match="locked within 2 minutes"):
                await _acquire(here, wanted("q", "u-q", only), wait_s=0.0)
            await here.locks.release(wanted(kinds=_BOTH), written)
            assert await here.lock_of(key=MLU_LOCK) is None
            assert await here.lock_of(key=LOCK) is None

    asyncio.run(play())


def test_only_what_was_written_here_is_released() -> None:
    """A lock that another has set meanwhile stays."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            written = await _acquire(here, wanted(kinds=_BOTH))
            other, other_mlu = lock_value("other"), "2026-01-01T00:00:00Z"
            await here.set_lock(other)
            await here.set_lock(other_mlu, key=MLU_LOCK)
            await here.locks.release(wanted(kinds=_BOTH), written)
            assert await here.lock_of() == other
            assert await here.lock_of(key=MLU_LOCK) == other_mlu

    asyncio.run(play())


def test_releasing_survives_failures() -> None:
    """A conflict or a failing server is tried again."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            written = await _acquire(here, wanted())
            here.server.call(here.server.server.fail_next, 2, 503, path_part="/nodes/gpu1")
            await here.locks.release(wanted(), written)
            assert await here.lock_of() is None

    asyncio.run(play())


def test_who_is_not_wanted_any_more_leaves_the_line() -> None:
    """Such as when this replica has ceased to lead."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_pod("owner")
            await here.set_lock(lock_value("owner"))
            reason: list[str | None] = [None]
            waiting = [
                asyncio.create_task(
                    here.locks.acquire(
                        wanted(f"p{each}", f"u{each}"), wait_s=20, wanted_still=lambda: reason[0]
                    )
                )
                for each in range(3)
            ]
            await asyncio.sleep(0.05)
            reason[0] = "another leads"
            for each in waiting:
                with pytest.raises(LockError, match="another leads"):
                    await each

    asyncio.run(play())


def test_lines_are_forgotten() -> None:
    """Memory does not grow with the nodes that were ever bound to."""

    async def play() -> None:
        async with scene() as here:
            for each in range(5):
                await here.create_node(f"n{each}")
                who = Wanted(
                    node=f"n{each}", uid="u", owner=wanted().owner, kinds=frozenset({Lock.SHARED})
                )
                await _acquire(here, who)
                await until(lambda each=each: here.state.nodes[f"n{each}"].locks)  # type: ignore[misc]
                await here.set_lock(None, node=f"n{each}")
            await until(lambda: not here.locks._lines)
            with pytest.raises(LockError, match="not found"):
                await _acquire(
                    here,
                    Wanted(
                        node="none", uid="u", owner=wanted().owner, kinds=frozenset({Lock.SHARED})
                    ),
                )
            assert not here.locks._lines

    asyncio.run(play())
