"""What befalls the node while pods come and go: each of it ends with everything running again."""

import contextlib
import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping

from kube import paths
from kube.client import Client
from kube.errors import NotFoundError
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.restarts import restart_kubelet


class Troubles:
    """Troubles of one driver, one at a time."""

    def __init__(self, driver: Driver, client: Client, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._driver = driver
        self._client = client
        self._chance = chance

    def small(self) -> None:
        """Make one after which the agent is the same process."""
        self._make({"slice deleted": self._delete_slice, "spec deleted": self._delete_spec})

    def big(self) -> None:
        """Make any."""
        self._make(
            {
                "agent killed": self._kill_agent,
                "agent restarted": self._driver.restart_first,
                "agent replaced": self._replace_agent,
                "kubelet restarted": lambda: restart_kubelet(self._driver.cluster),
                "kubelet killed": lambda: restart_kubelet(self._driver.cluster, signal.SIGKILL),
                "slice deleted": self._delete_slice,
                "spec deleted": self._delete_spec,
            }
        )

    def _make(self, kinds: Mapping[str, Callable[[], object]]) -> None:
        name = self._chance.choice(list(kinds))
        kinds[name]()
        self.done[name] += 1

    def _kill_agent(self) -> None:
        self._driver.first.kill()
        self._driver.start_first()

    def _replace_agent(self) -> None:
        """Start another agent beside it, as a rolling update does, and end it then."""
        old = self._driver.first
        self._driver.start_second()
        old.terminate()

    def _delete_slice(self) -> None:
        for each in json.loads(self._client.get(paths.resource_slices()))["items"]:
            if each["spec"].get("nodeName") == self._driver.first.node:
                with contextlib.suppress(NotFoundError):
                    self._client.delete(paths.resource_slices(each["metadata"]["name"]))

    def _delete_spec(self) -> None:
        specs = self._driver.specs()
        if specs:
            self._chance.choice(specs).unlink(missing_ok=True)
