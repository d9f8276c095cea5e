"""A simulated server with its controllers, for clients that are not asynchronous."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kube.client import Client
from kube.config import kubeconfig
from sim.apiserver.server import ApiServer
from sim.controllers import suite
from sim.loopthread import LoopThread
from sim.scheduler.cel import fault_of
from tests.cluster.assets import find

_KUBECTL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """A server that runs: a client of it, and the file by which others find it."""

    client: Client
    kubeconfig: Path
    minor: str

    def kubectl(self, arguments: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        """Run the kubectl that was built for clusters."""
        program = find(self.minor).path("kubectl")
        done = subprocess.run(  # noqa: S603 - the program is ours
            (program, f"--kubeconfig={self.kubeconfig}", *arguments),
            env={**os.environ, "HOME": str(self.kubeconfig.parent)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_KUBECTL_S,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def simulated(minor: str, folder: Path) -> Iterator[Simulated]:
    """Run a server of *minor* for the block."""
    loop = LoopThread("api-behaviour")
    loop.start()
    try:
        # The real server sends bookmarks once a minute and near the end of a watch.
        server = loop.call(ApiServer, minor, bookmark_interval_s=60.0, check_expression=fault_of)
        loop.run(server.start())
        controllers = loop.call(asyncio.ensure_future, suite.run(server.api))
        path = folder / "kubeconfig"
        server.write_kubeconfig(path)
        client = Client(kubeconfig(str(path)), user_agent="gpuslice-tests")
        try:
            yield Simulated(client, path, minor)
        finally:
            client.close()
            loop.call(controllers.cancel)
            loop.run(server.stop())
    finally:
        loop.stop()
