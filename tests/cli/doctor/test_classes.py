"""The check of our DeviceClasses."""

import pytest
import yaml

from cli.demo.scenes import CLASSES as FOLDER
from cli.demo.scenes import examples_directory
from cli.doctor.cluster.classes import SELECTORS, selectors
from cli.doctor.model import Status
from tests.cli.doctor.world import CLASSES, classes, world


def test_expected_classes_are_those_that_are_applied() -> None:
    """What the check expects is what administrators are given to apply."""
    found = [
        each
        for path in (examples_directory() / FOLDER).glob("*.yaml")
        for each in yaml.safe_load_all(path.read_text())
    ]
    assert {each["metadata"]["name"]: selectors(each) for each in found} == {
        name: [text] for name, text in SELECTORS.items()
    }


def test_classes_are_there() -> None:
    """All three, and what one of them is called as an extended resource."""
    with world() as at:
        made = classes()
        made[0]["spec"]["extendedResourceName"] = "example.com/gpu"
        at.put(CLASSES, *made)
        verdict = at.verdict("device-classes")
        assert verdict.status is Status.OK
        assert verdict.seen.endswith("; gpu.gpuslice.io as example.com/gpu")


def test_missing_class_is_named() -> None:
    """Without a class claims for it wait for ever."""
    with world() as at:
        at.put(CLASSES, *classes()[:2])
        verdict = at.verdict("device-classes")
        assert (verdict.status, verdict.seen) == (Status.FAILED, "not there: mig.gpuslice.io")


@pytest.mark.parametrize("change", ["true", 'device.driver == "gpuslice.io"'])
def test_changed_class_is_shown(change: str) -> None:
    """What a class says now stands beside its name; blanks alone are no change."""
    with world() as at:
        made = classes()
        cel = made[0]["spec"]["selectors"][0]["cel"]
        cel["expression"] = cel["expression"].replace(" && ", " &&\n   ")
        made[1]["spec"]["selectors"][0]["cel"]["expression"] = change
        at.put(CLASSES, *made)
        verdict = at.verdict("device-classes")
        assert (verdict.status, verdict.seen) == (Status.WARNING, "changed: share.gpuslice.io")
        assert verdict.details == (f"share.gpuslice.io: {change}",)
