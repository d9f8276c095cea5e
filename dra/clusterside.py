"""What the agent follows on the API server and says there, besides the claims that kubelet names.

The client is shared by all; a watch has a connection of its own.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from dra import wiring
from dra.conditions import Conditions
from dra.filllevel import FillLevels
from dra.loops import Loops
from dra.nodewatch import NodeWatch
from dra.pods import PodUse, read_pod
from dra.publication import Publication
from dra.publisher import Publisher
from dra.record import PreparedClaim
from dra.rivals import Rival, find_rivals
from dra.settings import AgentSettings
from dra.sharing import SharingProbe
from dra.situation import SituationSource
from gpu import names
from gpu.model import GpuUuid, Inventory
from kube import paths
from kube.config import ClientConfig
from kube.events import EventRecorder
from kube.objects import JsonObject
from kube.reflector import Reflector

_CONDITIONS_LOOK_S = 60.0
_SETTLE_S = 0.5


class ClusterSide:
    """Slices, events and conditions; pods and Node as last seen."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        identity: ClientConfig | None,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        stopping: threading.Event,
    ) -> None:
        """Put the parts together; *identity* replaces the one that the settings point to."""
        self._settings = settings
        self._rules = wiring.offer_rules(settings)
        self._fill = FillLevels(claims) if settings.publish_fill_level else None
        self.pods_changed, self._health_changed = threading.Event(), threading.Event()
        self.tell_kubelet: Callable[[], None] = lambda: None
        """Called when the health of a device is another."""
        self.client = wiring.client(settings, identity)
        self.events = EventRecorder(self.client, component=names.DRIVER, host=settings.node_name)
        self._pods: Reflector[PodUse] = Reflector(
            self.client,
            paths.pods(),
            params={"fieldSelector": f"spec.nodeName={settings.node_name}"},
            decode=read_pod,
            on_change=lambda _change: self.pods_changed.set(),
        )
        self.publication = Publication(
            client=self.client,
            node_name=settings.node_name,
            situation=SituationSource(claims=claims, rivals=self._rivals),
            publisher=self._publisher,
        )
        self._node = NodeWatch(
            client=self.client,
            node_name=settings.node_name,
            on_change=self.publication.situation_changed,
        )
        self.conditions = Conditions(
            client=self.client,
            pool=settings.node_name,
            claims=claims,
            health=self.publication.health,
            stopping=stopping,
        )

    def start(self, loops: Loops) -> None:
        """Begin to follow and to publish."""
        self._pods.start()
        if not self._settings.allow_dual:
            self._node.start()
        publication = self.publication
        loops.run(
            "publication", lambda: publication.run(loops.stopping), wake=publication.look_again
        )
        loops.every(
            _CONDITIONS_LOOK_S,
            self.conditions.look,
            wake=self._health_changed,
            settle_s=_SETTLE_S,
        )

    def stop(self) -> None:
        """End the watches; whoever still wants to say something does that before `close`."""
        self._pods.stop()
        self._node.stop()

    def close(self) -> None:
        """Say what is left to say and end all connections."""
        self.events.close()
        self.client.close()

    def pods(self) -> Collection[PodUse]:
        """Return the node's pods as far as they are known."""
        return self._pods.items().values()

    def known_pods(self) -> Collection[PodUse] | None:
        """Return the node's pods; `None` as long as they were not read."""
        return self.pods() if self._pods.wait_synced(0) else None

    def claim_prepared(self) -> None:
        """Have the claim say so if a device that it got is ill, and the slice how full it is."""
        self.publication.claims_changed()
        if not all(device.healthy for device in self.publication.health()):
            self._health_changed.set()

    def _say_health(self) -> None:
        self._health_changed.set()
        self.tell_kubelet()

    def _rivals(
        self, inventory: Inventory, slices: Iterable[JsonObject]
    ) -> Mapping[GpuUuid, Rival]:
        if self._settings.allow_dual:
            return {}
        name = self._settings.node_name
        return find_rivals(inventory, self._node.node(), slices, node_name=name)

    def _publisher(self, node_uid: str, situation: SituationSource) -> Publisher:
        return Publisher(
            client=self.client,
            node_name=self._settings.node_name,
            node_uid=node_uid,
            probe=SharingProbe(self.client, node_name=self._settings.node_name, node_uid=node_uid),
            rules=self._rules,
            events=self.events,
            situation=situation,
            fill=self._fill,
            health_changed=self._say_health,
        )
