"""What one attempt looks at: a node with its pools, the classes, and what is taken already."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kube.objects import JsonObject
from sim.scheduler.devices import Device
from sim.scheduler.features import Features
from sim.scheduler.nodes import Node
from sim.scheduler.pools import Pool
from sim.scheduler.requests import Claim
from sim.scheduler.usage import Usage

Matches = Callable[[str, Device], bool]
"""Tells whether a device satisfies an expression; raises `CelError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The inputs of one attempt; nothing in it changes."""

    node: Node
    pools: tuple[Pool, ...]
    classes: Mapping[str, JsonObject]
    usage: Usage
    features: Features
    claims: tuple[Claim, ...]
    matches: Matches
