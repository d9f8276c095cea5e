"""Which other models a word for a type means too, as `A10` is a part of `A100`.

HAMi takes any part of a model, and so does the claim; only the user may not know.
"""

from collections.abc import Iterable
from typing import Final

from gpu.refusal import Refusal
from hami import userkeys as keys
from hami.matching import registered_model
from hami.preferences import Preferences
from hami.wording import shown

_NAMED_MAX: Final = 3


def surprises(preferences: Preferences, models: Iterable[str]) -> tuple[Refusal, ...]:
    """Return a warning for each word that is only a part of a word of some of *models*."""
    known = sorted(models)
    found = []
    for key, words in (
        (keys.USE_TYPE, preferences.use_types),
        (keys.NOUSE_TYPE, preferences.nouse_types),
    ):
        for word in words:
            others = [model for model in known if _only_inside(word.lower(), model)]
            if others:
                found.append(_warning(key, word, others))
    return tuple(found)


def _only_inside(word: str, model: str) -> bool:
    """Tell whether *model* holds *word*, but always with a letter or digit right beside it."""
    text = registered_model(model).lower()
    starts = [at for at in range(len(text)) if text.startswith(word, at)] if word else []
    return bool(starts) and not any(_is_free(text, at, at + len(word)) for at in starts)


def _is_free(text: str, start: int, end: int) -> bool:
    joined_before = start > 0 and text[start].isalnum() and text[start - 1].isalnum()
    joined_after = end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
    return not joined_before and not joined_after


def _warning(key: str, word: str, others: list[str]) -> Refusal:
    named = ", ".join(others[:_NAMED_MAX]) + (", …" if len(others) > _NAMED_MAX else "")
    return Refusal(
        code="TypeMatchesMore",
        field=f"metadata.annotations[{key}]",
        value=shown(word),
        limit=f"also means {named}",
        remedy="write more of the model's name",
    )
