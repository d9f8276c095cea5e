"""Answers of selectors, remembered by what a selector reads of a device.

Thousands of devices differ only in their UUIDs and addresses, which few selectors look at. An
expression that reads attributes only as `device.attributes["domain"].name` has one answer for all
devices with equal values there; for any other expression every device is asked by itself.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple

from sim.scheduler import cel
from sim.scheduler.devices import Device
from sim.scheduler.errors import CelError

_DEVICE = re.compile(r"\bdevice\b")
_READ = re.compile(
    r"""\bdevice\.(?:driver\b|allowMultipleAllocations\b|"""
    r"""(?P<kind>attributes|capacity)\[(?P<quote>["'])(?P<domain>[^"'\\]*+)(?P=quote)\]"""
    r"""\.(?P<name>[A-Za-z_]\w*+)(?!\s*\())"""
)
_PLAIN = frozenset({"bool", "int", "string", "version"})


class Read(NamedTuple):
    """What an expression reads: fully qualified names."""

    attributes: tuple[str, ...]
    capacity: tuple[str, ...]


@lru_cache(maxsize=1024)
def read_by(expression: str) -> Read | None:
    """Return all that *expression* can read, or nothing when that cannot be told."""
    found = list(_READ.finditer(expression))
    if len(found) != len(_DEVICE.findall(expression)):
        return None
    names: dict[str, list[str]] = {"attributes": [], "capacity": []}
    for match in found:
        if match["kind"]:
            names[match["kind"]].append(f"{match['domain']}/{match['name']}")
    return Read(tuple(names["attributes"]), tuple(names["capacity"]))


class Answers:
    """Stands for `sim.scheduler.cel.matches` and asks it once for devices that look the same."""

    def __init__(self, matches: Callable[[str, Device], bool] = cel.matches) -> None:
        self.asked = 0
        self._matches = matches
        self._known: dict[Hashable, bool | CelError] = {}

    def matches(self, expression: str, device: Device) -> bool:
        """Tell whether *device* satisfies *expression*; raises `CelError`."""
        key = (expression, _looks(expression, device))
        if key not in self._known:
            self._known[key] = self._ask(expression, device)
        answer = self._known[key]
        if isinstance(answer, CelError):
            raise answer
        return answer

    def _ask(self, expression: str, device: Device) -> bool | CelError:
        self.asked += 1
        try:
            return self._matches(expression, device)
        except CelError as error:
            return error


def _looks(expression: str, device: Device) -> Hashable:
    read = read_by(expression)
    kinds = {attribute.kind for attribute in device.attributes.values()}
    if read is None or not kinds <= _PLAIN:
        return device
    return (
        device.id.driver,
        device.shareable,
        tuple(_values(device, device.attributes, name) for name in read.attributes),
        tuple(_values(device, device.capacity, name) for name in read.capacity),
    )


def _values(device: Device, mapping: Mapping[str, Hashable], name: str) -> Hashable:
    """Return what stands under *name*, with or without its domain."""
    domain, _, bare = name.partition("/")
    full = mapping.get(name)
    own = mapping.get(bare) if domain == device.id.driver else None
    # Which of two counts is their order's business.
    return device if full is not None and own is not None else (full, own)
