"""Runs one reader over many spoiled inputs and says what it did.

A target makes an input from random numbers and checks what its reader does with it: `True` when
the input was taken, `False` when it was refused by an error that the reader documents. Anything
that is raised is a finding: `ViolationError` where a result is wrong, else an exception that is
not ours. An input is named by seed and number alone, so every finding can be made again.
"""

import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Any, Final, Protocol

import structlog

from tests.fuzz.shrinking import smallest

SEED: Final = 1
FINDINGS_MAX: Final = 20
HANG_S: Final = 10.0
HANGS_MAX: Final = 2
SLOW_S: Final = 2.0
"""Of processor time for one input: nothing that is read here is large."""


class ViolationError(AssertionError):
    """A reader's result is not what its input says."""


class TookTooLongError(BaseException):
    """An input kept its reader busy without end; no reader may catch this."""


class Target(Protocol):
    """A reader under test, with the inputs for it."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def weight(self) -> int:
        """Its part of all inputs: what is slow gets less."""

    def make(self, rng: Random) -> Any:
        """Return one input, of lists, dicts, texts, bytes and numbers only."""

    def check(self, sample: Any) -> bool:
        """Tell whether the reader took *sample*; raise on a finding."""

    def close(self) -> None:
        """Give back what the target holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One input that showed an error, made as small as it still shows it."""

    number: int
    error: str
    trace: str
    sample: Any


@dataclass(slots=True, kw_only=True)
class Report:
    """What a target did with its inputs."""

    name: str
    seed: int
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: int = 0
    findings: list[Finding] = field(default_factory=list)


def expect(holds: object, what: str) -> None:
    """Raise `ViolationError` saying *what* unless it *holds*."""
    if not holds:
        raise ViolationError(what)


def sample_of(target: Target, seed: int, number: int) -> Any:
    """Return input *number* of the run with *seed*."""
    return target.make(Random(f"{seed}/{target.name}/{number}"))  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a run goes."""

    hang_s: float = HANG_S
    """Processor time after which an input counts as endless."""
    shrink: bool = True
    """Make inputs that show an error smaller."""


def run(
    target: Target, *, inputs: int, seed: int = SEED, first: int = 0, limits: Limits = Limits()
) -> Report:
    """Give *target* the inputs from number *first* on; findings of one place count once."""
    report = Report(name=target.name, seed=seed)
    places: set[str] = set()
    hangs = 0
    began_s = time.monotonic()
    with _no_hang(), _no_logs():
        for number in range(first, first + inputs):
            sample = sample_of(target, seed, number)
            error = _tried(target, sample, number, report, limits)
            hangs += isinstance(error, TookTooLongError)
            if error is None or (place := _place(error)) in places:
                continue
            places.add(place)
            report.findings.append(_finding(target, sample, number, error, shrink=limits.shrink))
            if len(places) >= FINDINGS_MAX or hangs >= HANGS_MAX:
                break
    report.seconds = time.monotonic() - began_s
    return report


def _tried(
    target: Target, sample: Any, number: int, report: Report, limits: Limits
) -> BaseException | None:
    signal.setitimer(signal.ITIMER_VIRTUAL, limits.hang_s)
    began_s = time.thread_time()
    error: BaseException | None = None
    try:
        accepted = target.check(sample)
    except (Exception, TookTooLongError) as raised:  # noqa: BLE001 - what is looked for
        error = raised
    else:
        report.accepted += accepted
        report.refused += not accepted
    took_s = time.thread_time() - began_s
    report.inputs += 1
    if took_s > report.slowest_s:
        report.slowest_s, report.slowest = took_s, number
    if error is None and took_s > SLOW_S:
        error = ViolationError(f"took {took_s:.1f} s")
    return error


def _finding(
    target: Target, sample: Any, number: int, error: BaseException, *, shrink: bool
) -> Finding:
    place = _place(error)

    def shows(smaller: Any) -> bool:
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
        try:
            target.check(smaller)
        except (Exception, TookTooLongError) as raised:  # noqa: BLE001 - what is looked for
            return _place(raised) == place
        return False

    as_it_is = not shrink or isinstance(error, TookTooLongError)
    trace = "".join(traceback.format_exception(error, limit=-6))
    return Finding(
        number=number,
        error=f"{type(error).__name__}: {error}"[:400],
        trace=trace[-4000:],
        sample=sample if as_it_is else smallest(sample, shows),
    )


def _place(error: BaseException) -> str:
    """Return what tells an error from others: its kind and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    # All checks share one line, so what they say has to tell them apart.
    said = str(error).partition(":")[0] if isinstance(error, ViolationError) else ""
    if isinstance(error, RecursionError | TookTooLongError):
        where = ""
    return f"{type(error).__name__} {where} {said}"


@contextmanager
def _no_logs() -> Iterator[None]:
    """Leave out what the readers log of each input."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _no_hang() -> Iterator[None]:
    """Let an input that never ends fail, by a timer of processor time."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLongError("there is no end to it")

    before: Callable[[int, FrameType | None], Any] | int | None
    before = signal.signal(signal.SIGVTALRM, give_up)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
