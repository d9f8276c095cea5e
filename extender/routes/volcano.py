"""`/volcano/predicate` and `/volcano/prioritize`: what Volcano's extender plugin asks.

Volcano (`pkg/scheduler/plugins/extender`) asks about one task and one node at a time, chooses by
itself, and binds by itself without telling anybody. With devices that cannot be made sound:

- it places many tasks in one session, and we hear of none of them before they are bound, so two
  tasks would be told of the same free memory;
- the annotations from which a device plugin takes its devices would be written after the binding,
  while kubelet starts the pod already. What comes too late fails the pod for good.

So pods with devices are refused, with the ways that are sound; all others pass. The field of the
error in the answer is called `status`.
"""

from typing import Any, Final

import msgspec

from extender.metrics import Metrics, Result
from extender.parts import Chooser, NotAsked
from hami.containers import JsonObject

PREDICATE_PATH: Final = "/volcano/predicate"
PRIORITIZE_PATH: Final = "/volcano/prioritize"
REASON: Final = (
    "gpuslice cannot reserve devices for Volcano, which binds without telling; use Volcano's own "
    "deviceshare plugin, or resource claims with its DRA support, or schedulerName hami-scheduler"
)
_SUCCESS: Final = 0
_ERROR: Final = 1
_UNRESOLVABLE: Final = 3
"""Volcano's code where no eviction would help."""
_ENCODER: Final = msgspec.json.Encoder()


class Volcano:
    """Answers Volcano's scheduler."""

    def __init__(self, chooser: Chooser, metrics: Metrics) -> None:
        self._chooser = chooser
        self._predicate = metrics.route(PREDICATE_PATH)
        self._prioritize = metrics.route(PRIORITIZE_PATH)

    def predicate(self, body: bytes) -> bytes:
        """Tell whether a task may go to a node."""
        with self._predicate.measure() as outcome:
            try:
                said = _read(body)
                asks = self._asks(said)
            except ValueError as error:
                outcome.result = Result.UNREADABLE
                return _ENCODER.encode({"status": str(error), "code": _ERROR})
            outcome.result = Result.REFUSED if asks else Result.NOT_ASKED
        if asks:
            return _ENCODER.encode({"status": REASON, "code": _UNRESOLVABLE})
        return _ENCODER.encode({"status": "", "code": _SUCCESS})

    def prioritize(self, body: bytes) -> bytes:
        """Give all nodes the same score, or refuse."""
        with self._prioritize.measure() as outcome:
            try:
                said = _read(body)
                asks, names = self._asks(said), _names(said)
            except ValueError as error:
                outcome.result = Result.UNREADABLE
                return _ENCODER.encode({"nodeScore": None, "errorMessage": str(error)})
            outcome.result = Result.REFUSED if asks else Result.NOT_ASKED
        if asks:
            return _ENCODER.encode({"nodeScore": None, "errorMessage": REASON})
        return _ENCODER.encode({"nodeScore": dict.fromkeys(names, 0), "errorMessage": ""})

    def _asks(self, said: JsonObject) -> bool:
        pod = _of(_of(said, "task"), "pod")
        return not isinstance(self._chooser.simulate(pod, ()), NotAsked)


def _read(body: bytes) -> JsonObject:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the body cannot be read: {error}"
        raise ValueError(message) from error
    if not isinstance(said, dict):
        message = "the body is no object"
        raise ValueError(message)  # noqa: TRY004 - a mistake of the sender
    return said


def _of(said: JsonObject, key: str) -> JsonObject:
    found = _value(said, key)
    if not isinstance(found, dict):
        message = f"`{key}` is missing"
        raise ValueError(message)  # noqa: TRY004 - a mistake of the sender
    return found


def _names(said: JsonObject) -> list[str]:
    nodes = _value(said, "nodes") or ()
    names = [_value(each, "name") for each in nodes if isinstance(each, dict)]
    return [each for each in names if isinstance(each, str)]


def _value(said: JsonObject, key: str) -> Any:
    """Return the value of a field that Go may have written under its own name."""
    for spelled, value in said.items():
        if spelled.lower() == key:
            return value
    return None
