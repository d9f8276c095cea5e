"""Devices that are nearer to one another than to the rest: networks, cards of dies, link zones."""

from collections.abc import Callable, Hashable, Iterable, Sequence

from extender.fitting.scene import Pick

_GroupOf = Callable[[Pick], Hashable]


def grouped(picks: Iterable[Pick], group_of: _GroupOf) -> dict[Hashable, list[Pick]]:
    """Return *picks* by group, groups in the order of their first device."""
    groups: dict[Hashable, list[Pick]] = {}
    for pick in picks:
        groups.setdefault(group_of(pick), []).append(pick)
    return groups


def largest_first(picks: Iterable[Pick], group_of: _GroupOf) -> list[Pick]:
    """Return *picks* with those of larger groups first; those of no group, `None`, come last."""
    groups = grouped(picks, group_of)
    order = sorted(groups, key=lambda group: (group is None, -len(groups[group])))
    return [pick for group in order for pick in groups[group]]


def share_of_largest(picks: Sequence[Pick], group_of: _GroupOf) -> float:
    """Return which part of *picks* is in one group."""
    return max(map(len, grouped(picks, group_of).values())) / len(picks)
