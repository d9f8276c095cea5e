"""The real node agents of the demo: one process a node, started as on a real one.

Only NVML and the host's files are stood in for (`cli.simulated_agent`). Each agent's log goes to a
file, because a person watching the demo wants to see what happened and not how.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cdi.library import make_placeholder
from sim.node import NodeHandle

_STOP_S = 5.0


class AgentError(Exception):
    """An agent ended or did not become ready; the text ends with what it logged last."""


@dataclass(slots=True)
class Agent:
    """A running node agent."""

    node: NodeHandle
    process: subprocess.Popen[bytes]
    log_path: Path
    port: int

    @classmethod
    def start(cls, node: NodeHandle, kubeconfig: Path, directory: Path) -> Self:
        """Start the agent of *node*, with its log below *directory*."""
        library = directory / "libvgpu.so"
        if not library.exists():
            make_placeholder(library)
        port = _free_port()
        log_path = directory / f"{node.name}.log"
        flags = {
            "--node-name": node.name,
            "--kubeconfig": kubeconfig,
            "--kubelet-root": node.kubelet_root,
            "--cdi-directory": node.cdi_dir,
            "--host-root": node.root,
            "--proc-root": node.root / "proc",
            "--sys-root": node.root / "sys",
            "--operator-wait-s": 0,
            "--hami-core-library": library,
            "--probe-address": "127.0.0.1",
            "--probe-port": port,
        }
        words = [str(word) for pair in flags.items() for word in pair]
        command = [sys.executable, "-m", "cli.simulated_agent", "--gpus", str(node.gpus_file)]
        with log_path.open("ab") as log_file:
            process = subprocess.Popen(  # noqa: S603  # our own program
                [*command, "--", *words, "--accept-placeholder-library"],
                stdout=log_file,
                stderr=log_file,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C is for the demo, which needs the agents to clean up.
                start_new_session=True,
            )
        return cls(node=node, process=process, log_path=log_path, port=port)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the agent says that kubelet, GPUs and slices are as they should be."""
        deadline = time.monotonic() + timeout_s
        answer = "no answer yet"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            ready, answer = self._ask("readyz")
            if ready:
                return
            time.sleep(0.05)
        tail = "\n".join(self.log_path.read_text().splitlines()[-5:])
        message = f"the agent of {self.node.name} is not ready: {answer}\n{tail}"
        raise AgentError(message)

    def metrics(self) -> str:
        """Return the agent's metrics in Prometheus' text form."""
        return self._ask("metrics")[1]

    def stop(self) -> None:
        """End the agent as a node would, and wait for it."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, path: str) -> tuple[bool, str]:
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # our own URL
                return True, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode().strip()
        except OSError as error:
            return False, str(error)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
