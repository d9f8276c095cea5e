"""Dumps may have been cut or written by hand: whatever stands in them, there is an answer."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cli.explain import protocol
from cli.explain.errors import InputError
from cli.explain.legacy import Terms, explain_legacy
from hami.deviceconfig import DeviceConfig
from hami.vendors import from_sections
from kube.objects import ObjectKey
from sim.explain.model import Verdict
from tests.cli.explain.legacyworld import (
    NAMESPACE,
    POD,
    SCHEDULER,
    busy_cluster,
    material,
    quota,
    text_of,
)
from tests.sim.explain.world import Json

CONFIG = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["-1", "1e9"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def places(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below *item*."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(item, dict):
        pairs = list(item.items())
    elif isinstance(item, list):
        pairs = list(enumerate(item))
    return [path] * bool(path) + [each for key, it in pairs for each in places(it, (*path, key))]


@given(st.data())
def test_an_odd_value_anywhere_is_answered(data: st.DataObject) -> None:
    """With one value exchanged there still is an explanation, or a sentence why there is none."""
    items: list[Any] = deepcopy([*busy_cluster(), quota(gpumem="30000")])
    where = data.draw(st.sampled_from(places(items)))
    parent: Any = items
    for key in where[:-1]:
        parent = parent[key]
    parent[where[-1]] = data.draw(ODD)
    whole = [item for item in items if isinstance(item, dict) and _is_named(item)]
    cluster = material(whole)
    pod = cluster.snapshot.pods.get(ObjectKey(NAMESPACE, POD))
    if pod is None or not protocol.decides(pod, cluster.snapshot, CONFIG):
        return
    try:
        said = explain_legacy(cluster, pod, Terms(config=CONFIG, scheduler_name=SCHEDULER))
    except InputError:
        return
    assert said is not None
    assert said.verdict in Verdict
    assert text_of(said)


def _is_named(item: Json) -> bool:
    """Tell what the reader of dumps lets in."""
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("name"))
