"""Why nodes and devices refuse a legacy pod, by HAMi's tokens and with the amounts behind them.

A node's verdict is that of the extender's fit. To tell it device by device, the request that fails
is asked again for one device on a node that has no other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cli.explain.legacycase import LegacyCase, is_unregistered, narrowed
from cli.explain.legacywords import FITS_ALONE, amounts, asked_and_free, token_code
from extender import accounting
from extender.fitting.nodefit import copies
from extender.fitting.reasons import Reason
from extender.model import Ask, DeviceUsage, Misfit, NodeUsage, Placement
from extender.state.given import booking_of
from extender.state.places import Held
from gpu.refusal import Refusal
from hami.containers import ContainerKind
from hami.quota import cost_of, quota_names
from hami.requests import ContainerRequest, DeviceRequest
from sim.explain.model import DeviceReason, Holder, NodeReason
from sim.explain.nodereasons import CANNOT_ALLOCATE, node_refusal

_HELD: Final = frozenset(
    {
        Reason.TOO_LITTLE_MEMORY,
        Reason.TOO_FEW_CORES,
        Reason.CORES_EXHAUSTED,
        Reason.SLOTS_EXHAUSTED,
        Reason.EXCLUSIVE,
        Reason.MIG_PLACEMENT,
    }
)
"""Those that pass when somebody ends."""


class Failing(NamedTuple):
    """The first request that finds no devices, and the node as it finds it."""

    container: ContainerRequest
    request: DeviceRequest
    usage: NodeUsage


def node_reason(case: LegacyCase, node: str) -> NodeReason | None:
    """Return why a node does not take the pod, or nothing where it does."""
    barred = case.barred(node)
    if barred:
        return NodeReason(node=node, refusal=node_refusal(barred))
    refusal = case.refusal(node)
    if refusal:
        return NodeReason(node=node, refusal=_closed(case, node, refusal))
    found = case.fit(node)
    if not isinstance(found, Misfit):
        return None
    if not found.devices:
        return NodeReason(node=node, refusal=_too_few(found))
    refused = Refusal(
        code=CANNOT_ALLOCATE,
        field="metadata.annotations",
        value=str(found),
        limit=f"asked {found.need}; {found.have}",
    )
    return NodeReason(node=node, refusal=refused, devices=tuple(_devices(case, node)))


def quota_reasons(case: LegacyCase, misfits: Sequence[NodeReason]) -> Iterator[Refusal]:
    """Yield what the namespace has too little of, where a node says that it has."""
    codes = {device.refusal.code for reason in misfits for device in reason.devices}
    if Reason.QUOTA not in codes and not any(
        Reason.QUOTA in reason.refusal.value for reason in misfits
    ):
        return
    names = quota_names(case.config.nvidia, case.config.vendors)
    cost = cost_of(case.ask.valid.requests, names)
    room = case.cluster.room(case.ask.namespace)
    for each in names:
        unit = ("MiB", "cores")
        for name, left, what in zip(
            (each.memory, each.cores), room.left(each.word), unit, strict=True
        ):
            if left is None or not cost.asks(name):
                continue
            asked = cost.amounts.get(name)
            if asked is None or asked > left:
                yield Refusal(
                    code=str(Reason.QUOTA),
                    field=f"resourcequotas: spec.hard[limits.{name}]",
                    value=f"{name}: asked {'a part' if asked is None else asked} {what}",
                    limit=f"left {max(left, 0)} {what} in namespace {case.ask.namespace}",
                    remedy="raise the quota, or wait until other pods of the namespace end",
                )


def failing(case: LegacyCase, usage: NodeUsage) -> Failing | None:
    """Return the first request of the pod that finds no devices on a node."""
    requests = case.ask.valid.requests
    for index, container in enumerate(requests):
        for number, request in enumerate(container.devices, 1):
            cut = replace(container, devices=container.devices[:number])
            tried = _asking(case.ask, (*requests[:index], cut))
            if isinstance(case.fit_on(usage, tried), Misfit):
                return Failing(container, request, _after(case, usage, requests[:index]))
    return None


def _after(case: LegacyCase, usage: NodeUsage, requests: Sequence[ContainerRequest]) -> NodeUsage:
    """Return a copy of *usage* with what those of *requests* have that stay."""
    stays = tuple(
        replace(each, devices=()) if each.container.kind is ContainerKind.INIT else each
        for each in requests
    )
    if not any(each.devices for each in stays):
        return usage
    ask = _asking(case.ask, stays)
    placed = case.fit_on(usage, ask)
    if not isinstance(placed, Placement):
        return usage
    after = replace(
        usage, devices={word: _own(copies(found)) for word, found in usage.devices.items()}
    )
    accounting.apply(after, booking_of(f"{ask.uid}/before", ask, placed))
    return after


def _own(usages: list[DeviceUsage]) -> list[DeviceUsage]:
    return [replace(each, mig=list(each.mig), pods=dict(each.pods)) for each in usages]


def _asking(ask: Ask, requests: tuple[ContainerRequest, ...]) -> Ask:
    return narrowed(ask, replace(ask.valid, requests=requests))


def _closed(case: LegacyCase, node: str, refusal: str) -> Refusal:
    field = f"node/{node}: metadata.annotations"
    if is_unregistered(refusal):
        return Refusal(
            code="NodeUnregistered",
            field=field,
            value="",
            remedy="run the vendor's device plugin of HAMi on the node",
        )
    if case.place(node).problem == refusal:
        return Refusal(code="RegistrationUnusable", field=field, value=refusal)
    return Refusal(
        code="NodeClosed",
        field=field,
        value=refusal,
        remedy="delete that pod: nobody can tell which devices are free beside it",
    )


def _too_few(found: Misfit) -> Refusal:
    token = next(iter(found.reasons))
    return Refusal(
        code=token_code(token),
        field="spec.containers.resources",
        value=f"asked {found.need}",
        limit=f"there are {found.have}",
    )


def _devices(case: LegacyCase, node: str) -> Iterator[DeviceReason]:
    place = case.place(node)
    found = None if place.usage is None else failing(case, place.usage)
    if found is None:
        return
    for usage in found.usage.devices.get(found.request.word, ()):
        token = _token(case, found, usage)
        yield DeviceReason(
            claim="",
            request=found.container.container.name,
            driver=found.request.word,
            pool=node,
            device=usage.device.uuid,
            refusal=Refusal(
                code=token_code(token),
                field=f"node/{node}: {usage.device.uuid}",
                **asked_and_free(token, found.request, usage, case.ask.annotations)._asdict(),
            ),
            holders=tuple(_holders(tuple(place.held.values()), token, usage)),
        )


def _token(case: LegacyCase, found: Failing, usage: DeviceUsage) -> str:
    """Return why one device is refused, be it the only one and the only one that is asked for."""
    word = found.request.word
    alone = replace(found.usage, devices={word: [usage]})
    one = replace(found.request, count=1)
    ask = _asking(case.ask, (replace(found.container, devices=(one,)),))
    said = case.fit_on(alone, ask)
    return next(iter(said.reasons), "") if isinstance(said, Misfit) else FITS_ALONE


def _holders(held: Sequence[Held], token: str, usage: DeviceUsage) -> Iterator[Holder]:
    if token not in _HELD:
        return
    device = usage.device
    found = (
        (each, each.booking.uses.get(device.word, {}).get(device.uuid))
        for each in held
        if each.booking is not None
    )
    uses = [(each, use) for each, use in found if use is not None]
    order = {Reason.TOO_FEW_CORES: 1, Reason.CORES_EXHAUSTED: 1}.get(Reason(token), 0)
    uses.sort(key=lambda it: (it[1].memory_mib, it[1].cores)[order], reverse=True)
    for each, use in uses:
        yield Holder(claim="", pods=(each.pod,), amount=amounts(use, device.word))
