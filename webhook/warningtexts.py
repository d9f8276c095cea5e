"""Warnings as the API server passes them on to the user.

It puts each into an HTTP header, where a control character voids it; beyond 4096 characters in all
it cuts each to 256 and drops the rest without a word (apiserver: `endpoints/filters/warning.go`).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

EACH_MAX: Final = 256
ALL_MAX: Final = 4096
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LAST: Final = "{} more warnings are not shown"
_RESERVED: Final = len(_LAST) + 10


def cut(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return *warnings*, each once and short enough; the last one says how many were left out."""
    texts = list(dict.fromkeys(_short(_CONTROL.sub(" ", text).strip()) for text in warnings))
    kept = list(_fitting(texts, ALL_MAX))
    if len(kept) < len(texts):
        kept = list(_fitting(texts, ALL_MAX - _RESERVED))
        kept.append(_LAST.format(len(texts) - len(kept)))
    return tuple(kept)


def _short(text: str) -> str:
    return text if len(text) <= EACH_MAX else text[: EACH_MAX - 1] + "…"


def _fitting(texts: list[str], room: int) -> Iterator[str]:
    for text in texts:
        room -= len(text)
        if room < 0:
            return
        yield text
