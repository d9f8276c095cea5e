"""Find devices for all claims of a pod on one node: depth first, the first solution wins.

Devices are tried in published order (pool, slice, device) and nothing is scored, so a driver
decides about packing by the order in which it publishes. Several devices of one request are
taken in ascending positions: one request never takes a shareable device twice, two requests can.
"""

from enum import Enum
from typing import NamedTuple

from sim.scheduler.attempt import Attempt
from sim.scheduler.checking import RESULTS_MAX, Candidate, Needs
from sim.scheduler.errors import NodeError
from sim.scheduler.requests import ALL, Wanted
from sim.scheduler.scene import Scene
from sim.scheduler.selecting import Selection
from sim.scheduler.verdicts import Notebook, Refused

CALLS_MAX = 20_000
"""Stands for the scheduler's time limit of ten seconds per node."""


class Outcome(Enum):
    """How a branch of the search ended."""

    DONE = "done"
    FAILED = "failed"
    TOO_MANY = "too many results for the claim"


class Cursor(NamedTuple):
    """What is to be placed next: the *found*-th device of a request, from position *start*."""

    claim: int = 0
    request: int = 0
    alternative: int | None = None
    found: int = 0
    start: int = 0


class Search:
    """One search; `run` it once."""

    def __init__(
        self,
        scene: Scene,
        needs: Needs,
        *,
        selection: Selection,
        attempt: Attempt,
        notebook: Notebook,
    ) -> None:
        self.chosen: dict[tuple[int, int], int] = {}
        """Claim and request of each prioritized request, to the index of its alternative."""
        self.calls = 0
        self._claims = scene.claims
        self._needs = needs
        self._selection = selection
        self._attempt = attempt
        self._notebook = notebook
        self._positions = tuple(
            Candidate(pool, device)
            for pool in scene.pools
            if pool.usable
            for part in pool.slices
            for device in part.devices
        )

    def run(self) -> bool:
        """Tell whether all claims got their devices; they stand in the attempt's results."""
        return self._place(Cursor()) is Outcome.DONE

    def _place(self, at: Cursor) -> Outcome:
        self.calls += 1
        if self.calls > CALLS_MAX:
            msg = f"gave up after {CALLS_MAX} steps of the search"
            raise NodeError(msg)
        if at.claim == len(self._claims):
            return Outcome.DONE
        requests = self._claims[at.claim].requests
        if at.request == len(requests):
            outcome = self._place(Cursor(claim=at.claim + 1))
            return Outcome.FAILED if outcome is Outcome.TOO_MANY else outcome
        request = requests[at.request]
        if request.prioritized and at.alternative is None:
            return self._first_available(at, len(request.alternatives))
        return self._serve(at, request.alternatives[at.alternative or 0])

    def _first_available(self, at: Cursor, alternatives: int) -> Outcome:
        outcomes = set()
        for index in range(alternatives):
            outcome = self._place(at._replace(alternative=index))
            if outcome is Outcome.DONE:
                self.chosen[at.claim, at.request] = index
                return outcome
            outcomes.add(outcome)
        return Outcome.TOO_MANY if outcomes == {Outcome.TOO_MANY} else Outcome.FAILED

    def _serve(self, at: Cursor, wanted: Wanted) -> Outcome:
        need = self._needs[wanted]
        if wanted.mode == ALL and not need.candidates:
            self._note(at, wanted, None, Refused("NoDeviceMatches"))
            return Outcome.FAILED
        if at.found == need.count:
            return self._place(Cursor(claim=at.claim, request=at.request + 1))
        if len(self._attempt.results[at.claim]) + need.count - at.found > RESULTS_MAX:
            self._note(at, wanted, None, Refused("TooManyDevices", "", f"limit {RESULTS_MAX}"))
            return Outcome.TOO_MANY
        if wanted.mode == ALL:
            return self._take_next(at, wanted, need.candidates[at.found])
        return self._take_any(at, wanted)

    def _take_next(self, at: Cursor, wanted: Wanted, candidate: Candidate) -> Outcome:
        refused = self._attempt.take(at.claim, wanted, candidate)
        if refused:
            self._note(at, wanted, candidate, refused)
            return Outcome.FAILED
        outcome = self._place(at._replace(found=at.found + 1))
        if outcome is not Outcome.DONE:
            self._attempt.undo(at.claim)
        return outcome

    def _take_any(self, at: Cursor, wanted: Wanted) -> Outcome:
        for position in range(at.start, len(self._positions)):
            candidate = self._positions[position]
            refused = self._refusal(at, wanted, candidate)
            if refused:
                self._note(at, wanted, candidate, refused)
                continue
            outcome = self._place(at._replace(found=at.found + 1, start=position + 1))
            if outcome is Outcome.DONE:
                return outcome
            self._attempt.undo(at.claim)
            if outcome is Outcome.TOO_MANY:
                return outcome
        self._note_exhausted(at, wanted)
        return Outcome.FAILED

    def _refusal(self, at: Cursor, wanted: Wanted, candidate: Candidate) -> Refused | None:
        return (
            self._attempt.in_use(at.claim, wanted, candidate.device)
            or self._selection.refusal(wanted, candidate.device)
            or self._attempt.shortage(wanted, candidate.device)
            or self._attempt.take(at.claim, wanted, candidate)
        )

    def _note_exhausted(self, at: Cursor, wanted: Wanted) -> None:
        """Say of the devices in hand that the request needs more than them."""
        if not self._positions:
            self._note(at, wanted, None, Refused("NoDevicePublished"))
        if at.found:
            limit = f"{at.found} found"
            refused = Refused("CountNotReached", f"asked {wanted.count} devices", limit)
            for taken in self._attempt.results[at.claim][-at.found :]:
                self._note(at, wanted, Candidate(taken.pool, taken.device), refused)

    def _note(
        self, at: Cursor, wanted: Wanted, candidate: Candidate | None, refused: Refused
    ) -> None:
        device = candidate.device.id if candidate else None
        self._notebook.note(self._claims[at.claim].key, wanted.name, device, refused)
