"""What the slices of the moment amount to, counted once for each change of theirs."""

import threading
from collections.abc import Callable, Iterable, Mapping

from webhook.facts import ClusterFacts
from webhook.slicefacts import OfferedSlice, counts_are_distinct, current_devices, facts_of


class Offer:
    """Counts what *slices* returns, when asked after a change."""

    def __init__(self, slices: Callable[[], Iterable[OfferedSlice]]) -> None:
        self._slices = slices
        self._lock = threading.Lock()
        self._distinct: bool | None = None
        self._facts: ClusterFacts | None = None
        self._sizes: Mapping[tuple[str, str], int | None] | None = None

    @property
    def is_version_known(self) -> bool:
        """Tell whether `set_version` was called."""
        return self._distinct is not None

    def set_version(self, server_version: str) -> None:
        """Learn which release serves; as long as it is unknown, no count is distinct."""
        with self._lock:
            self._distinct = counts_are_distinct(server_version)
            self._facts = None

    def slices_changed(self) -> None:
        """Count anew when next asked."""
        with self._lock:
            self._facts = self._sizes = None

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""
        with self._lock:
            if self._facts is None:
                self._facts = facts_of(self._slices(), distinct=bool(self._distinct))
            return self._facts

    def memory_of(self, pool: str, device: str) -> int | None:
        """Return the MiB of one device."""
        with self._lock:
            if self._sizes is None:
                self._sizes = {
                    (pool, each.name): each.memory_mib
                    for pool, each in current_devices(self._slices())
                }
            return self._sizes.get((pool, device))
