"""What answers kubelet on a node that serves the device plugin."""

from collections.abc import Callable, Collection
from typing import Final, get_args

from cdi.cardspec import CardSpecStore
from cdi.enforcement import CorePolicy
from cdi.library import HookLibrary
from cdi.regionstore import RegionStore
from cli.nodeagent.cardnode import CardNode
from cli.nodeagent.settings import NodeAgentSettings
from dra.loops import Loops
from hami.deviceconfig import DeviceConfig
from hami.plugin.allocating import Allocator
from hami.plugin.containers import ContainerStore
from hami.plugin.finding import Finder
from hami.plugin.forms import ListStrategy, ResponseForm
from hami.plugin.limiting import LimitRules
from hami.plugin.ownership import OwnerCheck
from hami.plugin.partitioning import Partitioner
from hami.plugin.partitionrecord import PartitionRecord
from hami.plugin.partitions import LOOK_S, Partitions
from hami.plugin.podends import PodEnds
from hami.plugin.podwriting import PodWriter
from hami.plugin.refitting import Extender, ExtenderRefitter, Refitter
from hami.plugin.releasing import LockReleaser
from hami.plugin.responding import Responder
from hami.plugin.service import PluginServicer
from hami.plugin.serving import PluginServing, socket_path
from kube.client import Client
from kube.events import EventRecorder
from kube.objects import JsonObject

_USER_AGENT: Final = "gpuslice-node-agent"
_POLICIES: Final[tuple[CorePolicy, ...]] = get_args(CorePolicy)


class CardService:
    """Kubelet's side; `start` it, then `stop` it."""

    def __init__(  # noqa: PLR0913 - where the plugin's parts meet
        self,
        settings: NodeAgentSettings,
        *,
        client: Client,
        events: EventRecorder,
        config: DeviceConfig,
        cards: CardNode,
        regions: RegionStore,
        node: Callable[[], JsonObject | None],
        alive: Callable[[], Collection[str] | None],
    ) -> None:
        """Put the parts together; *node* is the Node, *alive* UIDs of its pods as last seen."""
        self._settings, self._config, self._cards = settings, config, cards
        self.resource = config.nvidia.resource_count_name
        self.containers = ContainerStore(
            settings.plugin_directory / "containers", regions, grace_s=settings.container_grace_s
        )
        self._specs = CardSpecStore(settings.cdi_directory)
        self._responder = Responder(
            form=_form(settings),
            rules=self._rules,
            offers=cards.current.offer,
            edits=cards.edits,
            specs=self._specs,
            containers=self.containers,
            library=self._library,
            with_lock=settings.vgpu_lock,
        )
        finder = Finder(client, node=settings.node_name, resource=self.resource)
        self._partitions = _partitions(settings, cards, PodEnds(finder, alive))
        self._allocator = Allocator(
            offers=cards.current.offer,
            responder=self._responder,
            finder=finder,
            writer=PodWriter(client, finder),
            locks=LockReleaser(client, node=settings.node_name),
            refitter=_refitter(settings),
            instances=self._partitions,
            events=events,
        )
        self._servicer = PluginServicer(
            offers=cards.current.offer,
            allocator=self._allocator,
            numa_topology=self._tells_numa,
        )
        socket = socket_path(settings.kubelet_root, self.resource)
        offers = cards.current.offer
        owners = OwnerCheck(
            resource=self.resource, own=socket, offers=offers, node=node, events=events
        )
        self._serving = PluginServing(
            socket,
            resource=self.resource,
            servicer=self._servicer,
            calls=self._allocator,
            owners=owners,
        )
        cards.listen(self._changed)

    def problem(self) -> str | None:
        """Return why kubelet does not have the plugin's devices, `None` when it does."""
        return self._serving.problem()

    def start(self, loops: Loops) -> None:
        """Begin to serve; kubelet is told as soon as there is something to tell."""
        self.containers.prepare()
        self._specs.sweep_temporary()
        self._partitions.prepare()
        loops.run("device plugin", self._serving.run)
        loops.every(LOOK_S, self._partitions.reconcile)

    def stop(self) -> None:
        """Have the thread end; calls in flight may end first."""
        self._serving.stop()

    def sweep_libraries(self) -> None:
        """Remove the library's copies that no container has and that are not the present one."""
        kept, state = self.containers.libraries(), self._cards.state
        present = state.current().library if state.is_known() else None
        if kept is not None and present is not None:
            self._cards.library.kept.sweep(kept | {present.sha256})

    def _changed(self) -> None:
        self._responder.refresh()
        self._servicer.changed()
        self._serving.look()

    def _tells_numa(self) -> bool:
        config = self._cards.current.config()
        return self._settings.numa_topology or (config is not None and config.numa_topology)

    def _library(self) -> HookLibrary:
        return self._cards.state.current().require_library()

    def _rules(self) -> LimitRules:
        nvidia, config = self._config.nvidia, self._cards.current.config()
        policy = nvidia.gpu_core_policy
        return LimitRules(
            log_level=config.log_level if config else None,
            core_policy="disable" if nvidia.disable_core_limit else _policy(policy),
            unlimited_namespaces=frozenset(self._settings.unlimited_namespaces),
        )


def _form(settings: NodeAgentSettings) -> ResponseForm:
    return ResponseForm(
        strategies=frozenset(map(ListStrategy, settings.device_list_strategy)),
        ids=settings.device_id_strategy,
        pass_device_specs=settings.pass_device_specs,
        gdrcopy=settings.gdrcopy_enabled,
        gds=settings.gds_enabled,
        mofed=settings.mofed_enabled,
        cdi_annotation_prefix=settings.cdi_annotation_prefix,
    )


def _partitions(settings: NodeAgentSettings, cards: CardNode, ends: PodEnds) -> Partitions:
    boot_id = (settings.proc_root / "sys/kernel/random/boot_id").read_text().strip()
    record = PartitionRecord(settings.plugin_directory / "partitions.json", boot_id=boot_id)
    return Partitions(
        Partitioner(cards.session, record),
        record,
        has_ended=lambda each: ends.has_ended(each.key, each.pod_uid),
        shown=cards.shows,
    )


def _refitter(settings: NodeAgentSettings) -> Refitter | None:
    if not settings.refit_endpoint:
        return None
    extender = Extender(
        endpoint=settings.refit_endpoint,
        ca_file=settings.refit_ca_file,
        token_file=settings.refit_token_file,
    )
    return ExtenderRefitter(extender, node=settings.node_name, user_agent=_USER_AGENT)


def _policy(name: str) -> CorePolicy:
    # A word that HAMi does not know was warned of when the file was read.
    return next((each for each in _POLICIES if each == name), "default")
