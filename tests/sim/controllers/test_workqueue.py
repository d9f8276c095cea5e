"""The work queue works once per key at a time and tries again."""

import asyncio

from sim.controllers.workqueue import RetryError, WorkQueue

WAIT_S = 30.0


def test_waiting_keys_are_not_doubled() -> None:
    """A key that waits already is worked on once."""

    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue("test")
        done: list[str] = []
        finished = asyncio.Event()

        async def work(key: str) -> None:
            done.append(key)
            if key == "last":
                finished.set()

        for key in ("a", "b", "a", "last"):
            queue.add(key)
        task = asyncio.ensure_future(queue.run(work))
        await asyncio.wait_for(finished.wait(), WAIT_S)
        task.cancel()
        return done

    assert asyncio.run(run()) == ["a", "b", "last"]


def test_failed_work_comes_again_and_does_not_stop_the_rest() -> None:
    """Expected and unexpected failures are tried again; other keys go on."""

    async def run() -> list[str]:
        queue: WorkQueue[str] = WorkQueue("test")
        done: list[str] = []
        failures: dict[str, Exception] = {"a": RetryError("not yet"), "b": ValueError("a bug")}
        finished = asyncio.Event()

        async def work(key: str) -> None:
            failure = failures.pop(key, None)
            if failure is not None:
                raise failure
            done.append(key)
            if len(done) == 3:
                finished.set()

        for key in ("a", "b", "c"):
            queue.add(key)
        task = asyncio.ensure_future(queue.run(work))
        await asyncio.wait_for(finished.wait(), WAIT_S)
        task.cancel()
        return done

    done = asyncio.run(run())
    assert done[0] == "c"
    assert sorted(done) == ["a", "b", "c"]
