"""Puts together what decides a node's offer, from those who know a part of it each.

It outlives publishers: a Node that comes back under another UID gets a new one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from dra.offer import Situation
from dra.record import PreparedClaim
from dra.rivals import Rival
from gpu.model import Ailment, GpuUuid, Inventory
from kube.objects import JsonObject

Rivals = Callable[[Inventory, Iterable[JsonObject]], Mapping[GpuUuid, Rival]]
"""Given the slices of other drivers on the node: who else offers a device, by its UUID."""


@dataclass(slots=True, kw_only=True)
class SituationSource:
    """Set from the inventory's thread, read from the publisher's."""

    claims: Callable[[], Mapping[str, PreparedClaim]] = field(default=dict)
    """All prepared claims by UID."""
    rivals: Rivals = field(default=lambda _inventory, _slices: {})
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _read: Situation = field(default_factory=lambda: Situation(inventory=None))

    def set_inventory(self, inventory: Inventory) -> None:
        """Take *inventory* as what the node has now."""
        with self._lock:
            self._read = Situation(inventory=inventory)

    def set_failure(self, failure: Ailment) -> None:
        """Take it that the GPUs cannot be read any more."""
        with self._lock:
            self._read = replace(self._read, failure=failure)

    def inventory(self) -> Inventory | None:
        """Return the inventory that was set last."""
        return self._read.inventory

    def is_known(self) -> bool:
        """Tell whether anything was said about the GPUs yet."""
        return self._read != Situation(inventory=None)

    def look(self, published: Mapping[str, JsonObject], foreign: Iterable[JsonObject]) -> Situation:
        """Return the situation, given our devices on the server and others' slices."""
        with self._lock:
            read = self._read
        claims = self.claims().values()
        held = frozenset(device.device for claim in claims for device in claim.devices)
        rivals = {} if read.inventory is None else self.rivals(read.inventory, foreign)
        return replace(read, published=published, held=held, rivals=rivals)
