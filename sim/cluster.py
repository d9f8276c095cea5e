"""A whole cluster in one process: API server, controllers, scheduler and nodes.

Everything of the cluster runs in one asyncio loop in a thread of its own; the methods here are
for other threads. Node agents are not part of it: they are real processes that somebody starts
with the kubeconfig and a node's directories.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.server import ApiServer
from sim.apiserver.users import SCHEDULER
from sim.controllers import suite
from sim.kubelet.timing import Timing
from sim.loopthread import LoopThread
from sim.node import Node, NodeHandle, NodeSpec
from sim.scheduler import scheduler
from sim.scheduler.cel import fault_of
from sim.scheduler.configuration import DEFAULT_NAME, Configuration, read_configuration

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.02


class ClusterError(Exception):
    """The cluster does not run, or a part of it has died of a mistake in the simulation."""


class Cluster:
    """A cluster below *directory*; use it in a `with` block, or `start` and `stop` it.

    The directory's path must be short (about 50 bytes with the name of the node), since plugins
    make sockets below it and a unix socket's path ends at 107 bytes; `ValueError` if not even
    our own driver's fit. *schedulers* are KubeSchedulerConfigurations of those that run beside the
    default one, or in its place where they have its name; their extenders need not answer yet.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[NodeSpec],
        version: str = "1.37",
        *,
        timing: Timing | None = None,
        schedulers: Sequence[JsonObject] = (),
    ) -> None:
        self._schedulers = [read_configuration(each) for each in schedulers]
        if all(each.name != DEFAULT_NAME for each in self._schedulers):
            self._schedulers.append(Configuration())
        self._directory = directory
        self._version = version
        self._nodes = {
            spec.name: Node(
                spec,
                directory / spec.name,
                number=number,
                version=version,
                timing=timing or Timing(),
            )
            for number, spec in enumerate(nodes)
        }
        self._loop: LoopThread | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self.server = ApiServer(version, check_expression=fault_of)
        """For faults: use it by `run` and `call`, since it belongs to the cluster's loop."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self._directory / "kubeconfig"

    @property
    def api(self) -> Api:
        """Return the client in the process; its calls go through `run`."""
        return self.server.api

    def start(self) -> None:
        """Start everything and return when the nodes are registered."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for node in self._nodes.values():
            node.make_host()
        self._loop = LoopThread("cluster")
        self._loop.start()
        try:
            self.run(self._start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything; the files stay."""
        loop = self._loop
        if loop is None:
            return
        loop.run(self._stop(), timeout_s=_STOP_TIMEOUT_S)
        self._loop = None
        loop.stop()

    def run(self, work: Coroutine[Any, Any, Value], *, timeout_s: float | None = None) -> Value:
        """Run *work* in the cluster's loop and return its value."""
        if self._loop is None:
            work.close()
        return self._running().run(work, timeout_s=timeout_s)

    def call(self, function: Callable[..., Value], *args: Any, **options: Any) -> Value:
        """Call *function* in the cluster's loop: `cluster.call(cluster.server.compact)`."""
        return self._running().call(function, *args, **options)

    def node(self, name: str) -> NodeHandle:
        """Return a handle of one node."""
        return NodeHandle(self._nodes[name], self.run)

    def kubeconfig_for(self, user: str) -> Path:
        """Write and return a kubeconfig of a user of its own, who can be told in the journal."""
        path = self._directory / f"kubeconfig-{user}"
        self.call(self.server.write_kubeconfig, path, user)
        return path

    def wait_for(self, predicate: Callable[[], Value], timeout_s: float) -> Value:
        """Return the first true value of *predicate*; raise `TimeoutError`, or `ClusterError`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            value = predicate()
            if value:
                return value
            if self._failures:
                message = "a part of the cluster has died"
                raise ClusterError(message) from self._failures[0]
            if time.monotonic() > deadline_s:
                what = predicate.__doc__ or predicate.__qualname__
                message = f"not within {timeout_s} s: {what}"
                raise TimeoutError(message)
            time.sleep(_POLL_S)

    def _running(self) -> LoopThread:
        if self._loop is None:
            message = "the cluster does not run"
            raise ClusterError(message)
        return self._loop

    async def _start(self) -> None:
        await self.server.start()
        self.server.write_kubeconfig(self.kubeconfig)
        self._spawn("controllers", suite.run(self.api))
        for each in self._schedulers:
            scheduling = scheduler.run(
                self.api.as_user(SCHEDULER), profile=_minor(self._version), configuration=each
            )
            self._spawn(each.name, scheduling)
        for node in self._nodes.values():
            await node.start(self.api)

    async def _stop(self) -> None:
        for node in self._nodes.values():
            await node.stop()
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self.server.stop()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        job = asyncio.get_running_loop().create_task(self._guarded(name, work))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            log.exception("part of the cluster died", part=name)
            self._failures.append(error)


def _minor(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])
