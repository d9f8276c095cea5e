"""From a running process to published devices: find out who the node is, then publish.

Slices are owned by their Node, so that they go with it; its UID has to be read first, and the API
server may not answer yet while kubelet already calls. A Node that was deleted comes back under
another UID, with a kubelet that starts and registers its plugins anew: then it is read again.
"""

import json
import threading
from collections.abc import Callable, Mapping

import structlog

from dra.devicehealth import DeviceHealth
from dra.devices import Noted
from dra.publisher import Publisher
from dra.situation import SituationSource
from gpu.model import Ailment, Inventory
from kube import paths
from kube.client import Client
from kube.errors import KubeError
from kube.objects import JsonObject

RETRY_S = 2.0

log = structlog.get_logger(__name__)


class Publication:
    """Holds the publisher once there is one."""

    def __init__(
        self,
        *,
        client: Client,
        node_name: str,
        situation: SituationSource,
        publisher: Callable[[str, SituationSource], Publisher],
    ) -> None:
        """Prepare; *publisher* makes one for a node's UID that publishes the *situation*."""
        self._client = client
        self._node_name = node_name
        self._situation = situation
        self._make = publisher
        self._publisher: Publisher | None = None
        self._node_uid: str | None = None
        self._problem = "the node has not been looked up yet"
        self.look_again = threading.Event()
        """Set it when kubelet has registered the plugin, and to have `run` look at its end."""

    def set_inventory(self, inventory: Inventory) -> None:
        """Have *inventory* published as soon as that is possible."""
        self._situation.set_inventory(inventory)
        self.situation_changed()

    def set_failure(self, failure: Ailment) -> None:
        """Have what is published marked as not usable, as soon as that is possible."""
        self._situation.set_failure(failure)
        self.situation_changed()

    def situation_changed(self) -> None:
        """Have the situation looked at soon."""
        if self._publisher is not None:
            self._publisher.look_again()

    def claims_changed(self) -> None:
        """Have it looked at soon if what is published depends on claims."""
        if self._publisher is not None:
            self._publisher.claims_changed()

    def inventory(self) -> Inventory | None:
        """Return the inventory that was set last."""
        return self._situation.inventory()

    def run(self, stopping: threading.Event) -> None:
        """Look the node up whenever that is due and publish for it, until *stopping* is set."""
        while True:
            # In this order: whoever stops this sets *stopping* first.
            self.look_again.clear()
            if stopping.is_set():
                break
            while not stopping.is_set() and not self._look():
                stopping.wait(RETRY_S)
            self.look_again.wait()
        if self._publisher is not None:
            self._publisher.stop()

    def devices(self) -> Mapping[str, JsonObject]:
        """Return the devices on the server by name."""
        return self._publisher.published_devices() if self._publisher else {}

    def health(self) -> tuple[DeviceHealth, ...]:
        """Return the health of the published devices and of those that claims hold."""
        return self._publisher.health() if self._publisher else ()

    def noted(self) -> tuple[Noted, ...]:
        """Return the devices that are not offered, or not for new work, with the reasons."""
        return self._publisher.noted() if self._publisher else ()

    def node_uid(self) -> str | None:
        """Return the UID of the Node, `None` before it was read."""
        return self._node_uid

    def problem(self) -> str | None:
        """Return why the devices are not on the server as wanted, `None` when they are."""
        return self._publisher.ready() if self._publisher else self._problem

    def _look(self) -> bool:
        """Publish for the node as it is now; tell whether it could be read."""
        try:
            node = json.loads(self._client.get(paths.nodes(self._node_name)))
            uid = str(node["metadata"]["uid"])
        except (KubeError, ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"node `{self._node_name}` cannot be read: {error}"
            if problem != self._problem:
                log.warning("node not read", reason=problem)
            self._problem = problem
            return False
        if uid != self._node_uid:
            self._publish_for(uid)
        return True

    def _publish_for(self, node_uid: str) -> None:
        before, publisher = self._publisher, self._make(node_uid, self._situation)
        if before is not None:
            log.info("node found to be another one", node_uid=node_uid)
            before.stop()
        self._node_uid, self._publisher = node_uid, publisher
        publisher.start()
