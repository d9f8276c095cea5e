"""A node agent that runs as a process of its own."""

import contextlib
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from cdi.faults import FaultPoint
from tests.agent.host import NODE, Host
from tests.agent.launcher import launch

DEADLINE_S = 30.0
_POLL_S = 0.01

_CONTEXT = multiprocessing.get_context("forkserver")
# `pytest` too, because each child imports the main module of the process that asked for it.
_CONTEXT.set_forkserver_preload(["pytest", "tests.agent.launcher"])


class Agent:
    """Starts with its construction."""

    def __init__(self, host: Host, kubeconfig: Path, number: int, *flags: str) -> None:
        self._host = host
        self._log_path = host.root / f"agent-{number}.log"
        self._deadly = host.root / f"deadly-{number}"
        arguments = ["--gpus", str(host.gpus_file), "--", *_flags(host, kubeconfig), *flags]
        self._process = _CONTEXT.Process(
            target=launch, args=(arguments, str(self._log_path), str(self._deadly)), daemon=True
        )
        self._arguments = arguments

    def start(self) -> None:
        """Begin to start."""
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """Return how it ended: minus a signal's number, or a status; `None` while it runs."""
        return self._process.exitcode

    def blocked_signals(self) -> list[int]:
        """Return which signals each of its threads leaves to others, as the kernel writes that."""
        lines: list[str] = []
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            # It may have ended since.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                lines += (task / "status").read_text(encoding="utf-8").splitlines()
        return [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:")]

    def die_at(self, point: FaultPoint) -> None:
        """Have the process killed when it reaches *point*."""
        self._deadly.write_text(point, encoding="utf-8")

    def wait_started(self) -> None:
        """Wait until kubelet may call."""
        self.wait_logged("plugin started")

    def wait_logged(self, event: str) -> dict[str, Any]:
        """Wait until *event* was logged and return its record."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ended = self.exit_code is not None
            for record in self.log():
                if record.get("event") == event:
                    return record
            if ended or time.monotonic() > deadline:
                message = f"never logged `{event}` (exit code {self.exit_code}): {self.log()}"
                raise AssertionError(message)
            time.sleep(_POLL_S)

    def wait_ended(self) -> int | None:
        """Wait until the process has ended and return its exit code."""
        self._process.join(DEADLINE_S)
        return self.exit_code

    def terminate(self) -> int | None:
        """Send SIGTERM and wait for the end."""
        self._process.terminate()
        return self.wait_ended()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()

    def log(self) -> list[dict[str, Any]]:
        """Return what was logged so far."""
        if not self._log_path.exists():
            return []
        text = self._log_path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [
            json.loads(line) if line.startswith("{") else {"event": "output", "text": line}
            for line in whole
        ]

    def ask(self, path: str) -> tuple[int, str]:
        """Return status and body of `/healthz`, `/readyz` or `/metrics`."""
        url = f"http://127.0.0.1:{self._probe_port()}{path}"
        response = urllib3.request("GET", url, timeout=10, retries=False)
        return response.status, response.data.decode()

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Return each metric's values by its labels' values, in the order of the labels' names."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.ask("/metrics")[1]):
            for sample in family.samples:
                labels = tuple(str(sample.labels[name]) for name in sorted(sample.labels))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    def _probe_port(self) -> int:
        """Find the only TCP port that the process listens on."""
        process = Path(f"/proc/{self._process.pid}")
        sockets = set()
        for descriptor in (process / "fd").iterdir():
            try:
                sockets.add(str(descriptor.readlink()))
            except FileNotFoundError:
                continue
        rows = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
        listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
        assert len(listening) == 1, listening
        return int(listening[0].partition(":")[2], 16)


def _flags(host: Host, kubeconfig: Path) -> list[str]:
    flags = {
        "--node-name": NODE,
        "--kubeconfig": kubeconfig,
        "--kubelet-root": host.kubelet_root,
        "--cdi-directory": host.cdi,
        "--host-root": host.files,
        "--proc-root": host.files / "proc",
        "--sys-root": host.files / "sys",
        "--operator-wait-s": 0,
        "--hami-core-library": host.library,
        "--probe-address": "127.0.0.1",
        "--probe-port": 0,
    }
    words = [str(word) for pair in flags.items() for word in pair]
    return [*words, "--accept-placeholder-library"]
