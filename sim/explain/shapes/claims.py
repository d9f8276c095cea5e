"""Claims with what they ask for and what they have."""

from typing import Required

from typing_extensions import TypedDict

from sim.explain.shapes.parts import Amounts, AnyObject, NodeSelector, Selector, Toleration


class _Capacity(TypedDict, total=False):
    requests: dict[str, str | int | float] | None


class _Exactly(TypedDict, total=False):
    deviceClassName: str
    selectors: list[Selector] | None
    allocationMode: str | None
    count: int | None
    adminAccess: bool | None
    tolerations: list[Toleration] | None
    capacity: _Capacity | None


class _Alternative(_Exactly, total=False):
    name: Required[str]


class _Request(TypedDict, total=False):
    name: Required[str]
    exactly: _Exactly | None
    firstAvailable: list[_Alternative] | None


class _Constraint(TypedDict, total=False):
    requests: list[str] | None
    matchAttribute: str | None
    distinctAttribute: str | None


class _Config(TypedDict, total=False):
    requests: list[str] | None


class _Asked(TypedDict, total=False):
    requests: list[_Request] | None
    constraints: list[_Constraint] | None
    config: list[_Config] | None


class _ClaimSpec(TypedDict, total=False):
    devices: _Asked


class _Result(TypedDict, total=False):
    request: Required[str]
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    adminAccess: bool | None
    shareID: str | None
    consumedCapacity: Amounts | None


class _Results(TypedDict, total=False):
    results: list[_Result] | None


class _Allocation(TypedDict, total=False):
    devices: _Results | None
    nodeSelector: NodeSelector | None


class _Consumer(TypedDict, total=False):
    name: str
    uid: str


class _ClaimStatus(TypedDict, total=False):
    allocation: _Allocation | None
    reservedFor: list[_Consumer] | None


class Claim(AnyObject, total=False):
    """A ResourceClaim."""

    spec: Required[_ClaimSpec]
    status: _ClaimStatus | None
