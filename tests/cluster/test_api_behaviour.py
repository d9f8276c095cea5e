"""The scenes of API behaviour on the real server, which must still tell what was recorded."""

import json
from collections.abc import Iterator, Sequence

import pytest

from kube.client import Client
from tests.api_behaviour import recorded_answers
from tests.api_behaviour.comparing import labels_that_differ
from tests.api_behaviour.kubectl import SCENES as KUBECTL_SCENES
from tests.api_behaviour.suite import SCENES, play
from tests.cluster.cluster import RealCluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def client(cluster: RealCluster) -> Iterator[Client]:
    """Return a client of the real server."""
    with cluster.client() as made:
        yield made


@pytest.mark.parametrize("name", SCENES | KUBECTL_SCENES)
def test_real_server_answers_as_recorded(cluster: RealCluster, client: Client, name: str) -> None:
    """What the simulated server is held against is what the real one tells."""
    minor = cluster.options.minor
    expected = recorded_answers.read(minor) if minor in recorded_answers.minors() else {}
    if name not in expected:
        pytest.skip(f"no answers of {minor} are recorded")

    def kubectl(arguments: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        command = (cluster.assets.path("kubectl"), *arguments)
        done = cluster.run_in(*command, stdin=stdin, check=False)
        return done.returncode, done.stdout, done.stderr

    told = json.loads(json.dumps(play(name, client, kubectl)))
    assert labels_that_differ(expected[name], told) == {}
