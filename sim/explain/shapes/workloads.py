"""Nodes and pods."""

from typing import Any, Required

from typing_extensions import TypedDict

from sim.explain.shapes.parts import (
    Amounts,
    AnyObject,
    Named,
    NodeSelector,
    Taint,
    Texts,
    Toleration,
)


class _NodeSpec(TypedDict, total=False):
    unschedulable: bool | None
    taints: list[Taint] | None


class _NodeStatus(TypedDict, total=False):
    allocatable: Amounts | None
    nodeInfo: dict[str, Any] | None


class Node(AnyObject, total=False):
    """A Node."""

    spec: _NodeSpec | None
    status: _NodeStatus | None


class _Resources(TypedDict, total=False):
    limits: Amounts | None
    requests: Amounts | None


class _Container(TypedDict, total=False):
    name: Required[str]
    resources: _Resources | None


class _PodClaim(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str | None
    resourceClaimTemplateName: str | None


class _NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None


class _Affinity(TypedDict, total=False):
    nodeAffinity: _NodeAffinity | None


class _PodSpec(TypedDict, total=False):
    nodeName: str | None
    schedulerName: str | None
    nodeSelector: Texts | None
    affinity: _Affinity | None
    tolerations: list[Toleration] | None
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resourceClaims: list[_PodClaim] | None
    schedulingGates: list[Named] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str
    message: str | None


class _PodStatus(TypedDict, total=False):
    phase: str | None
    conditions: list[_Condition] | None
    resourceClaimStatuses: list[_PodClaim] | None


class Pod(AnyObject, total=False):
    """A Pod."""

    spec: Required[_PodSpec]
    status: _PodStatus | None
