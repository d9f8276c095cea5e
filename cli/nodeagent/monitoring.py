"""The monitor beside whichever way the node's GPUs are given away."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from cli.nodeagent.nodepods import NodePods
from cli.nodeagent.settings import NodeAgentSettings
from gpu.usage import UsageReader
from hami.monitor.claims import PreparedClaim
from hami.monitor.monitor import Monitor, MonitorOptions
from hami.monitor.podresources import PodResources
from hami.monitor.sources import Sources
from kube.events import EventRecorder, Regarding

_STOP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Where to look for what was given away."""

    claims: Callable[[], Iterable[PreparedClaim]] = tuple
    claim_region: Callable[[str], Path] | None = None
    plugin_regions: Path | None = None
    plugin_resources: frozenset[str] = frozenset()


class NodeMonitor:
    """Measures what the containers of a node use; `start` it, then `stop` it."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        *,
        events: EventRecorder,
        usage: UsageReader,
        registry: CollectorRegistry,
        pods: NodePods,
        given: Given,
    ) -> None:
        """Put the parts together; metrics go to *registry*."""
        name = settings.node_name
        self._held = PodResources(settings.kubelet_root / "pod-resources" / "kubelet.sock")
        self._monitor = Monitor(
            Sources(
                pods=pods.known,
                claims=given.claims,
                claim_region=given.claim_region,
                plugin_regions=given.plugin_regions,
                plugin_resources=given.plugin_resources,
                pod_resources=self._held,
                gpus=usage,
            ),
            # As kubelet names it: Events about a Node are looked for by its name.
            node=Regarding(api_version="v1", kind="Node", name=name, uid=name),
            recorder=events,
            options=MonitorOptions(
                interval_s=settings.monitor_interval_s,
                feedback=settings.feedback,
                legacy_names=settings.legacy_metrics,
                proc=settings.proc_root,
            ),
        )
        registry.register(self._monitor.collector)

    def start(self) -> None:
        """Begin to look."""
        self._monitor.start()

    def stop(self) -> None:
        """End, and let every container go on that waits for another."""
        self._monitor.stop(_STOP_S)
        self._held.close()
