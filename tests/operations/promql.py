"""What a PromQL expression names, as far as our own need it: no strings with brackets in them.

promtool judges the grammar; it does not know which metrics there are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TARGET: Final = frozenset({"job", "instance", "node", "namespace"})
"""What the chart's PodMonitors put on all series."""
OUTSIDE: Final[Mapping[str, frozenset[str]]] = {
    "up": frozenset(),
    "kube_daemonset_status_desired_number_scheduled": frozenset({"daemonset"}),
    "kube_daemonset_status_number_available": frozenset({"daemonset"}),
}
"""Of Prometheus itself and of kube-state-metrics."""

_GROUPING: Final = re.compile(
    r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", re.ASCII
)
_RANGE: Final = re.compile(r"\[[^\]]*\]")
_SELECTOR: Final = re.compile(r"([A-Za-z_:][\w:]*)\s*(\{[^}]*\})?(\s*\()?", re.ASCII)
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)", re.ASCII)
_STRING: Final = re.compile(r'"[^"]*"')
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})
_LEGEND: Final = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)[^}]*\}\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Names:
    """Of one expression."""

    metrics: Mapping[str, frozenset[str]]
    """With the labels that are asked of each."""
    grouped: frozenset[str]
    kept: frozenset[str] | None
    """The labels that `by` leaves; `None` where nothing is summed up."""


def names_in(expression: str) -> Names:
    """Return what *expression* names."""
    groupings = _GROUPING.findall(expression)
    text = _RANGE.sub("", _GROUPING.sub(" ", expression))
    metrics: dict[str, frozenset[str]] = {}
    for name, matchers, called in _SELECTOR.findall(text.replace("$__rate_interval", "5m")):
        if called or name in _WORDS:
            continue
        asked = frozenset(_MATCHER.findall(_STRING.sub('""', matchers)))
        metrics[name] = metrics.get(name, frozenset()) | asked
    by = [_split(labels) for word, labels in groupings if word == "by"]
    return Names(
        metrics=metrics,
        grouped=frozenset[str]().union(*(_split(labels) for _, labels in groupings)),
        kept=frozenset[str]().union(*by) if by else None,
    )


def unknown_in(expression: str, known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the metrics and labels in *expression* that nobody exports."""
    names = names_in(expression)
    found = [name for name in names.metrics if name not in known]
    everywhere = TARGET
    for name, asked in names.metrics.items():
        labels = known.get(name, frozenset())
        everywhere |= labels
        found += [f"{name}{{{label}}}" for label in sorted(asked - labels - TARGET)]
    return [*found, *sorted(names.grouped - everywhere)]


def unknown_words(text: str, expression: str, known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the labels that *text* shows in braces and the result of *expression* lacks."""
    names = names_in(expression)
    labels = TARGET.union(*(known.get(name, frozenset()) for name in names.metrics))
    if names.kept is not None:
        labels = names.kept
    shown = set(_LEGEND.findall(text.replace("{{ $value", "{{ value")))
    return sorted(shown - labels - {"value"})


def _split(labels: str) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in labels.split(","))))
