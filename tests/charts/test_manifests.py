"""The committed manifests are what the chart renders."""

import pytest

from tests.charts.manifests import FOLDER, KINDS, rendered
from tests.charts.rendering import files_below


@pytest.mark.parametrize("folder", KINDS)
def test_manifests_are_fresh(folder: str) -> None:
    """`make manifests` has been run after the last change of the chart."""
    below = FOLDER / folder
    committed = {str(path.relative_to(below)): path.read_text() for path in files_below(below)}
    assert committed == rendered(folder)


def test_folders_are_those_that_are_rendered() -> None:
    """No other lies about."""
    assert {each.name for each in FOLDER.iterdir()} == set(KINDS)
