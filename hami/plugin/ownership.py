"""Whether somebody else on the node serves the resource that this plugin is to serve.

Kubelet takes whoever registers last, so two plugins with one resource name take it from each other
and limits come and go. What is seen of another one: its socket, which is alive, and the number of
devices in the Node's `status.allocatable`, which is not the number of ours. Kubelet sets the number
to 0 soon after a plugin has gone, so one of our own that has just ended is told from another.
"""

import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import structlog

from hami.plugin.granting import Offers
from hami.plugin.offering import device_ids
from kube.events import EventRecorder, Regarding
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

REASON: Final = "ResourceServedByAnother"
_DIGITS_MAX: Final = 9


class OwnerCheck:
    """Looks for other plugins with the same resource."""

    def __init__(
        self,
        *,
        resource: str,
        own: Path,
        offers: Offers,
        node: Callable[[], JsonObject | None] = lambda: None,
        events: EventRecorder | None = None,
    ) -> None:
        """Look beside the socket *own*; *node* gives the Node as it is known, if it is."""
        self._resource, self._own, self._offers = resource, own, offers
        self._node, self._events = node, events
        self._told = ""

    def before_serving(self) -> str | None:
        """Return who serves the resource while this plugin does not, in one sentence."""
        who = None
        if answers(self._own):
            who = f"another instance of this plugin serves it at {self._own.name}"
        return self._tell(who or self._alive() or self._counted())

    def while_serving(self) -> str | None:
        """Return who serves the resource beside this plugin, in one sentence."""
        return self._tell(self._alive())

    def _alive(self) -> str | None:
        found = next(filter(answers, self._foreign()), None)
        return None if found is None else f"another plugin serves it at {found.name}"

    def _foreign(self) -> Iterator[Path]:
        """Yield sockets by the names that NVIDIA's, HAMi's and GKE's plugins give them."""
        name = self._resource.rpartition("/")[2]
        yield self._own.with_name(f"nvidia-{name}.sock")
        if self._resource == "nvidia.com/gpu":
            yield self._own.with_name("nvidia.sock")
            yield from sorted(self._own.parent.glob("nvidiaGPU*.sock"))

    def _counted(self) -> str | None:
        found = _allocatable(self._node(), self._resource)
        offer = self._offers()
        if not found or offer is None:
            return None
        healthy = sum(len(device_ids(card)) for card in offer.cards if card.healthy)
        everything = sum(len(device_ids(card)) for card in offer.cards)
        if found in {healthy, everything}:
            return None
        return f"the node has {found} of it already, which are not the {everything} of this plugin"

    def _tell(self, who: str | None) -> str | None:
        if who is None:
            self._told = ""
            return None
        text = f"{self._resource} is served by another plugin: {who}"
        if text != self._told:
            self._told = text
            log.error("resource served by another plugin", resource=self._resource, who=who)
            self._write(text)
        return text

    def _write(self, text: str) -> None:
        node = self._node()
        if node is None or self._events is None:
            return
        metadata = node["metadata"]
        about = Regarding(
            api_version="v1",
            kind="Node",
            name=metadata["name"],
            uid=str(metadata.get("uid", "")),
        )
        remedy = "remove that plugin from the node, or let it serve the node instead of this one"
        self._events.event(about, "Warning", REASON, f"{text}; {remedy}")


def answers(path: Path) -> bool:
    """Tell whether somebody listens at the socket *path*; only a refusal is a sure no."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK}
    return True


def _allocatable(node: Any, resource: str) -> int:
    """Return how many of *resource* the Node has; 0 where that cannot be told."""
    status = node.get("status") if isinstance(node, dict) else None
    found = status.get("allocatable") if isinstance(status, dict) else None
    text = str(found.get(resource, "")) if isinstance(found, dict) else ""
    number = text.removesuffix("k")
    if not number.isdecimal() or len(number) > _DIGITS_MAX:
        return 0
    return int(number) * (1000 if text != number else 1)
