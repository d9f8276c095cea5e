"""What the node offers at this moment, made anew whenever something that it follows from changes.

That is the inventory of its GPUs, the node configuration with the node's labels, and how the GPUs
are linked. All who offer something ask here, so that they cannot differ.
"""

import threading
from collections.abc import Callable, Iterator, Mapping

import structlog

from gpu.instances import Profiles
from gpu.links import Link
from gpu.model import Ailment, Gpu, GpuUuid, Inventory
from gpu.refusal import Refusal
from hami.nodeconfig import EffectiveConfig
from hami.nodenotes import PairScores
from hami.plugin import links, offering
from hami.plugin.configfile import NodeConfigKeeper
from hami.plugin.model import Offer
from hami.plugin.offering import Known
from kube.configfile import FileState

log = structlog.get_logger(__name__)


class CurrentOffer:
    """Holds the offer; all methods may be called from any thread."""

    def __init__(self, keeper: NodeConfigKeeper, changed: Callable[[], None]) -> None:
        """Prepare; *changed* is called after every change of what the other methods return."""
        self._keeper, self._changed = keeper, changed
        self._lock = threading.Lock()
        self._inventory: Inventory | None = None
        self._failure: Ailment | None = None
        self._seen = dict[GpuUuid, Gpu]()
        self._links: tuple[Link, ...] | None = None
        self._profiles: Profiles | None = None
        self._offer: Offer | None = None

    def set_inventory(self, inventory: Inventory) -> None:
        """Take what was read of the GPUs."""
        with self._lock:
            self._inventory, self._failure = inventory, None
            self._seen |= {gpu.uuid: gpu for gpu in inventory.gpus}
            is_new = self._make()
        self._tell(is_new=is_new)

    def set_failure(self, failure: Ailment) -> None:
        """Take why no GPU can be read any more: none is healthy until they are read again."""
        with self._lock:
            self._failure = failure
            is_new = self._make()
        self._tell(is_new=is_new)

    def set_links(self, found: tuple[Link, ...]) -> None:
        """Take how the GPUs are linked."""
        with self._lock:
            is_new, self._links = self._links != found, found
        self._tell(is_new=is_new)

    def set_profiles(self, found: Profiles) -> None:
        """Take into what GPUs can be partitioned on demand; of others it stays as it was."""
        with self._lock:
            self._profiles = {**(self._profiles or {}), **found}
            is_new = self._make()
        self._tell(is_new=is_new)

    def set_labels(self, labels: Mapping[str, str]) -> None:
        """Take the labels of the node."""
        if self._keeper.set_labels(labels):
            self._remake()

    def look(self) -> Offer | None:
        """Return the offer, after a look at the file of the node configuration."""
        if self._keeper.look():
            self._remake()
        return self._offer

    def offer(self) -> Offer | None:
        """Return what the node offers; `None` while GPUs or configuration are not known."""
        return self._offer

    def config(self) -> EffectiveConfig | None:
        """Return the configuration; `None` while it is not known."""
        return self._keeper.current()

    def files(self) -> tuple[FileState, ...]:
        """Return which file the configuration is from, if any."""
        return self._keeper.files()

    def findings(self) -> tuple[Refusal, ...]:
        """Return what is wrong with the configuration as it is now."""
        return self._keeper.findings()

    def scores(self) -> PairScores | None:
        """Return the points of pairs of cards; `None` while the links are not known."""
        with self._lock:
            if self._links is None or self._offer is None:
                return None
            return links.scores(self._offer, self._links)

    def problems(self) -> tuple[Refusal, ...]:
        """Return what an administrator should know, for events on the Node."""
        with self._lock:
            return (*self._keeper.findings(), *self._of_cards())

    def _remake(self) -> None:
        with self._lock:
            self._make()
        # What of the configuration is not in the offer may have changed as well.
        self._changed()

    def _make(self) -> bool:
        """Make the offer anew; tell whether it is another one."""
        config = self._keeper.current()
        if self._inventory is None or config is None:
            return False
        known = Known(seen=self._seen, profiles=self._profiles)
        found = offering.offer(self._inventory, config, known)
        if self._failure is not None:
            found = offering.out_of_order(found)
        before, self._offer = self._offer, found
        if found == before:
            return False
        for each in found.withheld:
            if before is None or each not in before.withheld:
                log.warning("card withheld", uuid=each.uuid, reason=each.reason)
        log.info("offer changed", cards=len(found.cards), withheld=len(found.withheld))
        return True

    def _tell(self, *, is_new: bool) -> None:
        if is_new:
            self._changed()

    def _of_cards(self) -> Iterator[Refusal]:
        config, offer = self._keeper.current(), self._offer
        if self._inventory is None or config is None or offer is None:
            return
        for each in offer.withheld:
            yield Refusal(code="CardWithheld", field="gpu", value=each.uuid, limit=each.reason)
        if offer.withheld and not offer.cards:
            count = f"{len(offer.withheld)} withheld"
            yield Refusal(
                code="NoCardOffered", field="node", value=count, limit="the node offers no card"
            )
        for filtered in offering.unmatched(self._inventory, config):
            yield Refusal(
                code="FilterWithoutCard",
                field=f"{config.sources['filtered']}.filterdevices",
                value=filtered,
                limit="the node has no such GPU",
            )
        for link in self._links or ():
            if link.is_one_sided:
                yield Refusal(
                    code="AsymmetricGPUP2PLink",
                    field="nvlink",
                    value=f"{link.one} {link.other}",
                    limit="only one of the two GPUs has NVLinks to the other that are up",
                    remedy="look at the links with `nvidia-smi nvlink -s`",
                )
