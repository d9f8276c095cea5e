"""Reads the node configuration of HAMi's device plugin, and says all that is wrong with it at once.

HAMi's own reader skips what it does not know, so a misspelt key does nothing and nobody learns of
it. Here a file with a mistake is refused as a whole. As for HAMi a key may be in any case and
`null` is absent; a number may be a text too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final

from gpu.refusal import Refusal
from hami.amounts import MEMORY_LIMIT_MIB
from hami.nodeconfig import (
    LOG_LEVEL_MAX,
    SCALING_MAX,
    SCALING_MIN,
    SPLIT_MAX,
    Entry,
    Filter,
    MigStrategy,
    NodeConfigError,
    NodeConfigFile,
    OperatingMode,
)
from hami.wording import shown

_ROOT: Final = "nodeconfig"
_INDEX_MAX: Final = 1023
_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_NODE: Final = re.compile(r"[a-z0-9.*?\[\]!-]{1,253}", re.ASCII)
_UUID: Final = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of JSON with its keys as they stand there, also those that are there twice."""

    pairs: tuple[tuple[str, Any], ...]


class _WrongError(ValueError):
    """Why a value cannot be taken: a code, what it must be, and maybe what to do."""

    def __init__(self, code: str, limit: str, remedy: str = "") -> None:
        super().__init__(code, limit, remedy)
        self.code, self.limit, self.remedy = code, limit, remedy


@dataclass(slots=True)
class _Findings:
    """What was found wrong so far."""

    found: list[Refusal] = field(default_factory=list)

    def add(self, where: str, value: Any, wrong: _WrongError) -> None:
        self.found.append(
            Refusal(
                code=wrong.code,
                field=where,
                value=shown(_plain(value)),
                limit=wrong.limit,
                remedy=wrong.remedy,
            )
        )

    def read(self, where: str, value: Any, reader: Callable[[Any], Any]) -> Any:
        """Return what *reader* makes of *value*, `None` where that is nothing."""
        try:
            return reader(value)
        except _WrongError as wrong:
            self.add(where, value, wrong)
            return None


def parse(text: str, *, source: str = "inline", serves_dra: bool = False) -> NodeConfigFile:
    """Return what *text* says; raises `NodeConfigError` with everything that is wrong with it.

    Where the node *serves_dra* its capacity is what it has, and cannot be scaled.
    """
    findings = _Findings()
    try:
        entries = tuple(_entries(_loaded(text), findings, serves_dra=serves_dra))
    except RecursionError as error:
        raise _unusable(text, "is nested too deep") from error
    _find_twins(entries, findings)
    if findings.found:
        raise NodeConfigError(tuple(findings.found))
    return NodeConfigFile(entries=entries, source=source)


def _entries(document: Any, findings: _Findings, *, serves_dra: bool) -> Iterator[Entry]:
    root = dict(_members(document, "the document", {_ROOT}, findings))
    said = root.get(_ROOT, [])
    if not isinstance(said, list):
        findings.add(_ROOT, said, _WrongError("NoArray", "must be an array of entries"))
        said = []
    for position, raw in enumerate(said):
        yield _entry(raw, position, findings, serves_dra=serves_dra)


def _entry(raw: Any, position: int, findings: _Findings, *, serves_dra: bool) -> Entry:
    where = f"{_ROOT}[{position}]"
    values: dict[str, Any] = {}
    name, labels = "", dict[str, str]()
    known = {*_READERS, "name", "nodeselector", "filterdevices"}
    members = dict(_members(raw, where, known, findings))
    for key, value in members.items():
        place = f"{where}.{_SPELT.get(key, key)}"
        if key == "name":
            name = findings.read(place, value, _node_name) or ""
        elif key == "nodeselector":
            labels = _labels(value, place, findings)
        elif key == "filterdevices":
            values["filtered"] = _filter(value, place, findings)
        else:
            target, reader = _READERS[key]
            found = findings.read(place, value, reader)
            if serves_dra and key in _SCALINGS and found not in {None, Decimal(1)}:
                limit = "scaling is only for nodes that serve the scheduler extender"
                findings.add(place, value, _WrongError("ScalingNotServed", limit, "remove it"))
            values[target] = found
    if isinstance(raw, _Object) and ("name" in members) == ("nodeselector" in members):
        limit = "an entry has either a name or a nodeSelector"
        findings.add(where, name, _WrongError("OneTarget", limit))
    return Entry(position=position, name=name, labels=labels, values=values)


def _members(
    raw: Any, where: str, known: Iterable[str], findings: _Findings
) -> Iterator[tuple[str, Any]]:
    """Yield the known members of an object by their key in lower case; null is absent."""
    if not isinstance(raw, _Object):
        findings.add(where, raw, _WrongError("NoObject", "must be an object"))
        return
    names, seen = sorted(known), set[str]()
    prefix = "" if where == "the document" else f"{where}."
    for spelt, value in raw.pairs:
        key = spelt.lower()
        if key not in names:
            near = get_close_matches(key, names, n=1)
            remedy = f"did you mean {_SPELT.get(near[0], near[0])}?" if near else ""
            wrong = _WrongError("UnknownKey", "unknown key", remedy)
            findings.add(f"{prefix}{shown(spelt)}", value, wrong)
        elif key in seen:
            wrong = _WrongError("DuplicateKey", "the key is there twice")
            findings.add(f"{prefix}{shown(spelt)}", value, wrong)
        elif value is not None:
            yield key, value
        seen.add(key)


def _filter(raw: Any, where: str, findings: _Findings) -> Filter:
    members = dict(_members(raw, where, {"uuid", "index"}, findings))

    def listed(key: str, reader: Callable[[Any], Any]) -> tuple[Any, ...]:
        said = members.get(key, [])
        if not isinstance(said, list):
            findings.add(f"{where}.{key}", said, _WrongError("NoArray", "must be an array"))
            return ()
        read = [findings.read(f"{where}.{key}[{at}]", each, reader) for at, each in enumerate(said)]
        return tuple(sorted({each for each in read if each is not None}))

    return Filter(uuids=listed("uuid", _uuid), indexes=listed("index", _integer(0, _INDEX_MAX)))


def _labels(raw: Any, where: str, findings: _Findings) -> dict[str, str]:
    pairs = raw.pairs if isinstance(raw, _Object) else ()
    if not pairs:
        wrong = _WrongError("NoLabels", "must be an object of at least one label")
        findings.add(where, raw, wrong)
    found = dict[str, str]()
    for key, value in pairs:
        if not isinstance(value, str):
            wrong = _WrongError("NoLabel", "must be the text of a label", "put it in quotes")
            findings.add(f"{where}.{shown(key)}", value, wrong)
        else:
            found[key] = value
    return found


def _find_twins(entries: Iterable[Entry], findings: _Findings) -> None:
    first = dict[str, int]()
    for entry in entries:
        if not entry.name and not entry.labels:
            continue
        before = first.setdefault(entry.target, entry.position)
        if before != entry.position:
            wrong = _WrongError(
                "DuplicateEntry",
                f"nodeconfig[{before}] is for the same nodes",
                "one entry counts for a node: put all in one",
            )
            key = "nodeSelector" if entry.labels else "name"
            value = dict(entry.labels) if entry.labels else entry.name
            findings.add(f"{_ROOT}[{entry.position}].{key}", value, wrong)


def _loaded(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=lambda pairs: _Object(tuple(pairs)),
            parse_float=Decimal,
            parse_constant=_constant,
        )
    except (ValueError, ArithmeticError) as error:
        raise _unusable(text, f"no JSON: {shown(str(error))}") from error


def _constant(name: str) -> Any:
    message = f"{name} is no number"
    raise ValueError(message)


def _unusable(text: str, limit: str) -> NodeConfigError:
    refusal = Refusal(code="NoJson", field="the document", value=shown(text), limit=limit)
    return NodeConfigError((refusal,))


def _node_name(value: Any) -> str:
    if not isinstance(value, str) or not _NODE.fullmatch(value):
        raise _WrongError("NoNodeName", "must be the name of a node, or a pattern of such names")
    return value


def _uuid(value: Any) -> str:
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise _WrongError("NoUuid", "must be a text that begins with GPU- or MIG-")
    return value


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = value
        if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
            number = int(value.strip())
        if type(number) is not int or not low <= number <= high:
            raise _WrongError("OutOfRange", f"must be a whole number {low}..{high}")
        return number

    return read


def _scaling(value: Any) -> Decimal:
    text = str(value).strip() if isinstance(value, str | int | Decimal) else ""
    number = Decimal(text) if _NUMBER.fullmatch(text) else Decimal(0)
    if not SCALING_MIN <= number <= SCALING_MAX:
        raise _WrongError("OutOfRange", f"must be a number {SCALING_MIN}..{SCALING_MAX}")
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("NoFlag", "must be true or false, without quotes")
    return value


def _word(kind: type[OperatingMode] | type[MigStrategy]) -> Callable[[Any], Any]:
    words = [each.value for each in kind]

    def read(value: Any) -> Any:
        if value in words:
            return kind(value)
        near = get_close_matches(value, words, n=1) if isinstance(value, str) else []
        remedy = f"did you mean {near[0]}?" if near else ""
        raise _WrongError("UnknownWord", f"must be one of {', '.join(words)}", remedy)

    return read


def _plain(value: Any) -> Any:
    if isinstance(value, _Object):
        return {key: _plain(each) for key, each in value.pairs}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


_SCALINGS: Final = frozenset({"devicememoryscaling", "devicecorescaling"})
_SPELT: Final = {"nodeselector": "nodeSelector"}
_READERS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "operatingmode": ("operating_mode", _word(OperatingMode)),
    "devicesplitcount": ("split_count", _integer(1, SPLIT_MAX)),
    "devicememoryscaling": ("memory_scaling", _scaling),
    "devicecorescaling": ("core_scaling", _scaling),
    "preconfigureddevicememory": ("preconfigured_memory_mib", _integer(0, MEMORY_LIMIT_MIB)),
    "libcudaloglevel": ("log_level", _integer(0, LOG_LEVEL_MAX)),
    "enablenumatopology": ("numa_topology", _flag),
    "migstrategy": ("mig_strategy", _word(MigStrategy)),
    "enablegetpreferredallocation": ("preferred_allocation", _flag),
}
"""HAMi's keys: the field that each sets, and how it is read."""
