"""What is left to say after all scenes that do something; two files come last by their names."""

import json

import pytest

from tests.cluster.scenes.audit import AGENT, events_of
from tests.cluster.scenes.driver import Driver

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.scene("no right is missing")
def test_no_right_is_missing(driver: Driver) -> None:
    """The API server has refused none of the requests that the agents have made."""
    own = [
        each
        for each in events_of(driver.cluster.state.audit_log, user=AGENT)
        if each.get("userAgent", "").startswith("gpuslice-node-agent")
    ]
    assert own
    refused = [each["requestURI"] for each in own if each["responseStatus"]["code"] in {401, 403}]
    assert not refused


@pytest.mark.scene("no agent logs an error")
def test_no_agent_logs_an_error(driver: Driver) -> None:
    """What the scenes did was no reason for an error in any agent's log."""
    for node in driver.cluster.node_names:
        lines = driver.log(node).splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        assert entries
        assert len(entries) == len(lines), "something is no log entry"
        assert not [each for each in entries if each["level"] in {"error", "critical"}]
