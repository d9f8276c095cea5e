"""The processes of a benchmark: the API server, the extender, the reference, or somebody else's."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.extender.asking import Connection, decoded, node_of
from tests.bench.extender.cluster import Size, questions
from tests.bench.processes import ROOT, Process, running
from tests.patience import eventually
from tests.ports import free_port

HOST: Final = "127.0.0.1"
_PEER: Final = "GPUSLICE_BENCH_PEER"
_FIRST_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Something that answers `/filter`, for a cluster of one size."""

    name: str
    url: str
    process: Process | None = None
    """None for somebody else's, whose memory and log are not ours to look at."""
    metrics_url: str = ""
    first_answer_s: float = 0.0
    first_answer_cpu_s: float = 0.0

    def cpu_s(self) -> float:
        """Return what it has computed; 0 where nobody knows."""
        return self.process.cpu_s() if self.process else 0.0

    def log_bytes(self) -> int:
        """Return how much it has logged."""
        return len(self.process.text()) if self.process else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A running API server and a folder for whoever asks it."""

    url: str
    folder: Path

    def order(self, word: str, body: bytes = b"") -> bytes:
        """Send one of a benchmark's own requests."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request("POST", f"/bench/{word}", body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def api_server(folder: Path, size: Size) -> Iterator[Api]:
    """Run the API server of a cluster of that size."""
    port = free_port()
    words = [str(port), str(size.nodes), str(size.pods_per_gpu)]
    with running(Process(["tests.bench.extender.api_server", *words], {})) as process:
        process.wait_line(lambda line: line.startswith("serving"))
        yield Api(url=f"http://{HOST}:{port}", folder=folder)


@contextmanager
def extender(api: Api, size: Size, *, node_lock: bool = False) -> Iterator[Asked]:
    """Run the extender until it has answered once."""
    port, metrics_port = free_port(), free_port()
    flags: dict[str, Any] = {
        "address": HOST,
        "port": port,
        "metrics-address": HOST,
        "metrics-port": metrics_port,
    }
    words = ["tests.bench.extender.launched", api.url]
    words += [f"--{name}={value}" for name, value in flags.items()]
    words += ["--no-leader-elect", "--node-lock" if node_lock else "--no-node-lock"]
    with running(Process(words, _with_bytecode(api.folder))) as process:
        url = f"http://{HOST}:{port}"
        first = next(questions(size, 100, 1, seed=-1))
        _first_answer(url, first, process)
        yield Asked(
            name="extender",
            url=url,
            process=process,
            metrics_url=f"{HOST}:{metrics_port}",
            first_answer_s=time.monotonic() - process.started_s,
            first_answer_cpu_s=process.cpu_s(),
        )


@contextmanager
def reference(size: Size) -> Iterator[Asked]:
    """Run the one that computes everything anew."""
    port = free_port()
    words = [str(port), str(size.nodes), str(size.pods_per_gpu)]
    with running(Process(["tests.bench.extender.reference", *words], {})) as process:
        eventually(lambda: listens(port))
        yield Asked(name="reference", url=f"http://{HOST}:{port}", process=process)


def peer() -> tuple[Asked, Size] | None:
    """Return somebody else's extender and the size of its cluster: `URL,nodes,pods per GPU`."""
    said = os.environ.get(_PEER)
    if not said:
        return None
    url, nodes, pods = said.split(",")
    return Asked(name="peer", url=url), Size(nodes=int(nodes), pods_per_gpu=float(pods))


def _with_bytecode(folder: Path) -> dict[str, str]:
    """Return an environment in which all modules are compiled already, as in an image."""
    made = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    command = [sys.executable, "-m", "tests.bench.extender.launched", "", "--help"]
    subprocess.run(  # noqa: S603 - our own module
        command, cwd=ROOT, env={**os.environ, **made}, stdout=subprocess.DEVNULL, check=True
    )
    return made


def listens(port: int) -> bool:
    """Tell whether somebody accepts connections."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _first_answer(url: str, question: bytes, process: Process) -> None:
    deadline_s = time.monotonic() + _FIRST_S
    while True:
        try:
            connection = Connection(url)
        except OSError:
            if process.has_ended():
                raise RuntimeError(process.text()) from None
        else:
            try:
                if node_of(decoded(connection.ask("filter", question))):
                    return
            except (AssertionError, OSError):
                pass
            finally:
                connection.close()
        if time.monotonic() > deadline_s:
            raise TimeoutError(process.text()[-2000:])
        time.sleep(0.02)
