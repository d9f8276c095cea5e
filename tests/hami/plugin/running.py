"""A plugin that serves, in threads of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hami.plugin.ownership import OwnerCheck
from hami.plugin.service import PluginServicer
from hami.plugin.serving import PluginServing, socket_path
from tests.hami.plugin.placed import RESOURCE, Parts


@dataclass(slots=True, kw_only=True)
class Running:
    """A plugin."""

    parts: Parts
    servicer: PluginServicer
    serving: PluginServing
    socket: Path


@contextmanager
def running(
    kubelet_root: Path, parts: Parts, *, owners: OwnerCheck | None = None, numa: bool = False
) -> Iterator[Running]:
    """Serve what *parts* hand out until the end of the block."""
    socket = socket_path(kubelet_root, RESOURCE)
    servicer = PluginServicer(
        offers=parts.offering, allocator=parts.allocator, numa_topology=lambda: numa
    )
    serving = PluginServing(
        socket,
        resource=RESOURCE,
        servicer=servicer,
        calls=parts.allocator,
        owners=owners or OwnerCheck(resource=RESOURCE, own=socket, offers=parts.offering),
        look_s=0.5,
    )
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        yield Running(parts=parts, servicer=servicer, serving=serving, socket=socket)
    finally:
        serving.stop()
        thread.join(20)
        assert not thread.is_alive()
