"""What the chart says of the scheduler, as its programs read it."""

from collections.abc import Sequence
from typing import Final

import yaml

from extender.settings import ExtenderSettings
from tests.charts.rendering import Object, container, merged, nested, one

NAME: Final = "gpuslice-scheduler"
HAMI: Final[Object] = {"mode": "hami"}
ALONE: Final = merged(HAMI, nested("scheduler.kubeScheduler.enabled", False))
"""Its kube-scheduler is run elsewhere."""


def configuration(objects: Sequence[Object]) -> Object:
    """Return kube-scheduler's configuration."""
    found = yaml.safe_load(one(objects, "ConfigMap", NAME)["data"]["config.yaml"])
    assert isinstance(found, dict)
    return found


def asked(objects: Sequence[Object]) -> Object:
    """Return what that says of the extender."""
    (found,) = configuration(objects)["extenders"]
    assert isinstance(found, dict)
    return found


def managed(objects: Sequence[Object]) -> dict[str, bool]:
    """Return by the name of each resource whether kube-scheduler ignores it."""
    said = asked(objects)["managedResources"]
    assert len({each["name"] for each in said}) == len(said)
    return {each["name"]: each["ignoredByScheduler"] for each in said}


def settings(objects: Sequence[Object]) -> ExtenderSettings:
    """Return what the extender makes of its flags."""
    program, *flags = container(one(objects, "Deployment", NAME), "extender")["args"]
    assert program == "extender"
    return ExtenderSettings.from_arguments(flags, program="gpuslice-extender")


def image(objects: Sequence[Object]) -> str:
    """Return the image of kube-scheduler."""
    return str(container(one(objects, "Deployment", NAME), "kube-scheduler")["image"])
