"""Wait for a claim that holds what is missing, or delete it if no pod uses it."""

from collections.abc import Iterator
from typing import NamedTuple

from kube.objects import JsonObject, ObjectKey, key_of
from kube.quantity import Quantity
from sim.explain.case import Case
from sim.explain.changes.capacity import lacking, shortages_of
from sim.explain.changes.proposal import Proposal, claim_edit
from sim.explain.devicereasons import holders_of
from sim.explain.holding import Held
from sim.explain.model import Change
from sim.explain.shortages import Shortage
from sim.scheduler.devices import DeviceId
from sim.scheduler.placement import OTHER_NODE, Unplaced

_RANK_UNUSED = 12
_RANK_USED = 48
_PROPOSED_MAX = 24
_LOOKED_AT_MAX = 400
_ZERO = Quantity(0)


class Hold(NamedTuple):
    """What one claim holds of a device that would do without it."""

    held: Held
    node: str
    device: DeviceId
    amount: Quantity
    text: str


def free_claims(case: Case, found: Unplaced) -> Iterator[Proposal]:
    """Propose to free claims: first those that no pod uses, then the small ones."""
    holds = sorted(_holds(case, found), key=lambda it: (bool(it.held.pods), it.amount))
    seen: set[tuple[ObjectKey, str]] = set()
    for hold in holds:
        key = (hold.held.key, hold.node)
        if key not in seen and len(seen) < _PROPOSED_MAX:
            seen.add(key)
            yield _freed(hold)


def release_own(case: Case, found: Unplaced) -> Iterator[Proposal]:
    """Propose that claims of the pod give up devices that it cannot reach."""
    elsewhere = [node for node, text in found.refusals.items() if text == OTHER_NODE]
    for claim in case.claims.allocated if elsewhere else ():
        key = key_of(claim)
        users = [str(it.get("name", "")) for it in claim["status"].get("reservedFor") or ()]
        by = f"pod {', '.join(users[:3])}" if users else "nobody, which kube-scheduler sees to"
        yield Proposal(
            change=Change(
                code="ReleaseClaim",
                field=f"{key}: status.allocation",
                before="",
                after="",
                sentence=f"claim {key} gives up its devices, used by {by}",
                node="",
            ),
            rank=_RANK_USED if users else _RANK_UNUSED,
            edit=claim_edit(key, _without_allocation),
            nodes=tuple(elsewhere[:_PROPOSED_MAX]),
            frees=True,
        )


def _holds(case: Case, found: Unplaced) -> Iterator[Hold]:
    for lack in lacking(case, found):
        device = lack.device.id
        if lack.verdict.refused.code.endswith("NotAllowed"):
            continue
        short = shortages_of(case, lack)
        for held in holders_of(case, lack.verdict.refused.code, device):
            if all(_suffices(held, it) for it in short):
                first = short[0].name if short else ""
                amount = held.amount(first) if first else _ZERO
                text = f"{amount} {first}" if first else ""
                yield Hold(held, lack.verdict.node, device, amount, text)
    exclusive = (it for it in found.verdicts if it.refused.code == "DeviceInUse" and it.device)
    for position, verdict in enumerate(exclusive):
        if verdict.device is None or position >= _LOOKED_AT_MAX:
            return
        for held in case.holdings.of(verdict.device):
            yield Hold(held, verdict.node, verdict.device, _ZERO, "")


def _suffices(held: Held, short: Shortage) -> bool:
    return short.takes is not None and short.free + held.amount(short.name) >= short.takes


def _freed(hold: Hold) -> Proposal:
    held, pods = hold.held, hold.held.pods
    what = f"{hold.text} of " if hold.text else ""
    where = f"{what}{hold.device.pool}/{hold.device.device}"
    if pods:
        users = f"pod {pods[0]}" if len(pods) == 1 else f"{len(pods)} pods"
        sentence = f"claim {held.key} ({users}) ends, which holds {where}"
    else:
        sentence = f"claim {held.key} is deleted, which no pod uses and which holds {where}"
    return Proposal(
        change=Change(
            code="WaitForClaim" if pods else "DeleteUnusedClaim",
            field=f"{held.key}: status.allocation",
            before=where,
            after="",
            sentence=sentence,
            node="",
        ),
        rank=_RANK_USED if pods else _RANK_UNUSED,
        edit=claim_edit(held.key, _without_allocation),
        nodes=(hold.node,),
        frees=True,
    )


def _without_allocation(claim: JsonObject) -> None:
    claim["status"] = {}
