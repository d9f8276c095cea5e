"""The extender as administrators run it: a process, flags and a `device-config.yaml`."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import yaml

from hami.vendor_rules import chart
from tests.fakes.api_server import ServerThread
from tests.hami.chartconfig import chart_config
from tests.patience import eventually

_HOST: Final = "127.0.0.1"
CHART: Final = chart_config() + yaml.safe_dump(dict(chart.SECTIONS))
"""All sections as HAMi's chart renders them."""
CONFIGURED: Final = chart_config() + yaml.safe_dump(
    {
        **chart.SECTIONS,
        "metax": {**chart.SECTIONS["metax"], "sgpuTopologyAware": True},
        "vnpus": {**chart.SECTIONS["vnpus"], "hamiVnpuCore": True},
        "hygon": {**chart.SECTIONS["hygon"], "memoryFactor": 1024},
    }
)
"""Settings turned that the chart leaves off."""


class Process:
    """A running extender."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        """Return the answer, which has to be one of status 200."""
        status, text = self.answer(path, body)
        assert status == 200, text
        return text

    def answer(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and text of an answer."""
        connection = HTTPConnection(_HOST, self.port, timeout=60)
        try:
            connection.request("GET" if body is None else "POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Tell whether it knows the cluster."""
        return self.answer("/readyz")[0] == 200


@contextmanager
def extender(server: ServerThread, folder: Path, config: str = CHART) -> Iterator[Process]:
    """Run an extender that starts from nothing, with *config*, until the block ends."""
    kubeconfig, said, device_config = (
        folder / name for name in ("kubeconfig", "log", "device-config.yaml")
    )
    server.call(server.server.write_kubeconfig, kubeconfig, "extender")
    device_config.write_text(config)
    words = [
        *(sys.executable, "-m", "extender", "--no-leader-elect", "--enable-ascend"),
        *("--enable-iluvatar", "--device-config", str(device_config)),
        *("--kubeconfig", str(kubeconfig), "--port", "0"),
        *("--metrics-port", "0", "--metrics-address", _HOST),
    ]
    with (
        said.open("w") as log,
        subprocess.Popen(words, stderr=log) as process,  # noqa: S603 - our own program
    ):
        try:
            running = Process(eventually(lambda: _port(said)))
            eventually(running.is_ready)
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _port(said: Path) -> int:
    for line in said.read_text().splitlines():
        found = json.loads(line) if line.startswith("{") else {}
        if found.get("event") == "extender started":
            return int(found["port"])
    return 0
