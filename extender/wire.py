"""The messages of a scheduler extender as kube-scheduler writes and reads them.

The types (Kubernetes: `staging/src/k8s.io/kube-scheduler/extender/v1/types.go`) have no JSON tags,
so the keys are Go's field names, capitalised; Go takes any case, and so do we, but write theirs.
Most of a body is never looked at: thousands of names, or whole Node objects, stay the bytes they
came as.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from hami.containers import JsonObject

Raw = msgspec.Raw

_NULL: Final = (b"", b"null")


class WireError(ValueError):
    """A body that is no such message; the text is for whoever sent it."""


class Names:
    """The `NodeNames` of a request, decoded only for those who need them all."""

    __slots__ = ("_found", "_listed", "raw")

    def __init__(self, raw: bytes) -> None:
        """Take a JSON array of strings as it came."""
        self.raw = raw
        self._listed: tuple[str, ...] | None = None
        self._found: str | None = None
        """The last that was found to be there: it is asked for again."""

    @classmethod
    def of(cls, names: Sequence[str]) -> "Names":
        """Make one of *names*."""
        made = cls(msgspec.json.encode(list(names)))
        made._listed = tuple(names)
        return made

    def listed(self) -> tuple[str, ...]:
        """Return all names in the order in which they were asked; raises `WireError`."""
        if self._listed is None:
            try:
                self._listed = _NAMES.decode(self.raw)
            except msgspec.DecodeError as error:
                message = f"`NodeNames` is no list of names: {error}"
                raise WireError(message) from error
        return self._listed

    def __contains__(self, name: str) -> bool:
        """Tell whether *name* is one of them, without decoding the others.

        A name holds no character that JSON would have to escape, and no other string can contain
        it between plain quotes. Where somebody escapes nevertheless, all are decoded.
        """
        if self._listed is not None or b"\\" in self.raw:
            return name in self.listed()
        if name == self._found:
            return True
        if b'"%b"' % name.encode() not in self.raw:
            return False
        self._found = name
        return True


class FilterArgs(msgspec.Struct, gc=False):
    """`ExtenderArgs`; a key that is absent or null is `None`."""

    pod: JsonObject | None = None
    nodes: bytes | None = None
    """A NodeList, undecoded."""
    names: Names | None = None


class SentNode(msgspec.Struct, gc=False):
    """What is read of one node of a NodeList, and its bytes."""

    name: str
    annotations: dict[str, str]
    labels: dict[str, str]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    raw: bytes


class BindingArgs(msgspec.Struct, gc=False):
    """`ExtenderBindingArgs`."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


class _Args(msgspec.Struct):
    Pod: JsonObject | None = None
    Nodes: Raw = Raw(b"")
    NodeNames: Raw = Raw(b"")


class _Binding(msgspec.Struct):
    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Status(msgspec.Struct):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])
_ARGS: Final = msgspec.json.Decoder(_Args)
_BINDING: Final = msgspec.json.Decoder(_Binding)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_NODE_LIST: Final = msgspec.json.Decoder(_NodeList)
_NODE: Final = msgspec.json.Decoder(_Node)
_ENCODER: Final = msgspec.json.Encoder()
_ARGS_KEYS: Final = {key.lower(): key for key in _Args.__struct_fields__}
_BINDING_KEYS: Final = {key.lower(): key for key in _Binding.__struct_fields__}


def read_filter(body: bytes) -> FilterArgs:
    """Read `ExtenderArgs`; raises `WireError`."""
    found: _Args = _decode(_ARGS, body)
    nodes, names = bytes(found.Nodes), bytes(found.NodeNames)
    if found.Pod is None or not nodes or not names:
        # kube-scheduler writes all three keys, be it as null; others may spell them otherwise.
        found = _decode(_ARGS, _capitalised(body, _ARGS_KEYS))
        nodes, names = bytes(found.Nodes), bytes(found.NodeNames)
    return FilterArgs(
        pod=found.Pod,
        nodes=None if nodes in _NULL else nodes,
        names=None if names in _NULL else Names(names),
    )


def read_binding(body: bytes) -> BindingArgs:
    """Read `ExtenderBindingArgs`; raises `WireError`."""
    said: _Binding = _decode(_BINDING, _capitalised(body, _BINDING_KEYS))
    found = BindingArgs(
        pod_name=said.PodName, pod_namespace=said.PodNamespace, pod_uid=said.PodUID, node=said.Node
    )
    if not (found.pod_name and found.pod_namespace and found.node):
        message = "extender binding args need PodName, PodNamespace and Node"
        raise WireError(message)
    return found


def read_nodes(raw: bytes) -> tuple[SentNode, ...]:
    """Read what matters of a NodeList; raises `WireError`."""
    said: _NodeList = _decode(_NODE_LIST, raw)
    return tuple(_node(bytes(each)) for each in said.items or ())


def _node(raw: bytes) -> SentNode:
    said: _Node = _decode(_NODE, raw)
    return SentNode(
        name=said.metadata.name,
        annotations=said.metadata.annotations or {},
        labels=said.metadata.labels or {},
        capacity=said.status.capacity or {},
        allocatable=said.status.allocatable or {},
        raw=raw,
    )


def filter_result(
    *,
    names: bytes | None = None,
    nodes: bytes | None = None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> bytes:
    """Write `ExtenderFilterResult`; *names* and *nodes* are JSON already.

    The order of the keys is that of Go's fields.
    """
    return b"".join(
        (
            b'{"Nodes":',
            nodes or b"null",
            b',"NodeNames":',
            names or b"null",
            b',"FailedNodes":',
            _ENCODER.encode(failed) if failed else b"null",
            b',"FailedAndUnresolvableNodes":',
            _ENCODER.encode(unresolvable) if unresolvable else b"null",
            b',"Error":',
            _ENCODER.encode(error),
            b"}",
        )
    )


def node_list(nodes: Sequence[bytes]) -> bytes:
    """Write a NodeList of nodes that are JSON already."""
    return b'{"metadata":{},"items":[' + b",".join(nodes) + b"]}"


def name_list(name: str) -> bytes:
    """Write a list of one name."""
    return _ENCODER.encode([name])


def binding_result(error: str = "") -> bytes:
    """Write `ExtenderBindingResult`."""
    return _ENCODER.encode({"Error": error})


def host_priorities(scores: Sequence[tuple[str, int]]) -> bytes:
    """Write a `HostPriorityList`."""
    return _ENCODER.encode([{"Host": host, "Score": score} for host, score in scores])


def _decode(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the body cannot be read: {error}"
        raise WireError(message) from error


def _capitalised(body: bytes, keys: Mapping[str, str]) -> bytes:
    """Return *body* with Go's spelling of its *keys*; of two spellings the last counts."""
    said: dict[str, Raw] = _decode(_OBJECT, body)
    return _ENCODER.encode(
        {keys[key.lower()]: value for key, value in said.items() if key.lower() in keys}
    )
