"""What a node that serves claims has left of the time when it served a device plugin.

A node changes when no pod has devices any more, so nothing of it is in use; but the names in the
CDI spec would open every GPU of the node to whoever knows them.
"""

from pathlib import Path

import structlog

from cdi.cardspec import CardSpecStore
from cdi.errors import StoreError
from cli.nodeagent.settings import NodeAgentSettings

log = structlog.get_logger(__name__)


def clear_cards(settings: NodeAgentSettings) -> None:
    """Remove the CDI spec of the node's GPUs, and what was kept for containers."""
    specs = CardSpecStore(settings.cdi_directory)
    try:
        if specs.path.exists():
            specs.remove()
        if (settings.plugin_directory / "containers").is_dir():
            _clear_containers(settings.plugin_directory, settings.card_regions)
    except (StoreError, OSError) as error:
        log.warning("device plugin's files not removed", reason=str(error))


def _clear_containers(directory: Path, regions: Path) -> None:
    # A node that never served a device plugin need not load these.
    from cdi.regionstore import RegionStore  # noqa: PLC0415
    from hami.plugin.containers import ContainerStore  # noqa: PLC0415

    ContainerStore(directory / "containers", RegionStore(regions, str(regions)), grace_s=0).sweep(
        frozenset()
    )
