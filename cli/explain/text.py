"""An explanation in one screen: equal reasons share a line, the best nodes are shown in full.

Lines are pairs of a style and a text, so that a terminal and a file get the same words.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from cli.explain.deciders import Decider
from gpu.refusal import Refusal
from sim.explain.model import (
    Asked,
    Change,
    DeviceReason,
    Explanation,
    Given,
    Holder,
    NodeReason,
    Verdict,
)
from sim.explain.nodereasons import CANNOT_ALLOCATE

_GROUPS_MAX = 8
_NODES_SHOWN = 2
_DEVICE_LINES_MAX = 8
_NAMES_MAX = 3
_HOLDERS_MAX = 3
_TEXT_MAX = 110
_NEARNESS = (
    *("", "DeviceOfOtherNode", "SelectorFalse", "DeviceInUse", "CounterInsufficient"),
    *("CardNotHealth", "CardCordoned", "CardTypeMismatch", "CardUuidMismatch"),
)
"""Rules in the order in which they are looked at: who fails late is near."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Line(NamedTuple):
    """One line of output; *style* is a word for a terminal, empty for plain text."""

    text: str
    style: str = ""


def lines_of(said: Explanation, decided_by: Decider = Decider.CLAIMS) -> list[Line]:
    """Write *said* for a person."""
    claims = decided_by is Decider.CLAIMS
    rules = f"Kubernetes {said.release}" if claims else "HAMi's annotation protocol"
    lines = [Line(f"{said.message} (rules of {rules})", _style(said))]
    lines += [Line(f"  note: {note}", "dim") for note in said.notes]
    if said.scheduler_says:
        lines.append(Line(f"  kube-scheduler says: {_cut(said.scheduler_says)}", "dim"))
    lines += [Line(f"  asked: {_asked(it)}") for it in said.asked[:_GROUPS_MAX]]
    lines += [Line(f"  gets: {_given(it)}") for it in said.given[:_DEVICE_LINES_MAX]]
    lines += _more(len(said.given) - _DEVICE_LINES_MAX)
    lines += [Line(f"  {_reason(it)}") for it in said.reasons]
    if said.nodes:
        lines += _nodes(said)
    if said.verdict is Verdict.PENDING and not said.node and (claims or said.nodes or said.changes):
        lines += _changes(said)
    return lines


def _style(said: Explanation) -> str:
    return "bold red" if said.verdict is Verdict.PENDING else "bold green"


def _asked(asked: Asked) -> str:
    number = "all devices" if asked.count is None else f"{asked.count} device" + _s(asked.count)
    capacity = "".join(f", {name} {amount}" for name, amount in asked.capacity.items())
    admin = ", with admin access" if asked.admin_access else ""
    return (
        f"{_whose(asked)}: {number} of {'class' if asked.claim else 'type'} "
        f"{asked.device_class}{capacity}{admin}"
    )


def _given(given: Given) -> str:
    consumed = "".join(f", {name} {amount}" for name, amount in given.consumed.items())
    return f"{_whose(given)}: {given.driver}/{given.pool}/{given.device}{consumed}"


def _whose(part: Asked | Given) -> str:
    """Name the request of a claim, or the container that asks without one."""
    if part.claim:
        return f"claim {part.claim} request {part.request}"
    return f"container {part.request}"


def _nodes(said: Explanation) -> Iterator[Line]:
    yield Line("")
    yield Line(f"nodes ({len(said.nodes)} of {said.nodes_total} refuse)", "bold")
    groups = sorted(
        _grouped(said.nodes, _signature).items(), key=lambda it: _nearness(it[1][0]), reverse=True
    )
    for (text, _), nodes in groups[:_GROUPS_MAX]:
        yield Line(f"  {_names([node.node for node in nodes], 'nodes')}: {text}")
    left_out = groups[_GROUPS_MAX:]
    if left_out:
        yield Line(f"  {sum(len(nodes) for _, nodes in left_out)} more nodes, otherwise")
    for node in _nearest(said)[:_NODES_SHOWN]:
        yield from _devices(node, several=_several_requests(said))


def _nearest(said: Explanation) -> list[NodeReason]:
    """Return the nodes with devices: first those where a change helps, then the nearest."""
    helped = {change.node for change in said.changes}
    shown = (node for node in said.nodes if node.devices)
    return sorted(shown, key=lambda it: (it.node in helped, *_nearness(it)), reverse=True)


def _signature(node: NodeReason) -> tuple[str, int]:
    """Return what stands against *node* without the numbers of its devices."""
    if node.refusal.code != CANNOT_ALLOCATE:
        return _reason(node.refusal), 0
    devices = _distinct_devices(node.devices)
    counted = Counter(it.refusal.code for it in devices if it.device)
    parts = [f"{code} on {number} device{_s(number)}" for code, number in counted.items()]
    parts += dict.fromkeys(_reason(it.refusal) for it in devices if not it.device)
    return "; ".join(parts) or node.refusal.value or "no devices", len(devices)


def _distinct_devices(devices: Sequence[DeviceReason]) -> list[DeviceReason]:
    return list({(it.request, it.pool, it.device): it for it in devices}.values())


def _nearness(node: NodeReason) -> tuple[int, int]:
    """Tell how near *node* is to serve: by its best device, then by how many are as good."""
    if node.refusal.code != CANNOT_ALLOCATE:
        return (-1, 0)
    stages = [_stage(it) for it in node.devices]
    best = max(stages, default=0)
    return best, stages.count(best)


def _stage(reason: DeviceReason) -> int:
    if not reason.device:
        return 0
    code = reason.refusal.code
    return _NEARNESS.index(code) if code in _NEARNESS else len(_NEARNESS)


def _devices(node: NodeReason, *, several: bool) -> Iterator[Line]:
    yield Line("")
    yield Line(f"devices of {node.node}", "bold")
    groups = _grouped(node.devices, lambda it: _device_text(it, several=several))
    for text, devices in list(groups.items())[:_DEVICE_LINES_MAX]:
        names = [it.device or it.pool or "no device" for it in devices]
        yield Line(f"  {_names(names, 'devices')}: {text}")
    yield from _more(len(groups) - _DEVICE_LINES_MAX)


def _device_text(reason: DeviceReason, *, several: bool) -> str:
    request = f"request {reason.request}: " if several and reason.request else ""
    held = _held(reason.holders)
    return f"{request}{_reason(reason.refusal)}" + (f"; held by {held}" if held else "")


def _held(holders: Sequence[Holder]) -> str:
    shown = ", ".join(_holder(it) for it in holders[:_HOLDERS_MAX])
    more = len(holders) - _HOLDERS_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _holder(holder: Holder) -> str:
    pods = f"pod {', '.join(holder.pods[:_NAMES_MAX])}" if holder.pods else "no pod"
    who = f"{holder.claim} ({pods})" if holder.claim else pods
    return who + (f" {holder.amount}" if holder.amount else "")


def _reason(refusal: Refusal) -> str:
    """Write *refusal*; its field only where the value does not speak for itself."""
    said = [_cut(part) for part in (refusal.value, refusal.limit) if part]
    where = f" ({refusal.field})" if refusal.code.startswith("Selector") else ""
    return f"{refusal.code}{where}: {'; '.join(said)}" if said else f"{refusal.code}{where}"


def _changes(said: Explanation) -> Iterator[Line]:
    yield Line("")
    if not said.changes:
        yield Line("no single change was found with which it fits", "bold")
        return
    first, *others = said.changes
    yield Line("smallest change with which it fits", "bold")
    yield Line(f"  {_change(first)}", "green")
    for change in others:
        yield Line(f"  or: {_change(change)}", "green")


def _change(change: Change) -> str:
    where = f" [on {change.node}]" if change.node else ""
    return f"{change.sentence}{where}"


def _several_requests(said: Explanation) -> bool:
    return len(said.asked) > 1


def _names(names: Sequence[str], what: str) -> str:
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= _NAMES_MAX:
        return ", ".join(distinct)
    return f"{len(distinct)} {what} ({', '.join(distinct[: _NAMES_MAX - 1])}, ...)"


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _more(number: int) -> list[Line]:
    return [Line(f"  and {number} more")] if number > 0 else []


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_MAX else line[: _TEXT_MAX - 3] + "..."


def _s(number: int) -> str:
    return "" if number == 1 else "s"
