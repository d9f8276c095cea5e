"""The rules are those of the cluster: its release, and the gates that its objects show."""

from typing import Any

import pytest

from sim.explain.answers import Answers
from sim.explain.errors import RulesUnknownError
from sim.explain.rules import NEWEST, RELEASES, Rules, rules_of
from sim.scheduler.allocator import Allocator
from tests.sim.explain.world import (
    asking,
    claim,
    device_codes,
    explained,
    gpu,
    node,
    pod,
    published,
    snapshot,
    whole,
)

TAINT = {"key": "example.com/sick", "effect": "NoSchedule"}
RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "sick"},
    "spec": {"deviceSelector": {"device": "g0"}, "taint": TAINT},
}
COUNTERS = [{"name": "slots", "counters": {}}]


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_an_allocator(release: str) -> None:
    """What is offered is known to the scheduler."""
    assert isinstance(Rules(release=release).allocator(Answers()), Allocator)


@pytest.mark.parametrize(
    ("version", "release", "noted"),
    [
        ("v1.37.2", "1.37", False),
        ("1.36", "1.36", False),
        ("v1.35.0+k3s1", "1.35", False),
        ("v1.99.0", NEWEST, True),
        ("v1.33.4", "1.34", True),
        ("", "1.37", False),
    ],
)
def test_the_nearest_release_is_taken(version: str, release: str, *, noted: bool) -> None:
    """A version that is not known is told; without one the nodes' kubelets say it."""
    rules = rules_of(version, snapshot(node("a")))
    assert (rules.release, bool(rules.note)) == (release, noted)


def test_a_cluster_that_says_nothing_is_new() -> None:
    """Without version and nodes the newest rules are taken, and it is said."""
    rules = rules_of("", snapshot())
    assert (rules.release, rules.note.endswith(NEWEST)) == (NEWEST, True)


@pytest.mark.parametrize(
    ("device", "spec", "gate"),
    [
        (gpu("g0"), {}, "DRAConsumableCapacity"),
        (whole("g0", taints=[TAINT]), {}, "DRADeviceTaints"),
        (whole("g0", bindingConditions=["example.com/ready"]), {}, "DRADeviceBindingConditions"),
        (whole("g0"), {"sharedCounters": COUNTERS}, "DRAPartitionableDevices"),
    ],
)
def test_a_field_that_is_kept_shows_its_gate(device: Any, spec: Any, gate: str) -> None:
    """What 1.35 has off by default is on where its objects have the field."""
    cluster = snapshot(node("a"), published("a", device, **spec))
    assert rules_of("v1.35.1", cluster).gates == {gate: True}
    assert rules_of("v1.37.1", cluster).gates == {}


def test_lists_and_taint_rules_show_their_gates() -> None:
    """Gates that are off in the newest release too are seen in the objects."""
    device = whole("g0", attributes={"zones": {"strings": ["x"]}})
    assert rules_of("v1.37.0", snapshot(published("a", device))).gates == {
        "DRAListTypeAttributes": True
    }
    assert rules_of("v1.36.0", snapshot(RULE)).gates == {"DRADeviceTaintRules": True}


def test_what_the_user_says_counts_more() -> None:
    """A gate that is named wins over what shows; an unknown one is refused."""
    cluster = snapshot(published("a", gpu("g0")))
    named = rules_of("v1.35.0", cluster, gates={"DRAConsumableCapacity": False})
    assert named.gates == {"DRAConsumableCapacity": False}
    with pytest.raises(RulesUnknownError, match="DRANonsense"):
        Rules(release="1.37", gates={"DRANonsense": True}).allocator(Answers())


def test_a_taint_rule_counts_like_a_taint() -> None:
    """A device that an administrator has tainted from outside is refused for it."""
    items = [node("a"), published("a", gpu("g0")), RULE, pod(), claim(asking())]
    said = explained(*items, DRADeviceTaintRules=True)
    assert device_codes(said) == ["TaintNotTolerated"]
    assert [it.code for it in said.changes] == ["TolerateDeviceTaint"]
