"""HAMi's device plugins of all nodes in one process that watches: what they do to API objects.

A pod that is bound has its phase changed and its node's lock removed, at once. That is two writes;
a plugin reads both objects several times besides, and hands out devices, which takes about 20 ms.
Run as `python -m tests.cluster.bench.device_plugins KUBECONFIG` inside the cluster's network.
"""

import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import structlog

from kube import paths
from kube.client import Client
from kube.config import kubeconfig
from kube.errors import KubeError
from kube.objects import JsonObject
from kube.reflector import Change, Reflector
from tests.cluster.bench.rounds import NAMESPACE
from tests.cluster.scenes.extenders import PHASE, serve

log = structlog.get_logger(__name__)

NAME: Final = "device-plugins"
_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod that has a node."""

    uid: str
    node: str
    waits: bool
    """For its devices."""


def bound(pod: JsonObject) -> Bound:
    """Read a pod."""
    metadata = pod["metadata"]
    phase = metadata.get("annotations", {}).get(PHASE)
    return Bound(metadata["uid"], pod["spec"]["nodeName"], phase == "allocating")


@dataclass(slots=True)
class Plugins:
    """Serve each pod once."""

    client: Client
    pool: ThreadPoolExecutor
    served: set[str] = field(default_factory=set)

    def note(self, change: Change[Bound]) -> None:
        """Take one change of the pods that have a node."""
        pod = change.new
        if pod is None or not pod.waits or pod.uid in self.served:
            return
        self.served.add(pod.uid)
        self.pool.submit(self._serve, change.key.name, pod.node)

    def _serve(self, name: str, node: str) -> None:
        try:
            serve(self.client, paths.pods(NAMESPACE, name), node)
        except KubeError as error:
            log.warning("pod not served", pod=name, reason=str(error))


def main(arguments: Sequence[str]) -> int:
    """Serve the pods of the namespace until a signal ends this."""
    client = Client(kubeconfig(arguments[0]), user_agent=NAME)
    with ThreadPoolExecutor(_THREADS) as pool:
        reflector = Reflector(
            client,
            paths.pods(NAMESPACE),
            params={"fieldSelector": "spec.nodeName!="},
            decode=bound,
            on_change=Plugins(client, pool).note,
        )
        reflector.start()
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
