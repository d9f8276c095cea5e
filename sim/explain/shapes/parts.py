"""What several kinds of objects have in common."""

from typing import Annotated, Any, Required

from pydantic import AfterValidator
from typing_extensions import TypedDict

from sim.scheduler.amounts import parse


def _parsed(value: str | float) -> str | float:
    parse(str(value))
    return value


Amount = Annotated[str | int | float, AfterValidator(_parsed)]
Amounts = dict[str, Amount]
Texts = dict[str, str]


class Owner(TypedDict, total=False):
    """Who an object goes away with."""

    uid: str | None


class Metadata(TypedDict, total=False):
    """What names an object."""

    name: Required[str]
    namespace: str | None
    uid: str | None
    labels: Texts | None
    ownerReferences: list[Owner] | None


class Taint(TypedDict, total=False):
    """What keeps pods or claims away."""

    key: str | None
    value: str | None
    effect: str | None


class Toleration(TypedDict, total=False):
    """What lets a pod or claim in nevertheless."""

    key: str | None
    operator: str | None
    value: str | None
    effect: str | None


class Requirement(TypedDict, total=False):
    """One condition on labels or fields."""

    key: str | None
    operator: str | None
    values: list[str] | None


class Term(TypedDict, total=False):
    """Conditions that hold together."""

    matchExpressions: list[Requirement] | None
    matchFields: list[Requirement] | None


class NodeSelector(TypedDict, total=False):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[Term] | None


class AnyObject(TypedDict, total=False):
    """An object of which only the metadata is read."""

    metadata: Required[Metadata]


class Named(TypedDict, total=False):
    """An entry that has a name."""

    name: Required[str]


class Selector(TypedDict, total=False):
    """An expression about devices."""

    cel: dict[str, Any] | None
