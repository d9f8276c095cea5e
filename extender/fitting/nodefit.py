"""One pod on one node: every container in turn, and what comes of it.

As in HAMi v2.10 (`pkg/scheduler/score.go`) an ordinary init container is tried on a fresh copy of
the node and app containers on one copy together. Sidecars stay, and so are tried with the apps;
HAMi v2.10 still takes them for ordinary init containers. Only the devices of the vendors that the
pod names are copied, and none of what hangs on them.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from extender.accounting import Ledger
from extender.fitting import order, wording
from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import ENDLESS, QuotaRoom
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.scoring import EVEN, device_score, node_score, node_sums
from extender.fitting.vendorwalks import walk_of
from extender.model import Ask, DeviceUsage, Misfit, NodeUsage, Placement, Policies
from hami.containers import ContainerKind
from hami.deviceconfig import DeviceConfig
from hami.requests import NVIDIA, ContainerRequest, DeviceRequest

_NEUTRAL_WEIGHT: Final = 10_000
_Usages = dict[str, list[DeviceUsage]]


def fit_node(
    node: NodeUsage,
    ask: Ask,
    config: DeviceConfig,
    policies: Policies,
    room: QuotaRoom,
    *,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Placement | Misfit:
    """Return where the containers of *ask* go on *node*, or why they do not fit.

    *node* stays as it is. *room* is what the namespace may have besides what other pods use; pass
    `ENDLESS` where it has no quota. *clock_ns* is read for vendors that want to know the time.
    """
    if node.blocked is not None:
        return Misfit(node=node.name, reasons={node.blocked: 1}, devices=0)
    fitting = _Fitting(
        node=node, ask=ask, config=config, policies=policies, room=room, clock_ns=clock_ns
    )
    for request in ask.valid.requests:
        misfit = fitting.add(request)
        if misfit:
            return misfit
    return fitting.placement()


@dataclass(slots=True, kw_only=True)
class _Fitting:
    """What was given so far."""

    node: NodeUsage
    ask: Ask
    config: DeviceConfig
    policies: Policies
    room: QuotaRoom
    clock_ns: Callable[[], int]
    stays: _Usages = field(default_factory=dict)
    """The node's devices with what sidecars and apps were given."""
    scenes: dict[str, Scene] = field(default_factory=dict)
    position: int = 0

    def add(self, container: ContainerRequest) -> Misfit | None:
        """Give one container its devices; returns why there are none."""
        ends = container.container.kind is ContainerKind.INIT
        for request in container.devices:
            refused = self._give(request, container, ends=ends)
            if refused:
                return refused
        self.position += 1
        for scene in self.scenes.values():
            scene.taken.extend([()] * (self.position - len(scene.taken)))
        return None

    def placement(self) -> Placement:
        """Return all that was given, with the node's score."""
        annotations: dict[str, str] = {}
        for scene in self.scenes.values():
            annotations |= walk_of(scene.word, scene.vendor).annotations(scene)
        return Placement(
            node=self.node.name,
            score=self._score(),
            slots={word: scene.slots for word, scene in self.scenes.items()},
            mig=tuple(each for scene in self.scenes.values() for each in scene.instances),
            annotations=annotations,
        )

    def _score(self) -> float:
        """Return the node's score, higher where it is better under the policy among nodes."""
        score = node_score(*node_sums(self.node.devices.values()))
        neutral = 0.0
        for scene in self.scenes.values():
            walk = walk_of(scene.word, scene.vendor)
            if walk.is_neutral:
                neutral += _NEUTRAL_WEIGHT * walk.node_score(scene)
            else:
                score += walk.node_score(scene)
        spreads = node_policy(self.ask, self.policies) == "spread"
        return neutral - score if spreads else neutral + score

    def _give(
        self, request: DeviceRequest, container: ContainerRequest, *, ends: bool
    ) -> Misfit | None:
        scene = self._scene(request.word)
        if scene is None:
            return self._misfit(request, Refused(_only(Reason.UNKNOWN_VENDOR), 0))
        usages = self.stays[request.word]
        if ends:
            usages = copies(usages)
        scene.ends = ends
        walk = walk_of(request.word, scene.vendor)(scene, request)
        if request.count > len(usages) and not walk.may_repeat(usages):
            return self._misfit(request, Refused(_only(Reason.TOO_FEW_DEVICES), 0))
        found = walk.fit(self._ordered(usages, scene, container))
        if isinstance(found, Refused):
            return self._misfit(request, found)
        walk.book(found)
        self._note(scene, found, ends=ends)
        return None

    def _ordered(
        self, usages: list[DeviceUsage], scene: Scene, container: ContainerRequest
    ) -> list[DeviceUsage]:
        weights = self.ask.valid.preferences.scoring_weights or EVEN
        scores = [device_score(usage, container.devices, weights) for usage in usages]
        return scene.policy.worst_first(usages, scores)

    def _note(self, scene: Scene, found: list[Pick], *, ends: bool) -> None:
        if scene.room is not ENDLESS:
            scene.ledger.add([pick.given for pick in found], ends=ends)
        scene.taken.append(found)

    def _scene(self, word: str) -> Scene | None:
        scene = self.scenes.get(word)
        if scene:
            return scene
        vendor = next((each for each in self.config.vendors if each.word == word), None)
        if vendor is None and word != NVIDIA:
            return None
        text = order.policy_text(self.ask.annotations, self.policies.gpu_policy)
        numa_bind = self.ask.valid.preferences.numa_bind
        scene = Scene(
            node=self.node,
            ask=self.ask,
            word=word,
            vendor=vendor,
            policy=order.resolved(text, numa_bind=numa_bind),
            node_policy=node_policy(self.ask, self.policies),
            room=self.room,
            clock_ns=self.clock_ns,
            ledger=Ledger(word),
            taken=[()] * self.position,
        )
        self.scenes[word] = scene
        self.stays[word] = copies(self.node.devices.get(word, ()))
        return scene

    def _misfit(self, request: DeviceRequest, refused: Refused) -> Misfit:
        return Misfit(
            node=self.node.name,
            reasons=dict(refused.tally),
            devices=refused.devices,
            need=wording.need(request),
            have=wording.have(self.stays.get(request.word, ())),
        )


def node_policy(ask: Ask, policies: Policies) -> str:
    """Return the policy among nodes that is in force."""
    return ask.valid.preferences.node_policy or policies.node_policy


def _only(reason: Reason) -> Tally:
    return Tally({str(reason): 1})


def copies(usages: Iterable[DeviceUsage]) -> list[DeviceUsage]:
    """Return *usages* to be counted on; what hangs on them is shared and only ever replaced."""
    return [
        DeviceUsage(
            device=usage.device,
            used_slots=usage.used_slots,
            used_mib=usage.used_mib,
            used_cores=usage.used_cores,
            mig=usage.mig,
            pods=usage.pods,
        )
        for usage in usages
    ]
