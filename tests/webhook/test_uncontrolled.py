"""Who may have shares without limits."""

import pytest

from webhook.uncontrolled import is_granted


@pytest.mark.parametrize(
    ("labels", "listed", "granted"),
    [
        ({"gpuslice.io/uncontrolled": "allowed"}, (), True),
        ({"gpuslice.io/uncontrolled": "true"}, (), False),
        ({}, (), False),
        (None, (), False),
        (None, ("team",), True),
        ({}, ("other",), False),
    ],
)
def test_granted(labels: dict[str, str] | None, listed: tuple[str, ...], *, granted: bool) -> None:
    """The label or the settings grant it; what is not known grants nothing."""
    assert is_granted("team", labels, listed=listed) is granted
