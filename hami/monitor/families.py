"""Metric families with fixed labels.

Labels name what a value is about and never hold what changes: each new text of a label is a new
series for ever. So every family is made here, with labels that are written down where it is made,
and a value that is not known is not added: 0 would say that it is known.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily


class Families:
    """Gauges by name, in the order in which they were declared."""

    def __init__(self, constant: Iterable[tuple[str, str]] = ()) -> None:
        """Prepare; *constant* labels are on all of them."""
        pairs = tuple(constant)
        self._names = [name for name, _ in pairs]
        self._values = [value for _, value in pairs]
        self._families: dict[str, GaugeMetricFamily] = {}

    def declare(self, name: str, text: str, labels: Iterable[str] = ()) -> None:
        """Have a gauge *name* with these labels."""
        self._families[name] = GaugeMetricFamily(name, text, labels=[*self._names, *labels])

    def add(self, name: str, labels: Iterable[str], value: float | None) -> None:
        """Add a value, unless it is not known."""
        if value is not None:
            self._families[name].add_metric([*self._values, *labels], value)

    def __iter__(self) -> Iterator[GaugeMetricFamily]:
        return iter(self._families.values())
