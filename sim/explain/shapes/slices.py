"""What is published: slices, and what administrators say of devices."""

from typing import Annotated, Any, Required

from pydantic import AfterValidator
from typing_extensions import TypedDict

from kube.objects import JsonObject
from sim.explain.shapes.parts import Amount, AnyObject, NodeSelector, Selector, Taint, Texts


def _kept(attribute: JsonObject) -> JsonObject:
    if not attribute:
        raise ValueError("the attribute has no value of a kind that is known")
    return attribute


_Int = int
_Bool = bool


class _Kinds(TypedDict, total=False):
    int: _Int
    bool: _Bool
    string: str
    version: str
    ints: list[_Int]
    bools: list[_Bool]
    strings: list[str]
    versions: list[str]


_Attribute = Annotated[_Kinds, AfterValidator(_kept)]


class _Range(TypedDict, total=False):
    min: Amount | None
    max: Amount | None
    step: Amount | None


class _Policy(TypedDict, total=False):
    default: Amount | None
    validValues: list[Amount] | None
    validRange: _Range | None


class _DeviceCapacity(TypedDict, total=False):
    value: Required[Amount]
    requestPolicy: _Policy | None


class _Counter(TypedDict, total=False):
    value: Required[Amount]


class _Consumes(TypedDict, total=False):
    counterSet: Required[str]
    counters: dict[str, _Counter] | None


class _CounterSet(TypedDict, total=False):
    name: Required[str]
    counters: dict[str, _Counter] | None


class _Device(TypedDict, total=False):
    name: Required[str]
    attributes: dict[str, _Attribute] | None
    capacity: dict[str, _DeviceCapacity] | None
    consumesCounters: list[_Consumes] | None
    taints: list[Taint] | None
    nodeName: str | None
    nodeSelector: NodeSelector | None
    allNodes: bool | None
    bindingConditions: list[str] | None
    bindingFailureConditions: list[str] | None


class _Pool(TypedDict, total=False):
    name: Required[str]
    generation: int | None
    resourceSliceCount: Required[int]


class _SliceSpec(TypedDict, total=False):
    driver: Required[str]
    pool: Required[_Pool]
    nodeName: str | None
    nodeSelector: NodeSelector | None
    sharedCounters: list[_CounterSet] | None
    devices: list[_Device] | None


class Slice(AnyObject, total=False):
    """A ResourceSlice."""

    spec: Required[_SliceSpec]


class _ClassSpec(TypedDict, total=False):
    selectors: list[Selector] | None
    config: list[dict[str, Any]] | None
    extendedResourceName: str | None


class Class(AnyObject, total=False):
    """A DeviceClass."""

    spec: _ClassSpec | None


class _RuleSpec(TypedDict, total=False):
    deviceSelector: Texts | None
    taint: Required[Taint]


class Rule(AnyObject, total=False):
    """A DeviceTaintRule."""

    spec: Required[_RuleSpec]
