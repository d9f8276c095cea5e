"""The scenes on the simulated server, held against what real servers told in them."""

import json
from collections.abc import Iterable, Iterator

import pytest

from tests.api_behaviour import recorded_answers
from tests.api_behaviour.comparing import labels_that_differ
from tests.api_behaviour.differences import KNOWN, OF_MINOR
from tests.api_behaviour.kubectl import SCENES as KUBECTL_SCENES
from tests.api_behaviour.simulated import Simulated, simulated
from tests.api_behaviour.suite import SCENES, play
from tests.cluster.assets import find
from tests.cluster.errors import MissingError


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Simulated]:
    """Return a simulated server of the minor that is asked for."""
    with simulated(request.param, tmp_path_factory.mktemp("api")) as running:
        yield running


def _recorded(scenes: Iterable[str]) -> list[tuple[str, str]]:
    """Return each of *scenes* with each minor of which it was recorded."""
    known = {minor: recorded_answers.read(minor) for minor in recorded_answers.minors()}
    return [(minor, name) for minor, told in known.items() for name in scenes if name in told]


@pytest.mark.parametrize(("server", "name"), _recorded(SCENES), indirect=["server"])
def test_simulated_server_answers_as_the_real_one(server: Simulated, name: str) -> None:
    """In each scene the simulated server tells what the real one told, known differences aside."""
    _compare(server, name)


@pytest.mark.parametrize(("server", "name"), _recorded(KUBECTL_SCENES), indirect=["server"])
def test_kubectl_sees_no_difference(server: Simulated, name: str) -> None:
    """The real kubectl prints the same of the simulated server, known differences aside."""
    try:
        find(server.minor)
    except MissingError as error:
        pytest.skip(f"there is no kubectl: {error}")
    _compare(server, name)


def _compare(server: Simulated, name: str) -> None:
    told = json.loads(json.dumps(play(name, server.client, server.kubectl)))
    expected = recorded_answers.read(server.minor)[name]
    differing = labels_that_differ(expected, told)
    known = KNOWN.get(name, {}) | OF_MINOR.get(server.minor, {}).get(name, {})
    unknown = {label: lines for label, lines in differing.items() if label not in known}
    assert not unknown, json.dumps(unknown, indent=1)
    assert not known.keys() - differing.keys(), "no difference any more: strike it out"


def test_differences_are_of_scenes() -> None:
    """Every known difference belongs to a scene."""
    assert KNOWN.keys() <= (SCENES | KUBECTL_SCENES).keys()


@pytest.mark.parametrize("minor", recorded_answers.COMPLETE)
def test_every_scene_is_recorded(minor: str) -> None:
    """The record of a newer release has all scenes and no others."""
    assert recorded_answers.read(minor).keys() == (SCENES | KUBECTL_SCENES).keys()
