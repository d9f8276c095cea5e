"""The messages of an extender."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import wire
from extender.wire import Names, WireError

_NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)


def test_go_spelling_is_read() -> None:
    """All three keys as kube-scheduler writes them."""
    body = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}'
    args = wire.read_filter(body)
    assert args.pod == {"metadata": {"name": "p"}}
    assert args.nodes is None
    assert args.names is not None
    assert args.names.listed() == ("a", "b")


@pytest.mark.parametrize(
    "spelled", ["pod nodes nodenames", "POD NODES NODENAMES", "Pod x nodeNames"]
)
def test_any_case_is_read(spelled: str) -> None:
    """Go takes keys in any case, also when one of them has its usual one."""
    pod, nodes, names = spelled.split()
    body = json.dumps({pod: {"spec": {}}, nodes: None, names: ["a"]}).encode()
    args = wire.read_filter(body)
    assert args.pod == {"spec": {}}
    assert args.names is not None
    assert "a" in args.names


def test_absent_and_null_are_the_same() -> None:
    """Neither a pod nor names are made up."""
    for body in (b"{}", b'{"Pod":null,"Nodes":null,"NodeNames":null}'):
        args = wire.read_filter(body)
        assert (args.pod, args.nodes, args.names) == (None, None, None)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", b'"x"', b'{"Pod":[]}', b'{"Pod":1}', b"\xff", b"[" * 9999]
)
def test_what_is_no_message_is_an_error(body: bytes) -> None:
    """Every odd body ends in one kind of error."""
    with pytest.raises(WireError):
        wire.read_filter(body)


@given(st.lists(_NAME, max_size=20), _NAME)
def test_membership_is_that_of_the_list(listed: list[str], name: str) -> None:
    """Looking into the bytes finds exactly what decoding finds, however they are spaced."""
    for raw in (json.dumps(listed), json.dumps(listed, separators=(",", ":"), indent=1)):
        assert (name in Names(raw.encode())) == (name in listed)
        assert Names(raw.encode()).listed() == tuple(listed)


def test_escaped_names_are_found() -> None:
    """A name that is written with escapes is the same name."""
    names = Names(rb'["\u006eode-1", "quoted \"node-2\" here"]')
    assert "node-1" in names
    assert "node-2" not in names


def test_names_must_be_strings() -> None:
    """Anything else in the list is an error where all are needed."""
    for raw in (b"[1]", b'{"a":1}', b'[["a"]]'):
        with pytest.raises(WireError):
            Names(raw).listed()


def test_nodes_are_read_without_losing_bytes() -> None:
    """What decides is decoded, the rest stays as it came."""
    node = {
        "metadata": {"name": "a", "annotations": {"k": "v"}, "labels": {"l": "1"}},
        "status": {
            "capacity": {"cpu": "1"},
            "allocatable": {"cpu": "0"},
            "images": [{"names": []}],
        },
    }
    raw = json.dumps({"metadata": {}, "items": [node, {"metadata": {"name": "b"}}]}).encode()
    first, second = wire.read_nodes(raw)
    assert (first.name, first.annotations, first.labels) == ("a", {"k": "v"}, {"l": "1"})
    assert (first.capacity, first.allocatable) == ({"cpu": "1"}, {"cpu": "0"})
    assert json.loads(first.raw) == node
    assert (second.name, second.annotations, second.capacity) == ("b", {}, {})
    assert wire.read_nodes(b'{"items":null}') == ()
    with pytest.raises(WireError):
        wire.read_nodes(b'{"items":[{"metadata":{"name":1}}]}')


def test_results_have_gos_fields_in_their_order() -> None:
    """Also what is null is there."""
    answer = wire.filter_result(names=wire.name_list("gpu1"))
    assert answer == (
        b'{"Nodes":null,"NodeNames":["gpu1"],"FailedNodes":null,'
        b'"FailedAndUnresolvableNodes":null,"Error":""}'
    )
    failed = json.loads(wire.filter_result(failed={"a": 'say "no"'}, unresolvable={"b": "never"}))
    assert failed["FailedNodes"] == {"a": 'say "no"'}
    assert failed["FailedAndUnresolvableNodes"] == {"b": "never"}
    assert json.loads(wire.filter_result(error="no")) == {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "no",
    }
    assert wire.binding_result() == b'{"Error":""}'
    assert json.loads(wire.host_priorities([("a", 10)])) == [{"Host": "a", "Score": 10}]
    assert json.loads(wire.node_list([b'{"x":1}', b"{}"]))["items"] == [{"x": 1}, {}]


def test_bindings_are_read_in_any_case() -> None:
    """A binding needs a pod and a node; its UID may be missing, as from old schedulers."""
    args = wire.read_binding(b'{"podname":"p","PodNamespace":"ns","PODUID":"u","node":"n"}')
    assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == ("p", "ns", "u", "n")
    for body in (b"{}", b"null", b"", b'{"PodName":1}', b'{"PodName":"p","PodNamespace":"n"}'):
        with pytest.raises(WireError):
            wire.read_binding(body)
