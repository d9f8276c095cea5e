"""Cases of what each vendor's devices are given, as data: one file for each kind of hardware.

A file speaks of one backend or of several that differ in words alone; `$word`, and whatever else
stands beside the word, is filled in. Resources have short names. `keys` are those of the pod's
lists of devices and are written out, since a table that the program reads could not tell that it
is wrong. A scenario begins on fresh nodes in a namespace of its own, and a step asks `/filter` and,
where it is given devices, `/bind`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Any, Final

import yaml

Json = dict[str, Any]

FOLDER: Final = Path(__file__).parent / "hardware"
RESTART: Final = "restart"
_OUTCOMES: Final = {"gets", "refused", "error"}


class Kind(StrEnum):
    """What a scenario shows."""

    FORM = "form"
    """The vendor's own registration is read and its own annotations are written."""
    RULE = "rule"
    """A rule of the vendor's own lets one pod through and keeps another out."""
    CHOICE = "choice"
    """Among nodes that fit it is the vendor's own score that decides."""
    CONFIGURED = "configured"
    """A setting of the vendor's section acts, on a program that has it."""
    QUOTA = "quota"
    """A ResourceQuota holds."""
    RESTART = "restart"
    """A program that starts from nothing sees what is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One pod and what becomes of it."""

    containers: tuple[Mapping[str, Any], ...]
    """Amounts by resource; an empty one asks for nothing."""
    init: tuple[Mapping[str, Any], ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    """The pod's annotations."""
    gets: str | None = None
    """The list of its devices, byte by byte; `None` where it is refused."""
    also: Mapping[str, str] = field(default_factory=dict)
    """All further annotations that are written."""
    on: str = ""
    """The node; the only one where there is one."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By node; beside a node that was given it may be another's refusal."""
    error: str = ""
    """A part of an error for the pod as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Steps in their order; those of `after` are played on a program that starts from nothing."""

    word: str
    kind: Kind
    name: str
    """Of a rule, the rule."""
    nodes: tuple[Json, ...]
    keys: tuple[str, ...]
    """The annotations that carry the list of devices."""
    lock: str
    """The annotation of a node that a binding holds; empty for none."""
    quota: Mapping[str, str]
    before: tuple[Step, ...]
    after: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of them."""
        return (*self.before, *self.after)

    def __str__(self) -> str:
        return f"{self.word}: {self.kind}: {self.name}"


def scenarios() -> Iterator[Scenario]:
    """Yield all scenarios of all backends."""
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text()
        for word, said in yaml.safe_load(text)["words"].items():
            filled = Template(text).substitute({"word": word, **(said or {})})
            yield from _of_file(yaml.safe_load(filled), word)


def _of_file(said: Json, word: str) -> Iterator[Scenario]:
    short = said["resources"]
    for each in said["scenarios"]:
        kind = next(kind for kind in Kind if kind in each)
        steps = each["steps"]
        cut = steps.index(RESTART) if RESTART in steps else len(steps)
        nodes = tuple(_node(name, said["nodes"][name], short) for name in _listed(each["nodes"]))
        told = [_step(step, short, nodes) for step in steps if step != RESTART]
        yield Scenario(
            word=word,
            kind=kind,
            name=each[kind],
            nodes=nodes,
            keys=tuple(said["keys"]),
            lock=said["lock"] or "",
            quota={f"limits.{short[key]}": str(value) for key, value in _quota(each)},
            before=tuple(told[:cut]),
            after=tuple(told[cut:]),
        )


def _quota(scenario: Json) -> list[tuple[str, Any]]:
    return list((scenario.get("limits") or {}).items())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _node(name: str, said: Json, short: Mapping[str, str]) -> Json:
    capacity = {short[key]: str(value) for key, value in said["capacity"].items()}
    metadata = {"name": name, "annotations": said.get("annotations") or {}}
    if "labels" in said:
        metadata["labels"] = said["labels"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _step(said: Json, short: Mapping[str, str], nodes: tuple[Json, ...]) -> Step:
    assert _OUTCOMES & said.keys(), f"nothing comes of {said}"
    names = [node["metadata"]["name"] for node in nodes]
    refused = said.get("refused") or {}
    return Step(
        containers=tuple(_amounts(each, short) for each in _listed(said["pod"])),
        init=tuple(_amounts(each, short) for each in said.get("init") or ()),
        notes=said.get("notes") or {},
        gets=said.get("gets"),
        also=said.get("also") or {},
        on=said.get("node", names[0]),
        refused=dict.fromkeys(names, refused) if isinstance(refused, str) else refused,
        error=said.get("error", ""),
    )


def _amounts(said: Mapping[str, Any], short: Mapping[str, str]) -> dict[str, str]:
    return {short[key]: str(amount) for key, amount in said.items()}
