"""A real Prometheus reads the real programs, and runs the alerts and the dashboard's queries."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml

from tests.agent.cards import card_scene
from tests.agent.scene import scene
from tests.agent.test_monitor import GPUS, run
from tests.charts.test_alerts import FILE
from tests.charts.test_dashboard_queries import queries
from tests.operations.test_running import serving
from tests.patience import eventually
from tests.ports import free_port

_HOST: Final = "127.0.0.1"
_QUICK: Final = "--monitor-interval-s=0.1"
_WEBHOOK: Final = (
    *("--namespace=gpu", f"--address={_HOST}", "--port={other}", "--mode=dra"),
    *(f"--probe-address={_HOST}", "--probe-port={port}"),
)
_EXTENDER: Final = ("--port={other}", f"--metrics-address={_HOST}", "--metrics-port={port}")


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://{_HOST}:{port}/api/v1"

    def ask(self, path: str, **fields: str) -> Any:
        """Return the data of an answer; `None` while it does not answer, or with an error."""
        try:
            url = f"{self._url}/{path}"
            answer = urllib3.request("GET", url, fields=fields, timeout=30, retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.json()["data"] if answer.status == 200 else None

    def targets(self) -> list[dict[str, Any]]:
        """Return what it scrapes."""
        return list((self.ask("targets") or {}).get("activeTargets", ()))

    def rules(self) -> list[dict[str, Any]]:
        """Return its rules."""
        groups = (self.ask("rules") or {}).get("groups", ())
        return [rule for group in groups for rule in group["rules"]]

    def query(self, expression: str) -> list[dict[str, Any]] | None:
        """Return the result of a query, `None` for one that fails."""
        data = self.ask("query", query=expression)
        return None if data is None else list(data["result"])


@contextmanager
def prometheus(folder: Path, ports: Mapping[str, list[int]]) -> Iterator[Prometheus]:
    """Run one that scrapes those ports every second, with the labels that the monitors set."""
    jobs = [
        {
            "job_name": f"gpuslice-{component}",
            "honor_labels": True,
            "static_configs": [
                {
                    "targets": [f"{_HOST}:{port}"],
                    "labels": {"node": f"node-{port}", "namespace": "gpuslice-system"},
                }
                for port in found
            ],
        }
        for component, found in ports.items()
    ]
    timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": timing, "rule_files": [str(FILE)], "scrape_configs": jobs}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    program = shutil.which("prometheus")
    assert program, "Debian's package prometheus has it beside promtool"
    with (folder / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - Prometheus
            [
                program,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={_HOST}:{port}",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def programs(folder: Path) -> Iterator[dict[str, list[int]]]:
    """Run all four, the agents with a pod each; yield the ports of their metrics by component."""
    folders = [folder / "webhook", folder / "extender"]
    for each in folders:
        each.mkdir()
    with (
        scene(GPUS) as stage,
        card_scene() as cards,
        serving(folders[0], "webhook", *_WEBHOOK) as webhook,
        serving(folders[1], "extender", *_EXTENDER) as extender,
    ):
        agents = [stage.started(_QUICK), cards.started(_QUICK)]
        run(stage, 0)
        cards.hand_out()
        yield {
            "node-agent": [agent._probe_port() for agent in agents],
            "webhook": [webhook],
            "scheduler": [extender],
        }


def test_a_real_prometheus_takes_everything(tmp_path: Path) -> None:
    """No scrape, no rule and no query fails, and users' namespaces keep their name."""
    with programs(tmp_path) as ports, prometheus(tmp_path, ports) as server:
        eventually(lambda: [each["health"] for each in server.targets()] == ["up"] * 4)
        granted = 'gpuslice_granted_memory_mib{namespace="default",job="gpuslice-node-agent"}'
        eventually(lambda: len(server.query(granted) or ()) == 2)
        eventually(lambda: {rule["health"] for rule in server.rules()} == {"ok"})
        failed = [name for name, each in queries().items() if server.query(each) is None]
        assert failed == []
        assert [each["lastError"] for each in server.targets()] == [""] * 4
        offered = server.query("sum by (node) (gpuslice_card_memory_mib)") or ()
        assert {each["metric"]["node"] for each in offered} == {
            f"node-{port}" for port in ports["node-agent"]
        }
