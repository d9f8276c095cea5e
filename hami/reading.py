"""How every annotation is read: into a whole value, or into a reason why there is none.

Annotations are written by programs of other versions and by anybody who may patch a node or a pod.
A reader that raises takes the scheduler with it, and one that skips what it cannot read makes a
busy device look free. So each decoder returns its value or an `Undecodable`, never a part.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hami.wording import shown

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A text of which nothing may be used."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class UnreadableError(ValueError):
    """What a reader raises inside of itself; `decoded` makes an `Undecodable` of it."""


def decoded(read: Callable[[str], _T], text: str) -> _T | Undecodable:
    """Return what *read* makes of *text*, or why it is nothing.

    Half of a surrogate pair is refused: the API server would not take it back.
    """
    try:
        if not text.isascii():
            text.encode()
        return read(text)
    except UnreadableError as error:
        return Undecodable(str(error))
    except UnicodeEncodeError:
        return Undecodable("is no valid text")


def unreadable(what: str, value: Any, why: str) -> UnreadableError:
    """Return the error that says *why* the *value* of *what* is none."""
    said = f'"{shown(value)}"' if isinstance(value, str) else shown(value)
    return UnreadableError(f"{what} {said} {why}")


def integer(text: str, what: str, *, low: int = -INT64_MAX - 1, high: int = INT64_MAX) -> int:
    """Return a decimal number, as Go reads it; raises `UnreadableError` for any other text."""
    if not _INTEGER.fullmatch(text):
        raise unreadable(what, text, "is no whole number")
    return bounded(int(text), what, low=low, high=high)


def bounded(number: int, what: str, *, low: int, high: int) -> int:
    """Return *number*; raises `UnreadableError` outside of its bounds."""
    if number < low:
        raise unreadable(what, number, "must not be negative" if low == 0 else f"is below {low}")
    if number > high:
        raise unreadable(what, number, f"is above {high}")
    return number
