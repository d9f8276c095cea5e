"""Faults that tests inject: answers that fail, connections that break.

In-process clients are spared: what is tested is how a client behind the wire copes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.apiserver.errors import StatusError

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class _Rule:
    left: int
    status: int
    verb: str
    path_part: str


@dataclass(slots=True)
class Faults:
    """The failures still to be handed out."""

    _rules: list[_Rule] = field(default_factory=list)

    def fail_next(self, count: int, status: int, *, verb: str = "", path_part: str = "") -> None:
        """Answer the next *count* requests (of *verb* and path, if given) with *status*."""
        self._rules.append(_Rule(count, status, verb, path_part))

    def clear(self) -> None:
        """Forget what has not been handed out."""
        self._rules.clear()

    def strike(self, verb: str, path: str) -> None:
        """Raise the failure that is due for this request, if any."""
        for rule in self._rules:
            if rule.left and rule.verb in {"", verb} and rule.path_part in path:
                rule.left -= 1
                reason = _REASONS.get(rule.status, "InternalError")
                raise StatusError(rule.status, reason, "injected fault")
