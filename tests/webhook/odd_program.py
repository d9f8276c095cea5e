"""The program with parts that are slow or fail: `python -m tests.webhook.odd_program`.

A pod's name says what happens to its review: `slow` takes a second, `blocked` never ends.
"""

import asyncio
import sys
import threading
import time

from webhook.__main__ import run
from webhook.parts import Parts, Surroundings
from webhook.review import ALLOWED, Review, Verdict
from webhook.settings import WebhookSettings


class _Background:
    def start(self) -> None:
        """Say so."""
        sys.stdout.write("background started\n")
        sys.stdout.flush()

    def stop(self) -> None:
        """Say so."""
        sys.stdout.write("background stopped\n")
        sys.stdout.flush()


async def _decide(review: Review) -> Verdict:
    if review.name == "slow":
        await asyncio.sleep(1)
    if review.name == "blocked":
        # A call to a silent API server, in a thread that cannot be ended.
        await asyncio.to_thread(threading.Event().wait)
    return ALLOWED


async def _fail() -> None:
    await asyncio.sleep(0.2)
    message = "service broke"
    raise RuntimeError(message)


def _parts(surroundings: Surroundings) -> Parts:
    broken = surroundings.settings.scheduler_name == "broken"
    synced_at_s = time.monotonic() + 0.3
    return Parts(
        mutate=_decide,
        validate=_decide,
        background=(_Background(),),
        services=(_fail,) if broken else (),
        ready_checks={"view": lambda: None if time.monotonic() > synced_at_s else "not synced yet"},
    )


if __name__ == "__main__":
    run(WebhookSettings.from_arguments(sys.argv[1:], program="odd"), _parts)
