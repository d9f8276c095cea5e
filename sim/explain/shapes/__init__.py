"""What the rules read of each kind of object, so that one that is spoiled can be left out.

An API server gives out nothing else, but dumps may have been written or cut by hand. Only shapes
are checked here; what makes a claim or slice wrong in itself is the scheduler's to say.
"""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from kube.objects import JsonObject
from sim.explain.shapes.claims import Claim
from sim.explain.shapes.parts import AnyObject
from sim.explain.shapes.slices import Class, Rule, Slice
from sim.explain.shapes.workloads import Node, Pod

_SHAPES: dict[str, TypeAdapter[Any]] = {
    "Node": TypeAdapter(Node),
    "Pod": TypeAdapter(Pod),
    "ResourceClaim": TypeAdapter(Claim),
    "ResourceSlice": TypeAdapter(Slice),
    "DeviceClass": TypeAdapter(Class),
    "DeviceTaintRule": TypeAdapter(Rule),
}
_OTHERS = TypeAdapter(AnyObject)


def fault_of(item: JsonObject, kind: str) -> str:
    """Return what is wrong with the shape of *item*, empty if nothing is."""
    try:
        _SHAPES.get(kind, _OTHERS).validate_python(item, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}"
    return ""
