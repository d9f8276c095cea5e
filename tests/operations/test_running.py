"""What running programs show at /metrics is what the tables and queries were written for."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from tests.agent.cards import card_scene
from tests.agent.process import Agent
from tests.agent.scene import scene
from tests.cluster.cluster import REPOSITORY
from tests.operations.exported import PROGRAMS
from tests.patience import eventually
from tests.ports import free_port

_SEEN: Final = "gpuslice_monitor_scan_timestamp_seconds"
_NOBODY: Final = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
"""


def families(text: str) -> dict[str, str]:
    """Return the kind of each metric by name."""
    return {
        family.name: family.type
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    }


def expected(program: str) -> dict[str, str]:
    """Return what *program* is said to export."""
    return {each.name: each.kind for each in PROGRAMS[program]()}


def shown_by(agent: Agent) -> dict[str, str]:
    """Return what an agent shows once its monitor has looked."""
    eventually(lambda: _SEEN in agent.ask("/metrics")[1])
    return families(agent.ask("/metrics")[1])


def test_an_agent_that_serves_claims() -> None:
    """With its monitor."""
    with scene() as stage:
        agent = stage.started("--monitor-interval-s=0.1")
        assert shown_by(agent) == expected("node agent, claims")


def test_an_agent_that_serves_the_device_plugin() -> None:
    """The same, and what its configuration says."""
    with card_scene() as cards:
        agent = cards.started("--monitor-interval-s=0.1")
        assert shown_by(agent) == expected("node agent, device plugin")


@contextmanager
def serving(folder: Path, module: str, *flags: str) -> Iterator[int]:
    """Run a program without an API server; yield the port that it was given for metrics."""
    (folder / "kubeconfig").write_text(_NOBODY)
    port, other = free_port(), free_port()
    words = [each.format(port=port, other=other) for each in flags]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own modules
            [sys.executable, "-m", module, f"--kubeconfig={folder / 'kubeconfig'}", *words],
            cwd=REPOSITORY,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def scraped(port: int) -> str:
    """Return the metrics, empty while nobody answers."""
    try:
        answer = urllib3.request(
            "GET", f"http://127.0.0.1:{port}/metrics", timeout=10, retries=False
        )
    except urllib3.exceptions.HTTPError:
        return ""
    return answer.data.decode()


@pytest.mark.parametrize(
    ("program", "module", "flags"),
    [
        (
            "webhook",
            "webhook",
            (
                *("--namespace=gpu", "--address=127.0.0.1", "--port={other}", "--mode=dra"),
                *("--probe-address=127.0.0.1", "--probe-port={port}"),
            ),
        ),
        (
            "scheduler extender",
            "extender",
            ("--port={other}", "--metrics-address=127.0.0.1", "--metrics-port={port}"),
        ),
    ],
)
def test_a_server(tmp_path: Path, program: str, module: str, flags: tuple[str, ...]) -> None:
    """Also before it knows anything of the cluster."""
    with serving(tmp_path, module, *flags) as port:
        eventually(lambda: scraped(port) != "")
        assert families(scraped(port)) == expected(program)
