"""Label and field selectors choose what the real grammar says."""

import pytest

from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import JsonObject
from sim.apiserver.selectors import selection
from tests.sim.apiserver.builders import resource_slice


def _labelled(**labels: str) -> JsonObject:
    return {"metadata": {"name": "x", "namespace": "ns", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "accepted"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1 , b = 2", True),
        ("a=2", False),
        ("a!=2", True),
        ("a!=1", False),
        ("c!=1", True),
        ("c=", False),
        ("a in (1, 3)", True),
        ("a in (2,3)", False),
        ("a notin (2,3)", True),
        ("c notin (1)", True),
        ("a", True),
        ("c", False),
        ("!c", True),
        ("!a", False),
        ("a in (1),!c,b", True),
        ("example.com/in=x", False),
    ],
)
def test_label_selectors(selector: str, *, accepted: bool) -> None:
    """Equality, sets and existence."""
    chosen = selection("pods", None, selector, "")
    assert chosen.accepts(_labelled(a="1", b="2")) is accepted


@pytest.mark.parametrize("selector", ["=1", "a in 1", "a,,b", "a=1)", "a in (1", "a b"])
def test_broken_selectors_are_refused(selector: str) -> None:
    """What cannot be parsed is a 400, never a selector that takes everything."""
    with pytest.raises(StatusError) as caught:
        selection("pods", None, selector, "")
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("selector", "accepted"),
    [
        ("spec.nodeName=node-a", True),
        ("spec.nodeName=node-b", False),
        ("spec.driver!=other,metadata.name=slice", True),
        ("spec.pool.name=node-a", True),
        ("metadata.namespace=", True),
    ],
)
def test_field_selectors(selector: str, *, accepted: bool) -> None:
    """Fields compare by their text; an absent one is empty."""
    chosen = selection("resourceslices", None, "", selector)
    assert chosen.accepts(resource_slice()) is accepted


@pytest.mark.parametrize(
    ("plural", "selector"),
    [
        ("resourceslices", "spec.nodename=a"),
        ("configmaps", "data.key=a"),
        ("pods", "spec.nodeName"),
    ],
)
def test_unsupported_fields_are_refused(plural: str, selector: str) -> None:
    """A field that a resource does not select by is a 400."""
    with pytest.raises(StatusError) as caught:
        selection(plural, None, "", selector)
    assert caught.value.code == 400


def test_a_namespace_selects() -> None:
    """A namespaced list holds that namespace only."""
    assert selection("pods", "ns", "", "").accepts(_labelled())
    assert not selection("pods", "n", "", "").accepts(_labelled())
