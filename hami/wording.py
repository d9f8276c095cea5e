"""What users wrote, cut and made safe for an answer, a log or an event."""

from json import dumps
from typing import Any, Final

SHOWN_MAX: Final = 80
"""Characters; an annotation may hold 256 KiB."""


def shown(value: Any) -> str:
    """Return *value* for people: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = dumps(value, ensure_ascii=False, default=str)
        except (RecursionError, ValueError):  # nested too deep, a number too long
            text = f"a {type(value).__name__} that cannot be shown"
    text = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
    if not text.isprintable():
        # Half of a surrogate pair or a line break has no place in an answer.
        text = text.encode("unicode_escape").decode()
    return text
