"""Users are told when a word means more models than it seems to."""

import pytest

from hami.preferences import Preferences
from webhook.typewords import surprises

A10, A100, L4, L40 = "NVIDIA A10", "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "NVIDIA L40S"


def test_the_other_models_are_named() -> None:
    """`A10` is a part of `A100`, and the warning says so."""
    (warning,) = surprises(Preferences(use_types=("a10",)), {A10, A100, L4})
    assert warning.code == "TypeMatchesMore"
    assert warning.field == "metadata.annotations[nvidia.com/use-gputype]"
    assert warning.limit == f"also means {A100}"


@pytest.mark.parametrize("word", ["a100", "nvidia", "a100-sxm4", "sxm4-80gb", "h100", "l40s"])
def test_whole_words_are_no_surprise(word: str) -> None:
    """A word that stands free in every model that it matches is what the user means."""
    assert surprises(Preferences(use_types=(word,)), {A10, A100, L4, L40}) == ()


def test_excluded_words_are_looked_at_too() -> None:
    """Excluding `l4` excludes more than the user may know."""
    (warning,) = surprises(Preferences(nouse_types=("l4",)), {L4, L40})
    assert warning.field == "metadata.annotations[nvidia.com/nouse-gputype]"
    assert L40 in warning.limit


def test_many_models_are_cut() -> None:
    """A warning has room for three."""
    (warning,) = surprises(Preferences(use_types=("a1",)), {f"NVIDIA A1{n}" for n in range(9)})
    assert warning.limit == "also means NVIDIA A10, NVIDIA A11, NVIDIA A12, …"
