"""The slices that are held against one another."""

from dra.layout import build_slices
from gpu import names
from kube.objects import JsonObject
from tests.cluster.bench.fleet import GPUS, OURS, SLIM, WHOLE, Shape


def _devices(shape: Shape) -> list[JsonObject]:
    (made,) = shape.slices("node-a", "uid-a")
    return list(made["spec"]["devices"])


def test_every_shape_has_the_same_gpus() -> None:
    """A node's devices have the same names in each shape, and other ones on another node."""
    named = {shape.name: [each["name"] for each in _devices(shape)] for shape in (WHOLE, OURS)}
    assert named["whole"] == named["share"] == [each["name"] for each in _devices(SLIM)]
    assert len(set(named["share"])) == GPUS
    (elsewhere,) = OURS.slices("node-b", "uid-b")
    assert not {each["name"] for each in elsewhere["spec"]["devices"]} & set(named["share"])


def test_slim_differs_by_its_attributes_alone() -> None:
    """Fewer attributes, and all else as published, `mode` included, which classes select by."""
    for slim, ours in zip(_devices(SLIM), _devices(OURS), strict=True):
        assert slim["attributes"].items() < ours["attributes"].items()
        assert "mode" in slim["attributes"]
        assert {**slim, "attributes": None} == {**ours, "attributes": None}


def test_whole_is_as_plain_as_what_kubernetes_measures() -> None:
    """Thirteen attributes, two capacities, nothing shared, and a driver of its own."""
    (made,) = WHOLE.slices("node-a", "uid-a")
    assert made["spec"]["driver"] != names.DRIVER
    for device in made["spec"]["devices"]:
        assert len(device["attributes"]) == 13
        assert len(device["capacity"]) == 2
        assert "allowMultipleAllocations" not in device


def test_ours_is_what_the_agent_lays_out() -> None:
    """The slice is one of `build_slices`, with all devices shared."""
    (made,) = OURS.slices("node-a", "uid-a")
    devices = made["spec"]["devices"]
    assert made == build_slices(devices, node_name="node-a", node_uid="uid-a")[0]
    assert all(each["allowMultipleAllocations"] for each in devices)
