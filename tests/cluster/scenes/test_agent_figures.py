"""What the agent takes after very many claims, and how soon it is back after its end."""

import time
import uuid
from collections.abc import Callable
from typing import Final

import pytest

from tests.bench.figures import median, show, show_machine
from tests.cluster.bench.held_claims import HeldClaims, connected, held_claims
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.stage import Stage
from tests.cluster.soak.meter import look
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.bench, pytest.mark.timeout(900)]

_MANY: Final = 1000
_CLAIMS: Final = f"{_MANY} claims"
_HELD: Final = 100
_RUNS: Final = 5
_FORGET_REGIONS: Final = """\
cut -d' ' -f5 /proc/self/mountinfo | grep "^$0/" | while read -r point; do umount -l "$point"; done
"""


def test_memory_after_many_claims(stage: Stage) -> None:
    """Print resident memory at first, with 1,000 claims prepared, released, and with others."""
    show_machine()
    with held_claims(stage, 2 * _MANY) as held:
        pid = stage.driver.first.process.pid
        show("agent_memory", "at_first_rss_mb", look(pid).rss_mb)
        for number, first in enumerate((0, _MANY), start=1):
            held.prepare(first, _MANY)
            show("agent_memory", f"held_{number}_rss_mb", look(pid).rss_mb, note=_CLAIMS)
            held.unprepare(first, _MANY)
            show("agent_memory", f"released_{number}_rss_mb", look(pid).rss_mb, note=_CLAIMS)


def test_recovery(stage: Stage) -> None:
    """Print the times from a kill to a ready agent, and from a reboot to all specs."""
    show_machine()
    driver = stage.driver
    with held_claims(stage, _HELD) as held:
        held.prepare()
        _show_recovery(held, driver, "after_kill", lambda: None)
        _show_recovery(held, driver, "after_reboot", lambda: _forget(driver))
        held.unprepare()


def _show_recovery(held: HeldClaims, driver: Driver, name: str, lose: Callable[[], None]) -> None:
    """Print medians of several kills, after each of which *lose* takes away what it takes away."""
    runs = []
    for _ in range(_RUNS):
        driver.first.kill()
        lose()
        runs.append(_recovery_s(held, driver))
    for what in runs[0]:
        values = [each[what] for each in runs]
        note = f"{_HELD} claims, {_RUNS} runs, {min(values):.3g} to {max(values):.3g}"
        show("recovery", f"{name}_{what}_s", median(values), note=note)


def _recovery_s(held: HeldClaims, driver: Driver) -> dict[str, float]:
    """Start the agent; return when a call is answered, it is ready, and all specs are there."""
    kubelet = connected(driver)
    answers_s: list[float] = []

    def note_answer(_: object) -> None:
        answers_s.append(time.monotonic())

    began_s = time.monotonic()
    call = kubelet.begin_prepare(held.claims[0])
    call.add_done_callback(note_answer)
    driver.start_first()
    ready_s = time.monotonic()
    eventually(lambda: len(driver.specs()) == _HELD)
    restored_s = time.monotonic()
    assert not call.result().claims[held.claims[0].uid].error
    eventually(lambda: answers_s)
    kubelet.close()
    moments_s = {"answers": answers_s[0], "ready": ready_s, "restored": restored_s}
    return {what: moment_s - began_s for what, moment_s in moments_s.items()}


def _forget(driver: Driver) -> None:
    """Lose what a reboot loses of ours: specs, regions' contents, and the boot's id."""
    for spec in driver.specs():
        spec.unlink()
    regions = str(driver.first.host.plugin / "regions")
    driver.cluster.run_in("sh", "-c", _FORGET_REGIONS, regions)
    driver.first.host.boot_id.write_text(f"{uuid.uuid4()}\n")
