"""The parts of a soak, and what is looked at after each: leftovers, errors, growth.

Growth is looked for in calm parts, where the agent stays one process: its memory a minute after
the part's start, by when everything was done once, is held against that at its end. Descriptors
and threads are held against one another when nothing goes on, after the first part and the last.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from kube.client import Client
from tests.bench.figures import show
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.leftovers import errors_in, expect_nothing_left
from tests.cluster.soak.crowd import Crowd
from tests.cluster.soak.meter import Meter, Sample, growth, look
from tests.cluster.soak.troubles import Troubles
from tests.cluster.up import say_on_stderr
from tests.patience import eventually

# Parts of the whole time.
_CALM: Final = 0.35
_TROUBLED: Final = 0.4
# Kubelet goes through its pods every 60 s and retries less often the more often it failed.
_SETTLED_S: Final = 180.0
_GROWTH_MB: Final = 3.0
_MORE: Final = 2
_BETWEEN_S: Final = 0.4
_TROUBLE: Final = 0.1


class Soak:
    """One soak; *problems* are what must not be."""

    def __init__(self, driver: Driver, client: Client, chance: random.Random) -> None:
        self.problems: list[str] = []
        self._driver = driver
        self._chance = chance
        self._crowd = Crowd(driver.cluster, client, chance)
        self._troubles = Troubles(driver, client, chance)
        self._meter = Meter(driver)

    def run(self, time_s: float) -> None:
        """Take about *time_s*, and print what was done and what came of it."""
        self._meter.start()
        first = self._part("calm", time_s * _CALM, calm=True)
        self._part("troubled", time_s * _TROUBLED, calm=False)
        last = self._part("calm_again", time_s * (1 - _CALM - _TROUBLED), calm=True)
        self._meter.stop()
        self._compare(first, last)
        for what, count in sorted((self._crowd.done + self._troubles.done).items()):
            show("soak", what.replace(" ", "_"), count)

    def _part(self, name: str, time_s: float, *, calm: bool) -> Sample:
        """Play one part and return what the agent takes when nothing goes on afterwards."""
        say_on_stderr(f"{name}: {time_s:.0f} s")
        trouble = self._troubles.small if calm else self._troubles.big
        said = len(self._driver.log(self._driver.first.node))
        began_s = time.monotonic()
        while time.monotonic() < began_s + time_s:
            self._crowd.act()
            if self._chance.random() < _TROUBLE:
                trouble()
            time.sleep(self._chance.random() * 2 * _BETWEEN_S)
        ended_s = time.monotonic()
        self._settle(name)
        if calm:
            self._grown(name, began_s, ended_s)
        log = self._driver.log(self._driver.first.node)[said:]
        errors = Counter(_event(line) for line in errors_in(log))
        self.problems += [f"{name}: {count} times `{what}`" for what, count in errors.items()]
        idle = look(self._driver.first.process.pid)
        show(f"soak {name}", "idle_rss_mb", idle.rss_mb)
        show(f"soak {name}", "idle_descriptors", idle.descriptors)
        show(f"soak {name}", "idle_threads", idle.threads)
        return idle

    def _settle(self, name: str) -> None:
        """Wait until all pods run, delete them, and wait until nothing is left."""
        self._wait(name, "does not run", self._crowd.unwell)
        self._crowd.delete_all()
        self._wait(name, "is still there", self._crowd.left)
        try:
            expect_nothing_left(self._driver)
        except AssertionError as error:
            self.problems.append(f"{name}: {error}")

    def _wait(self, part: str, fault: str, found: Callable[[], Sequence[str]]) -> None:
        began_s = time.monotonic()
        try:
            eventually(lambda: not found(), _SETTLED_S)
        except AssertionError:
            self.problems += [f"{part}: {each}, which {fault}" for each in found()]
        say_on_stderr(f"{part}: waited {time.monotonic() - began_s:.0f} s until nothing {fault}")

    def _grown(self, name: str, began_s: float, ended_s: float) -> None:
        found = growth(self._meter.since(began_s), began_s, ended_s)
        note = f"{found.before_mb:.1f} MB before, {found.after_mb:.1f} MB after"
        show(f"soak {name}", "rss_growth_mb", found.mb, note=note)
        if found.mb > _GROWTH_MB:
            self.problems.append(f"{name}: the agent's memory grew: {note}")

    def _compare(self, first: Sample, last: Sample) -> None:
        """Hold an agent that has done its work against the one of the first part."""
        for what in ("descriptors", "threads"):
            before, after = getattr(first, what), getattr(last, what)
            if after > before + _MORE:
                self.problems.append(f"the agent has {after} {what}, {before} after the first part")


def _event(line: str) -> str:
    if not line.startswith("{"):
        return line[:200]
    entry = json.loads(line)
    return f"{entry['event']}: {entry.get('reason') or entry.get('error') or ''}"[:200]
