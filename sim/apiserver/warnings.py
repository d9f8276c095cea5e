"""Warnings of an answer: told once each, and cut where they would become too long together.

Sources: apiserver pkg/endpoints/filters/warning.go; apimachinery pkg/util/net `NewWarningHeader`,
which refuses texts with control characters, so that such a warning is lost.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALL_MAX = 4096
_ONE_MAX = 256


def told(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings that a client gets; all are cut once they are too long together."""
    whole = [text for text in dict.fromkeys(texts) if text and not _has_control(text)]
    if sum(map(len, whole)) <= _ALL_MAX:
        return tuple(whole)
    kept: list[str] = []
    for text in whole:
        if sum(map(len, kept)) >= _ALL_MAX:
            break
        kept.append(text[:_ONE_MAX])
    return tuple(kept)


def header(text: str) -> str:
    """Return the `Warning` header that carries *text*."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _has_control(text: str) -> bool:
    return any(unicodedata.category(each) == "Cc" for each in text)
