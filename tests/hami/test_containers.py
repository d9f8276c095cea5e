"""Tests of the way to a pod's containers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.containers import ContainerKind, all_containers

_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_order_kinds_and_places() -> None:
    """Init containers come first, sidecars are told from them, ephemeral ones are left out."""
    pod = {
        "spec": {
            "containers": [{"name": "app"}],
            "initContainers": [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}],
            "ephemeralContainers": [{"name": "debug"}],
        }
    }
    found = all_containers(pod)
    assert [(each.name, each.kind) for each in found] == [
        ("fetch", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
        ("app", ContainerKind.APP),
    ]
    assert found[1].pointer == "/spec/initContainers/1"
    assert found[2].path == "spec.containers[0]"
    assert found[0].raw is pod["spec"]["initContainers"][0]


def test_an_app_container_is_never_a_sidecar() -> None:
    """A restart policy makes a sidecar of init containers alone."""
    (found,) = all_containers({"spec": {"containers": [{"name": "a", "restartPolicy": "Always"}]}})
    assert found.kind is ContainerKind.APP


@pytest.mark.parametrize("section", ["initContainers", "containers"])
def test_places_count_what_is_left_out(section: str) -> None:
    """What is no container is left out and does not move the others."""
    (found,) = all_containers({"spec": {section: [None, {"name": "b"}]}})
    assert found.pointer == f"/spec/{section}/1"


@given(st.dictionaries(st.text(max_size=5), _JSON) | st.fixed_dictionaries({"spec": _JSON}))
def test_any_json_is_taken(pod: dict[str, Any]) -> None:
    """Nothing is raised, whatever stands for a pod."""
    assert all(isinstance(each.raw, dict) for each in all_containers(pod))
