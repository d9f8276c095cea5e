"""Keeps the node's ResourceSlices as the inventory says, whoever changes what in between.

A reconciler from nothing: it remembers no step, so an interrupted change, a second process during
a rolling update and a slice deleted by hand are all the same to it. Kubelet deletes a driver's
slices 30 s after it lost the connection to it and may do so while the first ones are being
created, so a deletion is repaired at once. At exit the slices stay: kubelet decides about them.

At rest nothing is written or read: the watch's copy is compared every few minutes, and only a
difference leads to a request. The watch shows the slices of other drivers on the node too, for they
may offer the same GPUs. When the watch is opened anew after a break the server is asked if it
keeps sharing, by a dry run; where it does not, GPUs are offered whole.
"""

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from dra.devicehealth import DeviceHealth
from dra.devices import Noted
from dra.filllevel import FillLevels
from dra.layout import build_slices
from dra.offer import Kept, Offered, OfferRules, make_offer
from dra.restraint import Restraint
from dra.sharing import EventSink, SharingProbe, SharingVerdict, decisive_losses
from dra.sharing_state import SharingState
from dra.situation import SituationSource
from dra.slice_diff import fingerprint
from dra.slice_plan import Plan, highest_generation, newest_devices, plan_slices
from dra.slice_writer import Outcome, SliceWriter, slices_of_node
from gpu.model import Inventory
from gpu.names import DRIVER
from kube.backoff import Backoff
from kube.client import Client
from kube.errors import ApiError, ConflictError, KubeError, NotFoundError
from kube.events import Regarding
from kube.objects import JsonObject
from kube.paths import resource_slices
from kube.reflector import Change, Reflector

_ATTEMPTS = 5
_STOP_S = 0.9
_FIRST_LOOK_S = 0.5

log = structlog.get_logger(__name__)


class Publisher:
    """Publishes from a thread of its own; all methods may be called from any."""

    def __init__(  # noqa: PLR0913 - who, where, and what it works with
        self,
        *,
        client: Client,
        node_name: str,
        node_uid: str,
        probe: SharingProbe,
        rules: OfferRules,
        events: EventSink,
        situation: SituationSource | None = None,
        fill: FillLevels | None = None,
        health_changed: Callable[[], None] = lambda: None,
        observe: Callable[[str], None] | None = None,
        resync_s: float = 300.0,
        debounce_s: float = 0.05,
    ) -> None:
        """Prepare; *health_changed* is called when `health` has another answer.

        *fill* is asked how full GPUs are, to publish that too; *observe* is told `create`, `update`
        or `delete` after each write.
        """
        self._node_name, self._node_uid, self._rules = node_name, node_uid, rules
        self._situation = situation or SituationSource()
        self._fill = fill
        self._health_changed = health_changed
        self._resync_s, self._debounce_s = resync_s, debounce_s
        node = Regarding(api_version="v1", kind="Node", name=node_name, uid=node_uid)
        self._sharing = SharingState(probe, events, node)
        self._writer = SliceWriter(client, node_name=node_name, observe=observe)
        self._reflector: Reflector[JsonObject] = Reflector(
            client,
            resource_slices(),
            params=slices_of_node(node_name),
            decode=lambda item: item,
            on_change=self._on_change,
            on_connected=self._on_connected,
            on_renewed=self._on_renewed,
        )
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._lock = threading.Lock()
        self._published: Mapping[str, JsonObject] = {}
        self._offered = Offered(devices=())
        self._unready: str | None = "the GPUs have not been read yet"
        # From here on only for the publisher's thread.
        self._settled_for = ""
        self._last_generation = 0
        self._accepted: dict[str, str] = {}
        self._accepted_by = self._sharing.verdict
        self._restraint = Restraint()
        self._backoff = Backoff()

    def set_inventory(self, inventory: Inventory) -> None:
        """Have *inventory* published soon; cheap."""
        self._situation.set_inventory(inventory)
        self._wake.set()

    def look_again(self) -> None:
        """Have the situation looked at soon; cheap."""
        self._wake.set()

    def claims_changed(self) -> None:
        """Look again if what is published depends on claims."""
        is_awaited = self._fill is not None and self._fill.claims_changed()
        if is_awaited or self._offered.has_gone:
            self._wake.set()

    def start(self) -> None:
        """Begin to watch and to publish."""
        self._reflector.start()
        self._thread.start()

    def stop(self) -> None:
        """End within a second and leave the slices as they are."""
        deadline = time.monotonic() + _STOP_S
        self._stopping.set()
        self._wake.set()
        self._reflector.stop()
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def sharing(self) -> SharingVerdict:
        """Return what is known of the server's support for shares."""
        return self._sharing.verdict

    def published_devices(self) -> Mapping[str, JsonObject]:
        """Return the devices that the server holds, by name."""
        with self._lock:
            return self._published

    def noted(self) -> tuple[Noted, ...]:
        """Return the devices that are not offered, or not for new work, with the reasons."""
        offered = self._offered
        return (*offered.withheld, *offered.tainted)

    def health(self) -> tuple[DeviceHealth, ...]:
        """Return the health of the published devices and of those that claims hold."""
        return self._offered.health

    def ready(self) -> str | None:
        """Return `None` once the slices are on the server as wanted, else what is missing."""
        with self._lock:
            return self._unready

    def _on_change(self, _change: Change[JsonObject]) -> None:
        self._wake.set()

    def _on_renewed(self) -> None:
        self._sharing.mark_renewed()
        self._wake.set()

    def _on_connected(self) -> None:
        self._sharing.mark_stale()
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            wait_s = self._turn()
            if self._wake.wait(wait_s):
                # What comes in a burst, such as a deleted collection, is answered once.
                self._stopping.wait(self._debounce_s)

    def _turn(self) -> float:
        """Do what is needed and return after how many seconds to look again."""
        try:
            wait_s = self._reconcile()
        except KubeError as error:
            asked_s = error.retry_after_s if isinstance(error, ApiError) else None
            wait_s = max(self._backoff.next_s(), asked_s or 0)
            self._set_unready(f"the slices could not be published: {error}")
            log.warning("publishing failed", error=str(error), wait_s=round(wait_s, 1))
        except Exception:
            wait_s = self._backoff.next_s()
            self._set_unready("the slices could not be published: see the log")
            log.exception("publishing failed")
        else:
            self._backoff.reset()
        return wait_s

    def _set_unready(self, reason: str) -> None:
        with self._lock:
            self._unready = reason

    def _reconcile(self) -> float:
        if not self._situation.is_known():
            return self._resync_s
        ask_again_s = self._sharing.ask_if_stale()
        verdict = self._sharing.verdict
        if not self._sharing.is_settled():
            self._set_unready(f"it is not known if the server keeps sharing: {verdict.detail}")
            return ask_again_s or 0.0
        if verdict != self._accepted_by:
            self._accepted_by = verdict
            self._accepted.clear()
        own, foreign = self._look()
        situation = self._situation.look(newest_devices(own), foreign)
        if not situation.is_known:
            return self._resync_s
        kept = Kept(sharing=verdict.kept, taints=verdict.taints_kept)
        offered = make_offer(situation, kept=kept, rules=self._rules)
        devices = offered.devices
        if self._fill is not None:
            devices = self._fill.apply(devices, situation.published)
        desired = build_slices(devices, node_name=self._node_name, node_uid=self._node_uid)
        waits_s = [self._publish(desired, own), ask_again_s]
        self._note(offered)
        if self._fill is not None:
            waits_s.append(self._fill.wait_s())
        return min(each for each in waits_s if each is not None)

    def _look(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return our own slices and those of other drivers on the node."""
        if not self._reflector.wait_synced(_FIRST_LOOK_S):
            return self._writer.read(), []
        seen = list(self._reflector.items().values())
        own = [each for each in seen if each["spec"].get("driver") == DRIVER]
        return own, [each for each in seen if each["spec"].get("driver") != DRIVER]

    def _note(self, offered: Offered) -> None:
        before, self._offered = self._offered, offered
        for each in offered.withheld:
            if each not in before.withheld:
                log.warning("device withheld", uuid=each.uuid, reason=str(each.refusal))
        for each in offered.tainted:
            if each not in before.tainted:
                log.warning("device tainted", uuid=each.uuid, reason=str(each.refusal))
        if offered.health != before.health:
            self._health_changed()

    def _publish(self, desired: tuple[JsonObject, ...], seen: list[JsonObject]) -> float:
        wanted = "\n".join(fingerprint(item["spec"]) for item in desired)
        if self._plan(desired, seen).is_empty():
            return self._settle(wanted, seen)
        clash: KubeError | None = None
        for _ in range(_ATTEMPTS):
            existing = self._writer.read()
            plan = self._plan(desired, existing)
            if plan.is_empty():
                return self._settle(wanted, existing)
            repairs = wanted == self._settled_for
            if repairs and (pause_s := self._restraint.pause_s()):
                self._set_unready("the slices are changed by others again and again")
                log.warning("slices changed by others repeatedly", wait_s=round(pause_s, 1))
                return pause_s
            try:
                outcome = self._writer.carry_out(plan, existing, stopping=self._stopping.is_set)
            except (ConflictError, NotFoundError) as error:
                clash = error
                continue
            if repairs:
                self._restraint.note()
            return self._conclude(wanted, outcome)
        raise clash or ConflictError(409, "Conflict", "the slices keep changing")

    def _plan(self, desired: tuple[JsonObject, ...], existing: list[JsonObject]) -> Plan:
        return plan_slices(
            desired,
            existing,
            last_generation=self._last_generation,
            accepted=self._accepted,
        )

    def _conclude(self, wanted: str, outcome: Outcome | None) -> float:
        if outcome is None:
            return self._resync_s
        if self._sharing.overrule(decisive_losses(outcome.lost)):
            self._set_unready("the server did not keep all that was sent: publishing without it")
            return 0.0
        if outcome.lost:
            log.warning("server dropped fields", fields=outcome.lost)
        self._accepted |= outcome.rewritten
        return self._settle(wanted, outcome.slices)

    def _settle(self, wanted: str, slices: list[JsonObject]) -> float:
        """Note that *slices* are on the server, and that this is all for now."""
        generation = highest_generation(slices)
        self._last_generation = max(self._last_generation, generation)
        self._settled_for = wanted
        with self._lock:
            self._published = newest_devices(slices)
            self._unready = None
        if self._fill is not None:
            self._fill.published()
        return self._resync_s
