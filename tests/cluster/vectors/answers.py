"""What a real scheduler's answer is, as data: devices, or the kind of its refusal with its words.

Kinds: `rejected` (the API server takes an object of the case not), `fatal` (an error that stops the
pod on all nodes), `class` (a device class is missing), and per node `none` (cannot allocate all
claims), `node` (an error of this node alone), `unreachable` (the devices of an allocated claim are
elsewhere) and `other` (not the devices' matter).
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kube.errors import ApiError
from tests.sim.scheduler.vector import Json, with_stars

Answer = Json

_NODES: Final = re.compile(r"0/\d+ nodes are available: (?P<parts>.*?)\.(?: |$)", re.DOTALL)
_PART: Final = re.compile(r"(?P<count>\d+) (?P<text>.*)", re.DOTALL)
_FOREIGN: Final = "node(s) didn't match Pod's node affinity/selector"
_KINDS: Final = (
    (re.compile(r"cannot allocate all claims"), "none"),
    (re.compile(r"resourceclaim not available on the node"), "unreachable"),
    (re.compile(r"device class \S+ does not exist"), "class"),
    (re.compile(r"invalid resource pools were encountered"), "node"),
)


def rejected(what: str, error: ApiError) -> Answer:
    """Return the answer of an API server that does not take an object."""
    return {"refused": "rejected", "object": what, "message": error.message}


def placed(node: str | None, allocations: Sequence[Json], mappings: Sequence[Json] = ()) -> Answer:
    """Return the answer that gives devices; *node* is missing while a binding waits.

    *mappings* say which request serves which container's extended resource.
    """
    kept = [
        {key: value for key, value in each.items() if key != "allocationTimestamp"}
        for each in allocations
    ]
    answer: Answer = {"node": node, "allocations": with_stars(kept)}
    return answer | ({"mappings": list(mappings)} if mappings else {})


def refused(condition: Json) -> Answer:
    """Return the answer that a pod's condition `PodScheduled` gives."""
    message = str(condition["message"])
    if condition["reason"] == "SchedulerError":
        return {"refused": "fatal", "message": message}
    kinds = Counter[str]()
    found = _NODES.match(message)
    for part in re.split(r", (?=\d+ )", found["parts"]) if found else [f"1 {message}"]:
        counted = _PART.match(part)
        count, text = (int(counted["count"]), counted["text"]) if counted else (1, part)
        if not text.startswith(_FOREIGN):
            kinds[kind_of(text)] += count
    return {"refused": dict(sorted(kinds.items())), "message": message}


def kind_of(text: str) -> str:
    """Return the kind of what is said of a node."""
    return next((kind for pattern, kind in _KINDS if pattern.search(text)), "other")
